"""`server-dictionary`: the server merges the clients' dictionaries, received in the clear, and publishes the union.

Source: "Privacy-preserving tabular data transformation", section 5.2. Each client tells the server every distinct value
of every categorical feature; counts are not sent. Everyone ends with the same dictionary, so there are no dictionary
problems; the price is that the server reads each client's vocabulary, and every client reads the union.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders.base import Encoder, EncoderFit, distinct_values, merged, public_blocks, shared_encoding
from preprocess.federation import At, Federation


@dataclass(frozen=True)
class ServerDictionary(Encoder):
    name = "server-dictionary"
    reference = "Privacy-preserving tabular data transformation, section 5.2"
    said_to_share = "all values in the clear, with the server; all parties' together, with everyone (section 5.2)"

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        local = {c: fed.local(c, distinct_values, t) for c, t in tables.items()}
        received = fed.gather(local, to=fed.server, topic="dictionary.local")
        union = fed.local(fed.server, lambda *parts: merged(schema, parts), *received)
        dictionary = fed.broadcast(union, topic="dictionary.global")

        encodings = {c: fed.local(c, partial(shared_encoding, self.style, self.unseen), dictionary) for c in tables}
        sizes = {feature: len(values) for feature, values in dictionary.value.items()}
        return EncoderFit(encodings, fed.public(public_blocks, self.style, sizes, dictionary))
