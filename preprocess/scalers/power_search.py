"""The likeliest power of a Yeo-Johnson transformation of every column: what each step computes, and where.

Of n values with variance s^2 under the power p, the log-likelihood is -n/2 log s^2 + (p - 1) sum sign(x) log(1 + |x|)
(Yeo and Johnson, eq. 3.1). It is strictly concave in p (Marchand et al., "SecureFedYJ", proposition 1), so that the
best of evenly spaced powers and its two neighbours hold the maximum between them: each round tries as many powers of
every column at once, and goes on between these two. All that it takes of the rows are sums, so it is exact.

The first powers lie about 1, which changes nothing, within `reach` of it; a power beyond is taken there. A power that
leaves a column no variance but rounding, or images beyond float64, is not likely: numbers of 10^9 have none under -1.4.
Where all are so, it is the one in the middle, 1 in the first round.

G powers, C columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages import GlobalPowers, LocalLogs, LocalPowerMoments, TriedPowers
from leakledger.preprocess.power import yeo_johnson
from leakledger.preprocess.scalers.base import beyond_rounding

Floats = NDArray[np.float64]
UNCHANGED = 1.0  # the power under which every value stays as it is


@dataclass(frozen=True)
class PowerSearch:
    """What is left of each column's range of powers (C,), and mean, deviation and rows of all under its middle."""

    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    rows: int = 0

    @property
    def middle(self) -> Floats:
        return self.low + (self.high - self.low) / 2

    def result(self) -> GlobalPowers:
        return GlobalPowers(self.rows, self.middle, self.mean, self.std)


def start(columns: int, reach: float) -> PowerSearch:
    around, nothing = np.full(columns, UNCHANGED), np.zeros(columns)
    return PowerSearch(around - reach, around + reach, nothing, nothing)


def rounds(reach: float, precision: float, powers: int) -> int:
    """How many it takes until what is left is no wider than `precision`: each leaves 2 of `powers` + 1 parts."""
    return max(1, ceil(log(2 * reach / precision) / log((powers + 1) / 2)))


def tried(search: PowerSearch, powers: int) -> TriedPowers:
    """(G, C) evenly spaced within what is left; the middle one exactly in the middle."""
    share = np.arange(1, powers + 1)[:, None] / (powers + 1)
    power = search.low + (search.high - search.low) * share
    power[powers // 2] = search.middle
    return TriedPowers(power)


def local_logs(columns: Floats) -> LocalLogs:
    return LocalLogs(len(columns), (np.sign(columns) * np.log1p(np.abs(columns))).sum(axis=0))


def local_moments(columns: Floats, told: TriedPowers) -> LocalPowerMoments:
    """About the first row, so that a constant column has exactly its own mean. Not finite where images overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        images = [yeo_johnson(columns, power) for power in told.power]
        mean = np.array([x[0] + (x - x[0]).mean(axis=0) for x in images])
        squares = np.array([((x - m) ** 2).sum(axis=0) for x, m in zip(images, mean, strict=True)])
    return LocalPowerMoments(mean, squares)


def narrowed(
    search: PowerSearch, told: TriedPowers, logs: Sequence[LocalLogs], *parts: LocalPowerMoments
) -> PowerSearch:
    """What is left after a round: the neighbours of the best power. Moments are pooled about the first party's mean."""
    counts = np.array([one.count for one in logs])[:, None, None]
    means, rows = np.array([p.mean for p in parts]), int(counts.sum())
    total = np.sum([one.total for one in logs], axis=0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        mean = means[0] + ((means - means[0]) * counts).sum(axis=0) / rows
        squares = np.sum([p.squares for p in parts], axis=0) + (counts * (means - mean) ** 2).sum(axis=0)
        std = beyond_rounding(np.sqrt(squares / rows), mean)
        fit = np.where(std > 0, -rows * np.log(std) + (told.power - 1) * total, -np.inf)  # (G, C)
    best = np.where(np.isfinite(fit).any(axis=0), fit.argmax(axis=0), len(fit) // 2)
    edges = np.vstack([search.low, told.power, search.high])
    column = np.arange(fit.shape[1])
    return PowerSearch(edges[best, column], edges[best + 2, column], mean[best, column], std[best, column], rows)
