"""Plain aggregation: every client sends its update to the server in the clear, which takes the mean.

Source: McMahan et al. 2017, algorithm 1. The server sees every update; that is what attacks on updates read.
"""

from dataclasses import dataclass
from typing import Literal

from leakledger.preprocess.aggregation.base import (
    Aggregation,
    Located,
    Update,
    Weights,
    arrays_of,
    weighted_mean,
)
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option


@dataclass(frozen=True)
class Plain(Aggregation):
    weighting: Literal["rows", "clients"] = option("rows", help='"clients": every client counts alike in the mean')

    name = "plain"
    reference = "McMahan et al. 2017, algorithm 1"

    def offer(self, fed: Federation, client: str, update: At[Update], kind: type[Update]) -> At[Update]:
        return fed.send(update, to=fed.server, kind=kind)

    def mean(self, fed: Federation, kept: Located, offered: Located, weights: Located) -> Located:
        mean = mean_of_updates if self.weighting == "rows" else mean_of_clients
        return {fed.server: fed.local(fed.server, mean, *offered.values())}


def mean_of_updates(*updates: Update) -> Weights:
    return weighted_mean([arrays_of(u) for u in updates], [u.rows for u in updates])


def mean_of_clients(*updates: Update) -> Weights:
    return weighted_mean([arrays_of(u) for u in updates], [1 for _ in updates])
