"""How much noise a budget takes: a budget for several numbers to discrete noise for each of them.

Laplace (delta 0): each of k numbers has epsilon / k, noise of scale k / epsilon times its sensitivity. Gaussian (delta
above 0): the noise that k numbers of a Gaussian mechanism need together, exactly (Balle and Wang, ICML 2018, theorem
8; k releases are one with mu sqrt(k)). Noise is discrete with 2,048 steps or more in its scale, rounded up; what the
discrete noise guarantees is computed anew by the accountant (`defenses/accounting`), and that figure counts.
"""

from dataclasses import dataclass
from math import ceil, exp, floor, inf, isfinite, log2, sqrt
from typing import Literal

from scipy.special import log_ndtr

from leakledger.preprocess.noise.discrete import LARGEST_SCALE, discrete_gaussian, discrete_laplace
from leakledger.preprocess.noise.integers import Below, Whole

Kind = Literal["discrete-laplace", "discrete-gaussian"]
MOST_STEPS = 2**20  # of the sensitivity: a sum of 2^31 rows still fits 63 bits with 12 more for the noise
STEPS_OF_BISECTION = 100  # mu to the last bits


@dataclass(frozen=True)
class Noise:
    """Discrete noise of `scale` steps on a number that one record moves by `sensitivity` steps at most, a power of two.

    (epsilon, 0) with epsilon = sensitivity / scale for Laplace; for Gaussian about mu = sensitivity / scale.
    """

    kind: Kind
    scale: int
    sensitivity: int

    @classmethod
    def of(cls, kind: Kind, multiplier: float) -> "Noise":
        """Noise of `multiplier` times the sensitivity. Raises ValueError for more than 4,096 times."""
        if not 0 < multiplier <= LARGEST_SCALE:
            raise ValueError(
                f"the budget asks for noise of {multiplier:.4g} times what one record changes; at most "
                f"{LARGEST_SCALE} is possible: raise epsilon, or release fewer statistics"
            )
        steps = min(MOST_STEPS, 2 ** floor(log2(LARGEST_SCALE / multiplier)))
        return cls(kind, ceil(multiplier * steps), steps)

    @property
    def deviation(self) -> float:
        """The standard deviation in steps."""
        if self.kind == "discrete-gaussian":
            return float(self.scale)
        decay = exp(-1 / self.scale)
        return sqrt(2 * decay) / (1 - decay)

    def draw(self, count: int, below: Below) -> Whole:
        """(count,) steps."""
        sample = discrete_laplace if self.kind == "discrete-laplace" else discrete_gaussian
        return sample(self.scale, count, below)


def noise_for(epsilon: float, delta: float, numbers: int) -> Noise:
    """The noise for each of so many numbers, under a budget for all. Raises ValueError for a budget that is none."""
    check_budget(epsilon, delta)
    if delta == 0:
        return Noise.of("discrete-laplace", numbers / epsilon)
    return Noise.of("discrete-gaussian", sqrt(numbers) / largest_mu(epsilon, delta))


def check_budget(epsilon: float, delta: float) -> None:
    if not (isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon is {epsilon}; it must be above 0 and finite")
    if not 0 <= delta < 1:
        raise ValueError(f"delta is {delta}; it must be 0 (Laplace noise), or above 0 and below 1 (Gaussian noise)")


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest sensitivity over noise that a Gaussian mechanism of (`epsilon`, `delta`) can have; rounded down."""
    low, high = 0.0, 1.0
    while _delta(epsilon, high) <= delta:
        low, high = high, 2 * high
    for _ in range(STEPS_OF_BISECTION):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(epsilon, middle) <= delta else (low, middle)
    return low or inf


def _delta(epsilon: float, mu: float) -> float:
    """Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)."""
    first, second = (float(log_ndtr(sign * mu / 2 - epsilon / mu)) for sign in (1, -1))
    return exp(first) - exp(epsilon + second) if epsilon + second < 0 else 0.0
