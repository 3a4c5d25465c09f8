"""One run with canaries: each of m examples is in or out by a fair coin, and an adversary guesses which.

For training, which cannot be run 10^5 times. Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1)
training run", NeurIPS 2023, theorem 5.2: of r guesses (abstaining on the others), the chance of v or more right ones
under (epsilon, delta)-differential privacy is at most

    P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i,    W binomial, r trials of exp(epsilon) / (1 + exp(epsilon)).

How many guesses are made is fixed before scores are seen: the best of several numbers would be the luckiest one.
"""

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from leakledger.audit.dp_audit.two_worlds import CONFIDENCE

LARGEST = 60.0  # epsilon: exp(-60) guesses go wrong, fewer than any audit has canaries
STEPS = 60  # of bisection


@dataclass(frozen=True)
class Guesses:
    """What an adversary guessed: `right` of `made`, on `canaries` that were in or out by a fair coin each."""

    canaries: int
    made: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries or self.made == 0:
            raise ValueError(
                f"{self.right} right guesses of {self.made} on {self.canaries} canaries; each is at most the next, and "
                "a guess has to be made"
            )


def guess(scores: NDArray[Any], included: NDArray[np.bool_], made: int) -> Guesses:
    """Guesses "in" for the `made`/2 highest of scores (m,), "out" for as many lowest; `included` (m,) is the truth.

    Raises ValueError. Ties are broken by the order of the canaries, which must not follow from the truth.
    """
    if scores.shape != included.shape or scores.ndim != 1:
        raise ValueError(f"scores have shape {scores.shape} and the truth {included.shape}; both are lists of canaries")
    if made % 2 or not 0 < made <= len(scores):
        raise ValueError(
            f"{made} guesses on {len(scores)} canaries; half are 'in': an even number up to that is needed"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} scores are no numbers")
    order = np.argsort(-scores, kind="stable")
    right = included[order[: made // 2]].sum() + (~included[order[len(scores) - made // 2 :]]).sum()
    return Guesses(len(scores), made, int(right))


def chance(guesses: Guesses, epsilon: float, delta: float) -> float:
    """What the chance of so many right guesses, or more, is at most under (`epsilon`, `delta`)-differential privacy."""
    v, r, rate = guesses.right, guesses.made, 1 / (1 + exp(-epsilon))
    if v == 0:
        return 1.0
    tail = float(bdtrc(v - 1, r, rate))
    if delta == 0:
        return tail
    steps = np.arange(1, v + 1)
    just_below = bdtr(v - 1, r, rate) - np.where(steps == v, 0.0, bdtr(np.maximum(v - 1 - steps, 0), r, rate))
    return min(1.0, tail + 2 * guesses.canaries * delta * float((just_below / steps).max()))


def one_run_epsilon(guesses: Guesses, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that the guesses refute, at `delta` with `confidence`; 0 where they refute none."""
    if not 0 <= delta < 1:
        raise ValueError(f"delta is {delta}; it must be at least 0 and below 1")
    low, high = 0.0, LARGEST
    if chance(guesses, low, delta) > 1 - confidence:
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(guesses, middle, delta) <= 1 - confidence else (low, middle)
    return low


def one_run_ceiling(canaries: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """What a perfect adversary would show with so many canaries, the best number of guesses being all of them."""
    return one_run_epsilon(Guesses(canaries, canaries, canaries), delta, confidence)
