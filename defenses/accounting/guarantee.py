"""What a mechanism guarantees at a delta: between two epsilons, which are one where it is known exactly."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from math import sqrt

from leakledger.defenses.accounting import subsampling
from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.mechanism import GaussianMechanism

EXACT = "exact (analytic Gaussian mechanism, Balle and Wang 2018)"
POISSON = "numeric (privacy loss distributions of dp-accounting, rounded up)"
REPLACED = f"{POISSON}; opposite vectors are taken to be the worst neighbours, as dp-accounting does"
SHUFFLED = (
    "between exact (analytic Gaussian mechanism) where it is known which batch a unit is in, and tests that see all "
    "batches and know nothing of their order"
)
FIXED_SIZE = "numeric (at most Rényi DP of sampling without replacement, at least privacy loss distributions)"
LARGE_DELTA = 0.01  # from which on it is said what it allows, whoever is protected


@dataclass(frozen=True)
class Guarantee:
    """(`epsilon`, `delta`)-differential privacy over all rounds, and not better than `at_least`.

    Prints itself with everything that an epsilon depends on: unit, neighbouring relation, composition and method.
    """

    mechanism: GaussianMechanism
    delta: float
    epsilon: float
    at_least: float
    method: str

    def __str__(self) -> str:
        least = "" if self.at_least == self.epsilon else f" (and at least {digits(self.at_least, 6, ROUND_FLOOR)})"
        most = digits(self.epsilon, 6, ROUND_CEILING)
        return f"epsilon {most}{least} at delta {self.delta:g}: {self.mechanism}; {self.method}"


def digits(bound: float, count: int, rounding: str) -> str:
    """So many significant digits of a bound, rounded to where they say no more than what is known."""
    return f"{float(Context(prec=count, rounding=rounding).create_decimal(repr(float(bound)))):.{count}g}"


def guarantee(mechanism: GaussianMechanism, delta: float, *, sharp: bool = False) -> Guarantee:
    """What `mechanism` guarantees at `delta`. Raises ValueError.

    `sharp`: also the best numeric lower bound where sampling leaves a gap; else that of a single round, which takes no
    time. Where everyone is in every round the two epsilons are one.
    """
    if not mechanism.by_chance:
        exact = epsilon_of(delta, mechanism.mu * sqrt(mechanism.participations))
        if mechanism.settled:
            return Guarantee(mechanism, delta, exact, exact, EXACT)
        return Guarantee(mechanism, delta, exact, min(subsampling.of_any_order(mechanism, delta), exact), SHUFFLED)
    drawn = REPLACED if mechanism.relation == "replace" else POISSON
    method = FIXED_SIZE if mechanism.sampling == "fixed-size" else drawn
    most = subsampling.upper(mechanism, delta)
    least = subsampling.lower(mechanism, delta) if sharp else subsampling.one_round(mechanism, delta)
    return Guarantee(mechanism, delta, most, min(least, most), method)
