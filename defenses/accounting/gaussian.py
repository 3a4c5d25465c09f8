"""The Gaussian mechanism, exactly: epsilon, delta and mu, each from the other two.

Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8. With
mu = sensitivity / standard deviation of the noise (mu-GDP of Dong, Roth and Su, JRSS B 2022),

    delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu),

an equality: no mechanism of that mu has less, and every adversary meets it at the threshold b = mu/2 - epsilon/mu of
its likelihood ratio. In b the second term is exp(-b²/2) erfcx((mu - b)/sqrt 2)/2, which neither overflows nor cancels,
so all of this holds for a mu of 1e-6 as for one of 1e6. T rounds without subsampling are one with mu sqrt(T)
(Dong et al., corollary 2).
"""

from collections.abc import Callable
from math import exp, inf, isfinite, log, sqrt

from scipy.special import erfcx, ndtr

LOWEST = -38.0  # threshold of the likelihood ratio: Phi(-38) = 3e-316 is the last that a float holds
SMALLEST_DELTA = 1e-300


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for `epsilon` >= 0 under a Gaussian mechanism of `mu` > 0. Raises ValueError."""
    if not (isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon is {epsilon}; it must be a number of at least 0")
    _check_mu(mu)
    return _delta_at(mu / 2 - epsilon / mu, mu)


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest epsilon for `delta` under a Gaussian mechanism of `mu` > 0; rounded up. Raises ValueError."""
    check_delta(delta)
    _check_mu(mu)
    if _delta_at(mu / 2, mu) <= delta:
        return 0.0
    threshold = _last(lambda b: _delta_at(b, mu) <= delta, LOWEST, mu / 2)
    return mu * (mu / 2 - threshold)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that is still (`epsilon`, `delta`)-differentially private; rounded down. Raises ValueError.

    Noise of standard deviation sensitivity / mu is what a claim of (epsilon, delta) needs.
    """
    check_delta(delta)
    high = 1.0
    while delta_of(epsilon, high) <= delta:
        high *= 2
    return _last(lambda mu: mu == 0 or delta_of(epsilon, mu) <= delta, 0.0, high)


def classical_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The textbook's noise, sqrt(2 ln(1.25/delta)) sensitivity / epsilon, in the units of `sensitivity`.

    Dwork and Roth 2014, theorem A.1, which is proven for epsilon below 1; at 9 and above (delta 1e-5) it is too little.
    """
    check_delta(delta)
    return sqrt(2 * log(1.25 / delta)) * sensitivity / epsilon


def check_delta(delta: float) -> None:
    """Raises ValueError for a delta that a Gaussian mechanism cannot have."""
    if not SMALLEST_DELTA <= delta < 1:
        raise ValueError(f"delta is {delta}; it must be above 0 and below 1: Gaussian noise has no pure epsilon")


def _check_mu(mu: float) -> None:
    if not 0 < mu < inf:
        raise ValueError(f"mu is {mu}; it must be above 0 and finite: without noise there is no epsilon")


def _delta_at(b: float, mu: float) -> float:
    """The delta that an adversary with threshold `b` meets."""
    density, beyond = exp(-b * b / 2) / 2, float(erfcx((mu - b) / sqrt(2)))
    if b < 0:
        return density * (float(erfcx(-b / sqrt(2))) - beyond)
    return float(ndtr(b)) - density * beyond


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number from `low` to `high`, to the last bit, for which `holds`; it does at `low`, and up to one."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
