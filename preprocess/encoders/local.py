"""`local`: every client numbers its own values; only the sizes of the dictionaries are exchanged, for padding.

Source: "Privacy-preserving tabular data transformation", sections 5.1 and 5.3 (first experiment). The paper's clients
"exchange only input sizes to apply the padding". Reading taken: one size per feature (a padded one-hot vector needs
it); the server answers with the largest. The same number means different values at different clients, and the same
value has different numbers: the paper's two dictionary problems, which cost model quality.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import (
    DictionaryEncoding,
    Encoder,
    EncoderFit,
    Style,
    Unseen,
    merged,
    public_blocks,
)
from leakledger.preprocess.encoders.base import distinct_values as own_values
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import LocalSizes, PaddedSizes


@dataclass(frozen=True)
class Local(Encoder):
    name = "local"
    reference = "Privacy-preserving tabular data transformation, sections 5.1 and 5.3"
    said_to_share = "the width of its encoding, for padding (table 5, section 5.3)"

    @property
    def by_own_rows(self) -> bool:
        return True

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        own = {c: fed.local(c, lambda t: merged(schema, [own_values(t)]), t) for c, t in tables.items()}
        sizes = {c: fed.local(c, dictionary_sizes, d) for c, d in own.items()}
        received = fed.gather(sizes, to=fed.server)
        padding = fed.broadcast(fed.local(fed.server, largest, *received))

        encodings = {c: fed.local(c, partial(padded, self.style, self.unseen), d, padding) for c, d in own.items()}
        return EncoderFit(encodings, fed.public(public_blocks, self.style, padding.value.sizes))


def dictionary_sizes(dictionary: Mapping[str, list[str]]) -> LocalSizes:
    return LocalSizes({feature: len(values) for feature, values in dictionary.items()})


def largest(*told: LocalSizes) -> PaddedSizes:
    return PaddedSizes({feature: max(t.sizes[feature] for t in told) for feature in told[0].sizes})


def padded(style: Style, unseen: Unseen, own: Mapping[str, list[str]], padding: PaddedSizes) -> DictionaryEncoding:
    return DictionaryEncoding({f: tuple(v) for f, v in own.items()}, dict(padding.sizes), style, unseen)
