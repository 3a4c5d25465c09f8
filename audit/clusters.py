"""What a few clusters say of a mean: which of them count as independent, and intervals that hold near the ends, too.

A cluster is one number: of a victim's batch in one seed. Clusters of one seed share a partition and a first model, so
from five seeds on the *unit* is the seed, by its mean. Below five, clusters are the units, and are taken to correlate
by `ASSUMED` within a seed: the variance of their mean grows by the design effect (Kish, Survey Sampling, 1965, section
5.4).

Student-t says nothing of what did not happen: of five perfect clusters it makes an interval of no width, though an
attack that fails one time in three leaves five of them. So the interval of a share is the hull of two: Student-t over
the units, and the posterior of the mean under a Dirichlet process (Ferguson 1973; the Bayesian bootstrap of Rubin 1981
with one cluster more, anywhere between the bounds with equal chance). Of perfect clusters that leaves what the unseen
one could change. `leakledger benchmark verdicts` measures how often the hull covers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leakledger.audit.intervals import CONFIDENCE, quantile

SEEDS = 5  # from so many on, the seed is the unit
ASSUMED = 0.3  # correlation of the clusters of a seed, until so many seeds show how they scatter
DRAWS = 4_000  # of the posterior: the quantiles of 2.5 % are off by less than a tenth of the width

Floats = NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True)
class Units:
    """(n,) numbers that count as independent, and how much more the variance of their mean is than if they were."""

    values: Floats
    inflation: float = 1.0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def error(self) -> float:
        """The standard error of the mean; two units at least."""
        return float(np.std(self.values, ddof=1) * np.sqrt(self.inflation / len(self)))


def units(values: ArrayLike, seeds: Sequence[int] | None = None) -> Units:
    """The units behind one number per cluster; `seeds` (n,) has the seed of each. None: clusters are independent."""
    numbers = np.asarray(values, np.float64)
    if seeds is None or not len(numbers):
        return Units(numbers)
    which, of = np.unique(np.asarray(seeds), return_inverse=True)
    sizes = np.bincount(of)
    if len(which) >= SEEDS:
        return Units(np.bincount(of, numbers) / sizes)
    return Units(numbers, 1 + ((sizes**2).sum() / len(numbers) - 1) * ASSUMED)


def mean_interval(
    values: ArrayLike, seeds: Sequence[int] | None = None, bounds: Limits | None = None, confidence: float = CONFIDENCE
) -> Limits | None:
    """The interval of a mean, within `bounds` where the numbers have some; None below two units."""
    found = units(values, seeds)
    if len(found) < 2:
        return None
    mean, half = float(found.values.mean()), quantile(len(found), confidence) * found.error
    if bounds is None:
        return mean - half, mean + half
    low, high = posterior_interval(found, bounds, confidence)
    return max(min(mean - half, low), bounds[0]), min(max(mean + half, high), bounds[1])


def ratio_interval(
    parts: ArrayLike, wholes: ArrayLike, seeds: Sequence[int] | None = None
) -> tuple[float, Limits | None]:
    """Sum of parts over sum of wholes, one of each per cluster, and its Student-t interval with the error linearised;
    no interval below two units.
    """
    part, whole = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    ratio, scale = float(part.mean() / whole.mean()), abs(float(whole.mean()))
    found = units(part - ratio * whole, seeds)
    if len(found) < 2:
        return ratio, None
    half = quantile(len(found)) * found.error / scale
    return ratio, (ratio - half, ratio + half)


def posterior_interval(found: Units, bounds: Limits, confidence: float = CONFIDENCE) -> Limits:
    """The central interval of the posterior of the mean: each unit, and an unseen one between the bounds, weighted."""
    weights, unseen = _weights(len(found), round(found.inflation, 6))
    means = weights[:, :-1] @ found.values + weights[:, -1] * (bounds[0] + unseen * (bounds[1] - bounds[0]))
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


@cache
def _weights(count: int, inflation: float) -> tuple[Floats, Floats]:
    """(draws, count + 1) Dirichlet weights, the last of an unseen unit, and (draws,) where between the bounds it is."""
    coins = np.random.default_rng([count, int(1e6 * inflation)])
    shapes = np.append(np.full(count, 1 / inflation), 1.0)
    drawn = coins.standard_gamma(shapes, (DRAWS, count + 1))
    return drawn / drawn.sum(1, keepdims=True), coins.random(DRAWS)
