"""Extremes and quantiles by the exponential mechanism: a place on a grid over the declared range, near in rank.

Source: McSherry and Talwar 2007; Smith, "Privacy-preserving statistical estimation with optimal convergence rates",
STOC 2011, section 3. A place x is drawn with chance proportional to exp(-epsilon d(x) / (2 D)), where d(x) is how many
ranks the target is away from x, between how many rows are below x and how many are at it or below, and D is by how
much one record changes d at most. Pure epsilon, unit record, there or not; nothing is assumed of the rows.

Exact: places are proposed uniformly and kept with chance exp(-epsilon (d(x) - min d) / (2 D)), by coins that are
comparisons of whole numbers (`discrete.bernoulli_exp`), with epsilon rounded down to a multiple of 2^-20. How long that
takes depends on the rows, so who sees times learns from them; protocols do not send any.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.noise.discrete import bernoulli_exp
from leakledger.preprocess.noise.integers import Below, Whole

GRID = 2**14  # steps of the declared range
EPSILON_STEPS = 2**20
MOST_EPSILON = 2**14  # the product of distance and epsilon stays below 2^62
FARTHEST = 2**10  # exponents are cut here, which changes d by no more than before: privacy stays, chances below e^-1024
BATCH = 4096
MOST_PARTS = 1000  # of the rows, in which levels of quantiles are stated


@dataclass(frozen=True)
class Target:
    """A rank: `share` (of the rows) + `offset`, both times `unit`, counted from below. `sensitivity`: of the distance.

    Distances are in units of 1/`unit` ranks.
    """

    share: int
    offset: int
    unit: int

    @property
    def sensitivity(self) -> int:
        """One record moves how many rows are below by one rank, and the target by its share."""
        return max(self.unit - self.share, self.share)


def quantile_target(level: Fraction) -> Target:
    """The rank of a quantile, like 1/2 of the rows. Raises ValueError for a level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"the level of a quantile is {level}; it must be above 0 and below 1")
    return Target(level.numerator, 0, level.denominator)


def as_level(level: float) -> Fraction:
    """The level as the fraction that its decimal digits say, to a thousandth: 0.05 is 1/20. Raises ValueError for one
    that has more digits, or that is not below the median.
    """
    exact = Fraction(str(level))
    if not 0 < exact < Fraction(1, 2) or exact.denominator > MOST_PARTS:
        raise ValueError(
            f"the lower quantile is at {level}; it must be above 0, below 0.5 and a whole number of thousandths"
        )
    return exact


def extreme_target(epsilon: float) -> Target:
    """The rank from which the least value is taken: half a rank below the first, or, where noise hides a few ranks
    anyway, half a rank below the ceil(2/epsilon)-th, so that a value beyond all rows is less likely.
    """
    return Target(0, 2 * extreme_rank(epsilon) - 1, 2)


def extreme_rank(epsilon: float) -> int:
    return max(1, ceil(2 / epsilon))


def distances(places: Whole, target: Target, grid: int = GRID) -> Whole:
    """(grid + 1,) how far each place is from the target, for rows at `places` (n,) of the grid."""
    counts = np.bincount(places, minlength=grid + 1).astype(np.int64)
    upto = target.unit * np.cumsum(counts)
    wanted = target.share * len(places) + target.offset
    away: Whole = np.maximum(0, np.maximum(upto - target.unit * counts - wanted, wanted - upto))
    return away


def draw_place(places: Whole, target: Target, epsilon: float, below: Below, count: int = 1, grid: int = GRID) -> Whole:
    """(count,) independent draws of a place from 0 to `grid`. Raises ValueError for an epsilon that is out of range."""
    above = in_steps(epsilon)
    under = 2 * target.sensitivity * EPSILON_STEPS
    away = np.minimum(distances(places, target, grid), FARTHEST * under // above + 1)
    away -= away.min()
    found: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        proposed = below(np.full(BATCH + missing, grid + 1, np.int64))
        kept = bernoulli_exp(away[proposed] * above, np.full(len(proposed), under, np.int64), below)
        found = [*found, proposed[kept][:missing]]
        missing -= len(found[-1])
    return np.concatenate(found)


def on_grid(column: NDArray[np.float64], low: float, high: float, grid: int = GRID) -> Whole:
    """(n,) the places of numbers: the nearest, those beyond the declared range at its ends."""
    inside = np.clip(column, low, high)
    return np.rint((inside - low) / (high - low) * grid).astype(np.int64)


def in_steps(epsilon: float) -> int:
    """Rounded down, and cut where more says nothing more. Raises ValueError for an epsilon below a step."""
    if not epsilon >= 1 / EPSILON_STEPS:
        raise ValueError(f"epsilon of a rank is {epsilon}; it must be 1e-6 or more: raise the budget")
    return int(min(epsilon, MOST_EPSILON) * EPSILON_STEPS)
