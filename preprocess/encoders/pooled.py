"""`pooled`: the yardstick. Every client hands its categorical columns to the server, which encodes as if there were one
table.

No federation: it is here to measure against, and the ledger shows what it costs, namely everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import Encoder, EncoderFit, merged, shared_dictionary
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import PooledCategories, PooledDictionary


@dataclass(frozen=True)
class Pooled(Encoder):
    name = "pooled"
    reference = "centralised preprocessing (no federation)"
    said_to_share = "every row, with the server (ours: no federation)"
    federated = False

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        columns = {c: fed.local(c, whole_columns, t) for c, t in tables.items()}
        received = fed.gather(columns, to=fed.server)
        union = fed.local(fed.server, partial(pooled_dictionary, schema), *received)
        dictionary = fed.broadcast(union)

        values = fed.public(lambda told: told.values, dictionary)
        return shared_dictionary(fed, self, list(tables), values)


def whole_columns(table: Table) -> PooledCategories:
    """Every categorical column, row by row."""
    return PooledCategories({feature: list(table.values(feature)) for feature in table.schema.categorical})


def pooled_dictionary(schema: Schema, *parts: PooledCategories) -> PooledDictionary:
    return PooledDictionary(merged(schema, [p.values for p in parts]))
