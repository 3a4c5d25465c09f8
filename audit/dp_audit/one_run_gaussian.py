"""One run with canaries, for a mechanism that is assumed to be Gaussian: a bound on mu, and so on epsilon at any delta.

Source: Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", 2024 (arXiv 2410.22235). Let p_i
be the chance of exactly i right guesses of r on m canaries. If the mechanism has trade-off function f then, for every
t, with F(x) = 1 - f(x),

    sum_{i >= t} (i/m) p_i  <=  F( sum_{i >= t} ((r - i + 1)/m) p_{i-1} ):

a canary that is guessed right, and one that is guessed wrong while all others stay, are two worlds of one coin. Suppose
v or more right guesses have chance 1 - confidence. Going down from v, the least p_i that the inequality allows follows
from those above it; if all of them together exceed what chances can be (their sum of (i + (r - i))/m is r/m), then no
mechanism with that f has guesses like these. It pays nothing for delta per canary, and is still far from tight: with
every canary guessed, mu = 1 on 10,000 of them shows as 0.34, with a tenth of them guessed as 0.69.
"""

from collections.abc import Callable

from scipy.special import ndtr, ndtri

from leakledger.audit.dp_audit.one_run import Guesses
from leakledger.audit.dp_audit.two_worlds import CONFIDENCE

STEPS = 30  # of bisection: mu to a millionth
LARGEST = 20.0  # mu: beyond, a Gaussian mechanism errs in less than 1e-22 of guesses


def refuted(guesses: Guesses, least: Callable[[float], float], confidence: float = CONFIDENCE) -> bool:
    """Whether the guesses are too good for a trade-off function, given as `least`, the inverse of F = 1 - f."""
    made, whole = guesses.made, guesses.made / guesses.canaries
    right = (1 - confidence) * guesses.right / guesses.canaries  # sum over i >= t of (i/m) p_i
    wrong = (1 - confidence) * (made - guesses.right) / guesses.canaries  # and of ((r - i)/m) p_i
    for i in range(guesses.right - 1, -1, -1):
        more = max(wrong, least(right))
        right += i / (made - i) * (more - wrong)
        wrong = more
        if right + wrong > whole:
            return True
    return False


def one_run_mu(guesses: Guesses, confidence: float = CONFIDENCE) -> float:
    """The largest mu that the guesses refute, if the mechanism is Gaussian; 0 where they refute none."""

    def too_good(mu: float) -> bool:
        return refuted(guesses, lambda x: float(ndtr(ndtri(x) - mu)), confidence)

    if not too_good(0.0):
        return 0.0
    low, high = 0.0, LARGEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if too_good(middle) else (low, middle)
    return low
