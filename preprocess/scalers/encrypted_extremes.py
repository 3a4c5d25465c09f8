"""The least and greatest value of every column over all clients, on ciphertexts: by comparisons, or by counts.

*Comparisons* (the paper's minimum and maximum are its library's, by minimax polynomials; its algorithm is in a
supplement that we do not have). Clients put their maxima and negated minima into slots of their own, so that the sum of
all ciphertexts holds everyone's: a tree then needs log2 P comparisons, not P - 1, and finds both ends at once. A
rotation is a refresh (`crypto.threshold_ckks.refresh`). What is not the result is masked before the decryption.

Each comparison is off by at most `comparison.WORST` of half the declared range. The smudging of the decryption is what
that precision leaves room for, and far too little to hide the noise of the comparisons: whoever sees many decryptions
learns something of the keys (Li and Micciancio 2021). *Counts* have no such trouble: the search of algorithm 3, for the
first and the last rank, begins at the declared ranges; it tells everyone how many rows there are, and how many values
lie below each midpoint. Clients may hold as many rows together as a count has room for (`encrypted.MOST_COUNTED`).
"""

from collections.abc import Mapping
from functools import partial
from math import ceil, floor, log2, sqrt

import numpy as np

from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted
from leakledger.preprocess.crypto.threshold_ckks.comparison import WORST, maximum
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective, Remote
from leakledger.preprocess.federation import At, Public
from leakledger.preprocess.messages import GlobalExtremes, GlobalRanks, SearchPoints, TotalRows
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.scalers.base import Matrix, Vector
from leakledger.preprocess.scalers.encrypted import MOST_COUNTED, Counting, check_rows, joined, slices
from leakledger.preprocess.scalers.quantile_search import Search, local_ranks, searched, start


def compared(run: Collective, columns: Mapping[str, At[Matrix]], ranges: Ranges) -> Public[GlobalExtremes]:
    """By comparisons; everyone hears the result."""
    fed, slots, found = run.fed, run.parameters.slots, []
    places = 1 << ceil(log2(len(columns)))
    for part in slices(len(ranges.features), slots // (2 * places)):
        width = 2 * (part.stop - part.start)
        own = {
            c: fed.local(c, placed_ends, x, ranges, part, place * width) for place, (c, x) in enumerate(columns.items())
        }
        value = run.total([run.encrypted(c, x, 1.0) for c, x in own.items()])
        filled = fed.local(fed.server, _filled, run.evaluator, value.at, len(own) * width, places * width)
        value = Remote(filled, value.level)
        step = places * width // 2
        while step >= width:
            value = maximum(run, run.rotated(value, 0, 2.0), run.rotated(value, step, 2.0))
            step //= 2
        value = run.rotated(value, 0, 2.0)
        masked = fed.local(fed.server, _masked, run.evaluator, value.at, width)
        found.append(run.decrypted_at_server(Remote(masked, value.level - 1), width, smudging(run)))
    return fed.broadcast(fed.local(fed.server, as_extremes, ranges, compared_within(len(columns)), *found))


def compared_within(clients: int) -> float:
    """How far from an extreme, in halves of the declared range, a tree of comparisons may end, with noise."""
    return (ceil(log2(clients)) + 1) * 2 * WORST


def rows_within(clients: int) -> float:
    """How far beyond the told extremes rows may lie, likewise: ends that count as one are told as their middle."""
    return 2 * compared_within(clients)


def counted(
    counting: Counting, columns: Mapping[str, At[Matrix]], ranges: Ranges, epsilon: float
) -> Public[GlobalExtremes]:
    """By counts, within epsilon in raw units; everyone hears the rows, the counts and the result."""
    fed = counting.run.fed
    state = fed.local(fed.server, begun_at_ends, total_rows(counting, columns), ranges)
    return fed.public(as_ends, search(counting, columns, state, False, epsilon))


def search(
    counting: Counting,
    columns: Mapping[str, At[Matrix]],
    state: At[Search],
    strict: bool,
    epsilon: float,
    to_everyone: bool = True,
) -> Public[SearchPoints]:
    """Algorithm 3; everyone hears the counts, or the server alone, at which they are decrypted."""
    fed = counting.run.fed
    ordered = {c: fed.local(c, partial(np.sort, axis=0), x) for c, x in columns.items()}

    def told(points: Public[SearchPoints]) -> At[GlobalRanks]:
        own = {c: fed.local(c, local_ranks, x, points, strict) for c, x in ordered.items()}
        ranks = counting.ranks(own, points, to_everyone)
        if to_everyone:
            fed.broadcast(ranks)
        return ranks

    return searched(fed, state, told, epsilon)


def total_rows(counting: Counting, columns: Mapping[str, At[Matrix]]) -> Public[TotalRows]:
    """Everyone hears them. Raises ValueError, naming the party, for more rows than its share of what is counted."""
    fed, most = counting.run.fed, int(MOST_COUNTED) // len(columns)
    own = {c: fed.local(c, row_count, fed.local(c, check_rows, x, most, c, "counts")) for c, x in columns.items()}
    return fed.broadcast(fed.local(fed.server, as_total, counting.of(own, 1)))


def row_count(columns: Matrix) -> Vector:
    return np.array([float(len(columns))])


def as_total(count: Vector) -> TotalRows:
    return TotalRows(int(count[0]))


def begun_at_ends(total: TotalRows, ranges: Ranges) -> Search:
    return start(total.count, ranges.low, ranges.high, (0.0, 1.0))


def as_ends(points: SearchPoints) -> GlobalExtremes:
    return GlobalExtremes(points.point[0], np.maximum(points.point[0], points.point[1]))


def smudging(run: Collective) -> int:
    """As many bits as leave numbers within `WORST` of one decryption, one standard deviation."""
    scale = log2(run.parameters.scale(run.parameters.top - 2))
    return max(0, floor(log2(WORST) + scale - log2(sqrt(len(run.clients) * run.parameters.degree / 6))))


def placed_ends(columns: Matrix, ranges: Ranges, part: slice, at: int) -> Vector:
    """Zeros up to the slots of this client, in which are its maxima and its negated minima, on [-1, 1]."""
    unit = ranges.unit(columns)[:, part]
    return np.concatenate([np.zeros(at), unit.max(axis=0), -unit.min(axis=0)])


def _filled(evaluator: Evaluator, total: Encrypted, used: int, wanted: int) -> Encrypted:
    """-1 in the slots of clients that there are not; each slot has one client's number, so the bound is 1."""
    absent = np.zeros(wanted)
    absent[used:] = -1.0
    return evaluator.within(evaluator.add_constant(total, absent), 1.0)


def _masked(evaluator: Evaluator, value: Encrypted, width: int) -> Encrypted:
    return evaluator.multiply_constant(value, np.ones(width))


def as_extremes(ranges: Ranges, within: float, *parts: Vector) -> GlobalExtremes:
    """Extremes nearer to each other than they are certain are those of a constant column."""
    high = np.clip(joined(*(p[: len(p) // 2] for p in parts)), -1, 1)
    low = np.clip(-joined(*(p[len(p) // 2 :] for p in parts)), -1, 1)
    constant = high - low <= 2 * within
    low, high = (np.where(constant, (low + high) / 2, end) for end in (low, high))
    return GlobalExtremes(ranges.middle + ranges.half * low, ranges.middle + ranges.half * high)
