"""The k-th ranked element of every column, and several of each, by halving a range: what each step computes, and where.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", algorithm 3, after Aggarwal, Mishra and
Pinkas (the secure k-th ranked element). Who adds up the counts, and whether that is hidden, is up to the scaler.

With n values, the quantile at level p has the rank h = p (n - 1) + 1, in which the paper's k is rounded down. (That is
the reading under which "the 50th percentile" of algorithm 2 is the median for odd and for even n; k = p n is not.) A
whole h is *exact*: the k-th value is sought. Any other lies between two values, and every point between them will do.

As printed, L counts values at or below the midpoint, so that L + G = n, and line 29, which asks for L <= k - 1 and
G <= n - k, never holds: an exact rank always runs down to epsilon. With `strict` L counts values below the midpoint, as
Aggarwal et al. have it: then the search ends where the midpoint is the k-th value.

Q levels, C columns. Results are within epsilon of the k-th value, or of the gap up to the next one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import GlobalRanks, LocalRanks, SearchPoints

Floats = NDArray[np.float64]
LEVELS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Search:
    """What the server knows: ranks (Q, 1) among n rows, the ranges left (Q, C), and what is found (Q, C)."""

    rows: int
    rank: NDArray[np.int64]
    exact: NDArray[np.bool_]
    low: Floats
    high: Floats
    value: Floats
    found: NDArray[np.bool_]

    @property
    def middle(self) -> Floats:
        return self.low + (self.high - self.low) / 2

    def points(self) -> SearchPoints:
        return SearchPoints(np.where(self.found, self.value, self.middle), self.found)


def start(rows: int, low: Floats, high: Floats, levels: Sequence[float] = LEVELS) -> Search:
    """The search over ranges (C,) of all columns."""
    place = np.array(levels)[:, None] * (rows - 1) + 1
    rank = np.floor(place).astype(np.int64)
    least, most = (np.tile(np.asarray(end, np.float64), (len(levels), 1)) for end in (low, high))
    return Search(rows, rank, place == rank, least, most, np.zeros_like(least), np.zeros(least.shape, np.bool_))


def searched(
    fed: Federation, state: At[Search], told: Callable[[Public[SearchPoints]], At[GlobalRanks]], epsilon: float
) -> Public[SearchPoints]:
    """Algorithm 3 at the server, which `told` gives the counts of all parties at the midpoints of a round; a round ends
    with the midpoints of the next, and the last one with what was sought.
    """
    points, number = fed.broadcast(fed.local(fed.server, Search.points, state)), 0
    while not points.value.found.all():
        with fed.scope(fed.step, number):
            state = fed.local(fed.server, partial(narrowed, epsilon=epsilon), state, told(points))
            points, number = fed.broadcast(fed.local(fed.server, Search.points, state)), number + 1
    return points


def local_ranks(ordered: Floats, told: SearchPoints, strict: bool) -> LocalRanks:
    """A party's counts at the points; columns (n, C), each sorted."""
    at = [[_counts(ordered[:, c], x, strict) for c, x in enumerate(points)] for points in told.point]
    counts = np.array(at, np.int64).reshape(*told.point.shape, 2)
    return LocalRanks(counts[..., 0], counts[..., 1])


def _counts(ordered: Floats, point: float, strict: bool) -> tuple[int, int]:
    at_most = int(np.searchsorted(ordered, point, "right"))
    return int(np.searchsorted(ordered, point, "left")) if strict else at_most, len(ordered) - at_most


def summed(*parts: LocalRanks) -> GlobalRanks:
    """Lines 21 to 24."""
    return GlobalRanks(np.sum([p.below for p in parts], axis=0), np.sum([p.above for p in parts], axis=0))


def narrowed(search: Search, told: GlobalRanks, epsilon: float) -> Search:
    """Lines 26 to 51; a range that float64 cannot halve is as narrow as it gets."""
    middle, below, above = search.middle, told.below, told.above
    hit = (below <= search.rank - search.exact) & (above <= search.rows - search.rank)
    reached = below >= search.rank
    low = np.where(reached | search.found, search.low, middle)
    high = np.where(reached & ~search.found, middle, search.high)
    stuck = (middle <= search.low) | (middle >= search.high)
    narrow = ~hit & ((high - low <= epsilon) | stuck)
    value = np.where(hit, middle, low + (high - low) / 2)
    found = search.found | hit | narrow
    return replace(search, low=low, high=high, value=np.where(search.found, search.value, value), found=found)
