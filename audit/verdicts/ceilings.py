"""How much an attack could be getting at most: a bound of the mean advantage that needs no assumption on its shape.

Gaffke (2005), as restated by Learned-Miller and Thomas (2019, arXiv:1905.06208) and, with a proof for a bound that is
hardly wider, by Phan, Thomas and Learned-Miller (2021): the mass between two neighbouring observations is uncertain by
what the order statistics of uniform numbers say, and counts at its upper end. Advantages are at most 1, and how low
they can be plays no part. Of n clusters without any gain the bound is 1 - alpha^(1/n): a leak that no cluster showed
can still be that frequent.

Exact for numbers that are independent, but for the draws of uniform numbers, which leave a level of 5 % anywhere from
4.5 to 5.4. So the unit is the seed; clusters are, where the variance between seeds is no more than chance
(`exchangeable`). A few seeds cannot show that: what leaks under one seed of ten may not have been met by any of five.
So whoever bounds by clusters asks for as many seeds as would do without them (`fewest`).
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from math import ceil, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leakledger.audit.clusters import SEEDS

DRAWS = 20_000  # of uniform order statistics
ALIKE = 0.2  # the p-value from which seeds count as alike: below, their clusters are not taken for independent

Floats = NDArray[np.float64]


def upper_bound(values: ArrayLike, alpha: float, most: float = 1.0) -> float:
    """The one-sided bound, at level `alpha`, of the mean of numbers (n,) that are at most `most`; `most` of none."""
    return _bound(np.sort(np.asarray(values, np.float64)).tobytes(), alpha, most)


@lru_cache(1024)
def _bound(ordered: bytes, alpha: float, most: float) -> float:
    """`upper_bound` of sorted numbers: of hundreds of columns that are known or not, most hold the same few."""
    return float(np.quantile(highest_means(np.frombuffer(ordered), most), 1 - alpha))


def highest_means(values: ArrayLike, most: float = 1.0, sample: int = 0) -> Floats:
    """(draws,): the highest means that the mass between the observations (n,) allows, whose quantiles are the bound.
    Draws of different `sample` are independent. `most` of no observations.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    if not len(ordered):
        return np.full(DRAWS, most)
    means: Floats = most - _uniform(len(ordered), sample) @ np.diff(np.append(ordered, most))
    return means


@cache
def _uniform(count: int, sample: int) -> Floats:
    """(draws, count) sorted uniform numbers, from spacings; the same at each call."""
    coins = np.random.default_rng([count, sample] if sample else count)
    spacings = coins.standard_exponential((DRAWS, count + 1))
    ordered: Floats = np.cumsum(spacings, 1)[:, :-1] / spacings.sum(1, keepdims=True)
    return ordered


def independent(values: Floats, seeds: Sequence[int], enough: int = SEEDS) -> Floats:
    """What counts as independent of one number per cluster: the clusters where there are `enough` seeds and these are
    exchangeable, else the mean of each seed; nothing below five seeds, where that cannot be told.
    """
    which, of = np.unique(np.asarray(seeds), return_inverse=True)
    if len(which) < SEEDS:
        return np.zeros(0)
    if len(which) >= enough and exchangeable(values, of):
        return values
    means: Floats = np.bincount(of, values) / np.bincount(of)
    return means


def exchangeable(values: Floats, of: NDArray[np.intp]) -> bool:
    """Whether clusters of one seed are no more alike than others (analysis of variance); `of` (n,): number of the seed.

    True as well where each seed has one cluster.
    """
    _, first, sizes = np.unique(of, return_index=True, return_counts=True)
    if sizes.max() == 1 or np.ptp(values) == 0:
        return True
    if (values == values[first][of]).all():  # no seed has two that differ
        return False
    from scipy.special import fdtrc  # imported late: takes half a second that most runs need not wait

    means, others = np.bincount(of, values) / sizes, len(sizes) - 1
    between = (sizes * (means - values.mean()) ** 2).sum() / others
    within = ((values - means[of]) ** 2).sum() / (len(values) - len(sizes))
    return bool(fdtrc(others, len(values) - len(sizes), between / within) >= ALIKE)


def fewest(ceiling: float, alpha: float) -> int:
    """The clusters without any gain from which on the bound is below `ceiling`."""
    return ceil(log(alpha) / log1p(-ceiling))
