"""`tally`: one dictionary for everyone, most frequent values first. An example."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import Encoder, EncoderFit, shared_dictionary
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option
from leakledger_tally.messages import TallyCounts, TallyOrder


@dataclass(frozen=True)
class Tally(Encoder):
    at_most: int = option(1_000, at_least=1, help="values of a feature that get a number")

    name = "tally"
    reference = "an example"
    said_to_share = "values with their counts, with the server; all values, with everyone (ours)"

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        counts = {c: fed.local(c, counted, t) for c, t in tables.items()}
        received = fed.gather(counts, to=fed.server)
        order = fed.broadcast(fed.local(fed.server, partial(ordered, self.at_most), *received))
        return shared_dictionary(fed, self, list(tables), fed.public(lambda told: told.values, order))


def counted(table: Table) -> TallyCounts:
    counts = {f: Counter(map(str, table.values(f))) for f in table.schema.categorical}
    return TallyCounts({f: dict(sorted(c.items())) for f, c in counts.items()})  # sorted: not in the order of rows


def ordered(at_most: int, *told: TallyCounts) -> TallyOrder:
    total = {f: sum((Counter(t.counts[f]) for t in told), Counter[str]()) for f in told[0].counts}
    return TallyOrder({f: sorted(c, key=lambda v: (-c[v], v))[:at_most] for f, c in total.items()})
