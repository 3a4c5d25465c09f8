"""How much one number differs between two runs: a p-value that it grew, one-sided bounds, and what it takes to tell.

Candidate and baseline are paired, cluster by cluster, where both ran the same seeds; else they are two samples. Which
clusters count as independent is `audit.clusters`' to say, and the test of the paired differences is the one of
`audit.verdicts.significance`: Student-t with one pair more that does not differ, so that a few equal differences prove
nothing with certainty. Under no change candidate and baseline can be exchanged, so paired differences are symmetric
around 0, where Student-t errs on the safe side (Efron 1969). Two samples are compared as by Welch (1947).

Those bounds are Student-t's, for a mean: they say nothing of a rare cluster that no sample has. `unseen` says how
frequent such a one can still be, and stands beside every pass. In pairs that is left at a figure: what two runs of the
same seeds share cancels, and a change that does nothing is seen to do nothing. Other seeds meet other clusters, and
where all that were met are alike Student-t has no width at all; `highest_growth` assumes nothing on what was not met.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from leakledger.audit.clusters import Units, units
from leakledger.audit.verdicts.ceilings import fewest, highest_means, independent
from leakledger.audit.verdicts.significance import FEWEST, over_clusters

MOST_PLANNED = 100_000  # clusters: beyond, nobody plans a run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """One number per cluster, (n,), and the seed of each."""

    values: Floats
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, values: ArrayLike, seeds: Sequence[int]) -> "Sample":
        return cls(np.asarray(values, np.float64), tuple(seeds))

    @property
    def units(self) -> Units:
        return units(self.values, self.seeds)


@dataclass(frozen=True)
class Difference:
    """Candidate less baseline. `low` and `high` are one-sided bounds of the mean, each at alpha by itself; `p` is that
    of no growth; all None below five units. `scatter` is the standard deviation of what `clusters` units show.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None
    clusters: int
    scatter: float


def paired(candidate: Floats, baseline: Floats, seeds: Sequence[int], alpha: float) -> Difference:
    """The difference of (n,) and (n,) numbers of the same clusters."""
    sample = Sample.of(candidate - baseline, seeds)
    found, mean = sample.units, float(np.mean(sample.values)) if len(sample.values) else 0.0
    scatter = float(np.std(found.values, ddof=1) * np.sqrt(found.inflation)) if len(found) > 1 else 0.0
    if len(found) < FEWEST:
        return Difference(mean, None, None, None, len(found), scatter)
    mean = float(found.values.mean())
    half = float(special.stdtrit(len(found) - 1, 1 - alpha)) * found.error
    return Difference(mean, mean - half, mean + half, over_clusters(sample.values, seeds), len(found), scatter)


def unpaired(candidate: Sample, baseline: Sample, alpha: float) -> Difference:
    """The difference of the means of two samples of independent clusters."""
    now, before = candidate.units, baseline.units
    count = min(len(now), len(before))
    if count < FEWEST:
        means = [float(u.values.mean()) if len(u) else 0.0 for u in (now, before)]
        return Difference(means[0] - means[1], None, None, None, count, 0.0)
    mean = float(now.values.mean() - before.values.mean())
    error, freedom = _welch(now, before)
    half = float(special.stdtrit(freedom, 1 - alpha)) * error
    with_one = Units(np.append(now.values, before.values.mean()), now.inflation)
    its_error, its_freedom = _welch(with_one, before)
    its_mean = float(with_one.values.mean() - before.values.mean())
    p = float(special.stdtr(its_freedom - 1, -its_mean / its_error)) if its_error > 0 else 1.0
    scatter = float(np.hypot(np.std(now.values, ddof=1), np.std(before.values, ddof=1)))
    return Difference(mean, mean - half, mean + half, p, count, scatter)


def highest_growth(candidate: Sample, baseline: Sample, alpha: float, margin: float) -> float:
    """The upper bound of the difference of the means of two samples, of clusters from 0 to 1 that were not met, with no
    assumption on their shape: the highest mean of the one less the lowest of the other (Gaffke 2005, of both samples at
    once). Of zeros and ones it is the bound of Clopper and Pearson where one sample alone leaves anything open, so
    1 - alpha^(1/n) of n clusters that all have everything before and after. 1 below five seeds. Seeds are the units
    where there are too few of them to bound it by `margin` alone.
    """
    now, before = (independent(s.values, s.seeds, fewest(margin, alpha)) for s in (candidate, baseline))
    above = highest_means(now, max([1.0, *now]))
    below = 1 - highest_means(1 - before, max([1.0, *(1 - before)]), sample=1)
    return min(1.0, float(np.quantile(above - below, 1 - alpha)))


def _welch(a: Units, b: Units) -> tuple[float, float]:
    """The standard error of a difference of means, and its degrees of freedom (Welch 1947)."""
    parts = [(u.error**2, len(u) - 1) for u in (a, b)]
    whole = sum(v for v, _ in parts)
    if whole == 0:
        return 0.0, float(min(f for _, f in parts))
    return float(np.sqrt(whole)), float(whole**2 / sum(v**2 / f for v, f in parts))


def smallest_p(clusters: int) -> float:
    """The smallest p-value that so many clusters can give: all of them differ by the same."""
    return 1.0 if clusters < FEWEST else float(special.stdtr(clusters - 1, -clusters))


def enough_to_fail(family: int, alpha: float) -> int:
    """The fewest clusters that can fail one of so many checks at `alpha` over all of them."""
    clusters = FEWEST
    while family * smallest_p(clusters) > alpha:
        clusters += 1
    return clusters


def unseen(clusters: int, alpha: float) -> float:
    """How frequent a cluster can be, at most, that none of so many was (Clopper and Pearson 1934)."""
    return 1.0 - alpha ** (1 / clusters) if clusters else 1.0


def clusters_needed(scatter: float, margin: float, alpha: float, power: float, family: int = 1) -> int | None:
    """The fewest clusters whose upper bound lies below `margin` with probability `power` where nothing changed: the
    noncentral-t form of ((z_alpha + z_power) scatter / margin)². No fewer than can fail one of a `family` of checks.
    None where that is beyond any run.
    """
    least = enough_to_fail(family, alpha)
    if scatter <= 0:
        return least
    low, high = least, least
    while _power(high, scatter, margin, alpha) < power:
        low, high = high, 2 * high
        if high > MOST_PLANNED:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, scatter, margin, alpha) >= power else (middle + 1, high)
    return high


def _power(clusters: int, scatter: float, margin: float, alpha: float) -> float:
    threshold, shift = special.stdtrit(clusters - 1, 1 - alpha), margin * np.sqrt(clusters) / scatter
    return 1.0 - float(special.nctdtr(clusters - 1, min(shift, 35.0), threshold))  # beyond 35 it is 1
