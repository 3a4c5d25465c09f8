"""Two worlds: samples of a statistic of what a mechanism releases on D, and on a neighbour D', to a bound on epsilon.

For mechanisms that run 10^5 times: noisy sums, counts, extremes. An adversary calls a sample one of D where it lies
beyond a threshold, and (epsilon, delta)-differential privacy bounds both of its rates (Kairouz, Oh and Viswanath 2015):

    TPR <= exp(epsilon) FPR + delta        and        TNR <= exp(epsilon) FNR + delta.

The threshold, and its side, are chosen on one half of the samples and the rates bounded on the other (Clopper-Pearson,
each at half the error), at the delta that is stated. The best threshold of many on the same samples would be the
luckiest one. Both inequalities follow from the same two bounds, so no correction is due for taking the better.

Assuming that the mechanism is Gaussian (mu-GDP), the rates bound mu = Phi^-1(TPR) - Phi^-1(FPR) (Nasr et al. 2023,
section 4), and so epsilon, far better at small delta. That figure holds for mechanisms of that family alone, and says
so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from leakledger.audit.dp_audit.proportions import Floats, at_least, at_most
from leakledger.audit.records import plural
from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.guarantee import digits

CONFIDENCE = 0.95
FEWEST = 4  # samples of a world: two halves of two
THRESHOLDS = 400  # tried from each end of the samples, ranks growing geometrically: the best lie in the tails


@dataclass(frozen=True)
class TwoWorldBound:
    """What two worlds show, with `confidence` in each figure on its own.

    `epsilon` is at `delta`, whatever the mechanism; `ceiling` is the most that so many samples can show. `mu` and
    `epsilon_if_gaussian` hold if the mechanism is Gaussian; `mu_ceiling` likewise.
    """

    epsilon: float
    ceiling: float
    mu: float
    mu_ceiling: float
    epsilon_if_gaussian: float
    delta: float
    confidence: float
    samples: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"epsilon at least {_down(self.epsilon)} at delta {self.delta:g} "
            f"with {100 * self.confidence:.9g}% confidence "
            f"(this audit ends at {self.ceiling:.3g}); if the mechanism is Gaussian: mu at least {_down(self.mu)}, "
            f"epsilon at least {_down(self.epsilon_if_gaussian)}"
        )


def _down(bound: float) -> str:
    """A lower bound in three digits: no more is said than was shown."""
    return digits(bound, 3, ROUND_FLOOR)


def audit_two_worlds(
    first: NDArray[Any],
    second: NDArray[Any],
    *,
    delta: float,
    coins: np.random.Generator,
    confidence: float = CONFIDENCE,
) -> TwoWorldBound:
    """The bounds that samples `first` (n,) of one world and `second` (m,) of the other show. Raises ValueError.

    Samples are independent; which direction of the statistic speaks for which world is found out. `coins` split the
    samples: with the same ones the answer is the same.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta is {delta}; it must be at least 0 and below 1")
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be above 0.5 and below 1")
    (choose1, confirm1), (choose2, confirm2) = (_halves(world, coins) for world in (first, second))
    error = (1 - confidence) / 2

    def epsilons(tpr: Floats, fpr: Floats) -> Floats:
        return _epsilons(tpr, fpr, delta)

    found = _confirmed((choose1, choose2), (confirm1, confirm2), (epsilons, _mus), error)
    perfect = at_least(len(confirm1), len(confirm1), error), at_most(0, len(confirm2), error)
    mu = max(0.0, found[1])
    return TwoWorldBound(
        epsilon=max(0.0, found[0]),
        ceiling=max(0.0, float(epsilons(*perfect))),
        mu=mu,
        mu_ceiling=float(_mus(*perfect)),
        epsilon_if_gaussian=_of_gaussian(mu, delta),
        delta=delta,
        confidence=confidence,
        samples=(len(first), len(second)),
    )


def _of_gaussian(mu: float, delta: float) -> float:
    """Gaussian noise that tells two worlds apart at all has no epsilon at delta 0."""
    if mu == 0:
        return 0.0
    return epsilon_of(delta, mu) if delta > 0 else inf


Bound = Callable[[Floats, Floats], Floats]  # of TPR (lower) and FPR (upper)


def _epsilons(tpr: Floats, fpr: Floats, delta: float) -> Floats:
    """The larger of both inequalities, solved for epsilon; -inf where they say nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(tpr > delta, np.log(np.maximum(tpr - delta, 0) / fpr), -np.inf)
        other = np.where(1 - fpr > delta, np.log(np.maximum(1 - fpr - delta, 0) / (1 - tpr)), -np.inf)
    return np.maximum(one, other)


def _mus(tpr: Floats, fpr: Floats) -> Floats:
    return np.where((tpr > 0) & (fpr < 1), ndtri(np.maximum(tpr, 1e-300)) - ndtri(np.minimum(fpr, 1 - 1e-16)), -np.inf)


def _confirmed(
    choose: tuple[Floats, Floats], confirm: tuple[Floats, Floats], bounds: Sequence[Bound], error: float
) -> list[float]:
    """Each bound on the confirming halves, at the threshold and side that are best for it on the choosing ones."""
    sides = [_tried(side, choose, error) for side in (1.0, -1.0)]
    return [_at_best(bound, sides, confirm, error) for bound in bounds]


@dataclass(frozen=True)
class _Tried:
    """Thresholds (k,) for samples times `side`, and at each the lowest TPR and the highest FPR."""

    side: float
    thresholds: Floats
    rates: tuple[Floats, Floats]


def _tried(side: float, choose: tuple[Floats, Floats], error: float) -> _Tried:
    first, second = (side * world for world in choose)
    thresholds = _thresholds(np.concatenate([first, second]))
    strict = error / (2 * len(thresholds))  # so that a threshold in a tail is not chosen for its luck
    return _Tried(side, thresholds, _rates(first, second, thresholds, strict))


def _at_best(bound: Bound, sides: Sequence[_Tried], confirm: tuple[Floats, Floats], error: float) -> float:
    seen = [bound(*tried.rates) for tried in sides]
    best = max(range(len(sides)), key=lambda k: seen[k].max())
    side, threshold = sides[best].side, sides[best].thresholds[[np.argmax(seen[best])]]
    return float(bound(*_rates(side * confirm[0], side * confirm[1], threshold, error))[0])


def _rates(first: Floats, second: Floats, thresholds: Floats, error: float) -> tuple[Floats, Floats]:
    """The lowest TPR and the highest FPR at every threshold: a sample from it on is called one of the first world."""
    hits, alarms = (len(world) - np.searchsorted(np.sort(world), thresholds) for world in (first, second))
    return at_least(hits, len(first), error), at_most(alarms, len(second), error)


def _thresholds(samples: Floats) -> Floats:
    """Samples at ranks that grow geometrically from both ends, and beyond the last."""
    ordered = np.sort(samples)
    ranks = np.unique(np.geomspace(1, len(ordered), THRESHOLDS).astype(int)) - 1
    return np.unique(np.concatenate([ordered[ranks], ordered[::-1][ranks], [np.nextafter(ordered[-1], np.inf)]]))


def _halves(world: NDArray[Any], coins: np.random.Generator) -> tuple[Floats, Floats]:
    samples = np.asarray(world, float)
    if samples.ndim != 1 or len(samples) < FEWEST:
        raise ValueError(f"a world has shape {samples.shape}; it needs a list of {FEWEST} samples or more")
    if np.isnan(samples).any():
        bad = plural(int(np.isnan(samples).sum()), "sample")
        raise ValueError(f"a world has {bad} without a number; say what an adversary sees")
    shuffled = coins.permutation(samples)
    half = len(shuffled) // 2
    return shuffled[:half], shuffled[half:]
