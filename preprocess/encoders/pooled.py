"""`pooled`: the yardstick. Every client hands its categorical columns to the server, which encodes as if there were one
table.

No federation: it is here to measure against, and the ledger shows what it costs, namely everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders.base import Encoder, EncoderFit, merged, public_blocks, shared_encoding
from preprocess.federation import At, Federation


@dataclass(frozen=True)
class Pooled(Encoder):
    name = "pooled"
    reference = "centralised preprocessing (no federation)"
    said_to_share = "every row, with the server (ours: no federation)"
    federated = False

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        columns = {c: fed.local(c, whole_columns, t) for c, t in tables.items()}
        received = fed.gather(columns, to=fed.server, topic="pooled.categorical")
        union = fed.local(fed.server, lambda *parts: merged(schema, parts), *received)
        dictionary = fed.broadcast(union, topic="pooled.dictionary")

        encodings = {c: fed.local(c, partial(shared_encoding, self.style, self.unseen), dictionary) for c in tables}
        sizes = {feature: len(values) for feature, values in dictionary.value.items()}
        return EncoderFit(encodings, fed.public(public_blocks, self.style, sizes, dictionary))


def whole_columns(table: Table) -> dict[str, list[str]]:
    """Every categorical column, row by row."""
    return {feature: list(table.values(feature)) for feature in table.schema.categorical}
