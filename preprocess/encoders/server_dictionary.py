"""`server-dictionary`: the server merges the clients' dictionaries, received in the clear, and publishes the union.

Source: "Privacy-preserving tabular data transformation", section 5.2. Each client tells the server every distinct value
of every categorical feature; counts are not sent. Everyone ends with the same dictionary, so there are no dictionary
problems; the price is that the server reads each client's vocabulary, and every client reads the union.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import (
    Encoder,
    EncoderFit,
    distinct_values,
    merged,
    shared_dictionary,
)
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalDictionary, LocalDictionary


@dataclass(frozen=True)
class ServerDictionary(Encoder):
    name = "server-dictionary"
    reference = "Privacy-preserving tabular data transformation, section 5.2"
    said_to_share = "all values in the clear, with the server; all parties' together, with everyone (section 5.2)"

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        local = {c: fed.local(c, local_dictionary, t) for c, t in tables.items()}
        received = fed.gather(local, to=fed.server)
        dictionary = fed.broadcast(fed.local(fed.server, partial(union, schema), *received))
        return shared_dictionary(fed, self, list(tables), fed.public(lambda told: told.values, dictionary))


def local_dictionary(table: Table) -> LocalDictionary:
    return LocalDictionary(distinct_values(table))


def union(schema: Schema, *parts: LocalDictionary) -> GlobalDictionary:
    return GlobalDictionary(merged(schema, [p.values for p in parts]))
