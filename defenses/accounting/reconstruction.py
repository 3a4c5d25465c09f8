"""What no adversary can do: bounds on the success of any attack under a mechanism, from its trade-off function.

A success is any event that an adversary may aim for: the record is guessed right, the row is in the batch, the loss is
below a threshold. If it has probability `kappa` for an output that does not depend on the victim (the prior alone),
then it has at most 1 - f(kappa) for the real one, where f is the trade-off function of the mechanism: a test between
the two worlds can be no better than the best one (Neyman and Pearson). Sources: Balle, Cherubin and Hayes 2022; Hayes,
Mahloujifar and Balle 2023, theorem 2 (bounds of reconstruction from the blow-up function 1 - f); Kaissis et al. 2023
(closed forms).

`kappa` is the best success of the *prior under the same granted knowledge*: an adversary who knows the other columns of
a record, or its label, guesses better from the start, and a bound with the kappa of one who knows less is none.
"""

from collections.abc import Callable
from math import exp, log, sqrt

from scipy.special import ndtr, ndtri

from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.subsampling import has_grid, losses

STEPS = 30  # of trisection: epsilon to (2/3)^30 = 5e-6 of its range
LEAST_DELTA = 1e-12  # beyond the epsilon of this delta the bound changes by less than it


def most_success(mechanism: GaussianMechanism, kappa: float) -> float:
    """The success that no adversary exceeds over all rounds, where the prior alone succeeds with `kappa`.

    Exact without sampling by chance; with Poisson sampling, an upper bound from the numeric trade-off function. Batches
    of a fixed size, and large mu, are bounded as if everyone took part. Raises ValueError.
    """
    numeric = mechanism.by_chance and mechanism.sampling == "poisson" and has_grid(mechanism)
    whole = gaussian_success(kappa, mechanism.mu * sqrt(mechanism.participations))
    return min(whole, _numeric_success(mechanism, kappa)) if numeric else whole


def gaussian_success(kappa: float, mu: float) -> float:
    """Phi(Phi^-1(kappa) + mu): attained by the likelihood ratio test of a Gaussian mechanism. Raises ValueError."""
    if not 0 < kappa < 1:
        raise ValueError(f"kappa is {kappa}; it must be above 0 and below 1: the success of the prior alone")
    return float(ndtr(ndtri(kappa) + mu))


def _numeric_success(mechanism: GaussianMechanism, kappa: float) -> float:
    """The least of exp(e) kappa + delta(e), and of 1 - exp(-e) (1 - delta(e) - kappa), over e >= 0.

    The curve delta is the larger of both directions, so the bound holds whichever world is the real one; the second
    form is the first one for negative e. Both have one valley, and every e gives a bound.
    """
    loss = losses(mechanism)
    last = float(loss.get_epsilon_for_delta(LEAST_DELTA))

    def above(e: float) -> float:
        return exp(e) * kappa + float(loss.get_delta_for_epsilon(e))

    def below(e: float) -> float:
        return 1 - exp(-e) * (1 - float(loss.get_delta_for_epsilon(e)) - kappa)

    return min(1.0, _least(above, min(last, -log(kappa))), _least(below, last))  # exp(e) kappa is below 1


def _least(curve: Callable[[float], float], last: float) -> float:
    """The least value of a curve with one valley, on [0, `last`]: what trisection sees."""
    low, high, seen = 0.0, last, min(curve(0.0), curve(last))
    for _ in range(STEPS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = curve(left), curve(right)
        seen = min(seen, at_left, at_right)
        low, high = (low, right) if at_left < at_right else (left, high)
    return seen
