"""How likely observed parts are under proportional sharing, for every value that they may be parts of.

A value x > 0 is split into p_i = x u_i / (u_1 + ... + u_n), i = 1..n (`crypto.sharing`), fresh u for every number. An
adversary holds k of the parts, with sum s and largest part m, and does not know A = sum of their u, nor U, the sum of
the n - k other u. Since s = x A / (A + U), a candidate x fixes u_i = p_i U / (x - s); the Jacobian of u -> p is
(U / (x - s))^k x / (x - s), so

    L(x) = x / (x - s)^(k+1)  E[ U^k 1{U <= (x - s) / m} ]        u uniform on (0, 1]: U is Irwin-Hall(n - k)
    L(x) = x^(1-n) (x - s)^(n-k-1)                               u exponential: the proportions are uniform on a simplex

for x > s. The family is one of scale, so with the prior dx / x the posterior of x given one observation is at the same
time a confidence distribution: its 90 % intervals cover 90 % for every x. The sign of x is that of its parts.

Everything is on one lattice of log x with a common step, so that the product of two unknown numbers (rows times mean)
is a shift on it.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = Literal["uniform", "exponential"]
CELLS = 4096


@dataclass(frozen=True)
class Lattice:
    """log x = step * (origin + j), j = 0..size-1."""

    step: float
    size: int

    def logs(self, origin: NDArray[np.int64]) -> Floats:
        """(..., size) log x."""
        points: Floats = np.asarray(self.step * (origin[..., None] + np.arange(self.size)), np.float64)
        return points


def lattice(parties: int, observed: int, times: int = 1) -> Lattice:
    """Fine against how well k parts tell a value, log-deviation 0.58 sqrt((n - k) / (n k)), and long enough for all
    but a thousandth of what it may be; `times`: how often the same number was shared.
    """
    width = 0.577 * math.sqrt((parties - observed) / (parties * observed))
    step = float(np.clip(width / 12 / np.sqrt(times), 0.003, 0.04))
    reach = np.log(parties / observed) + 0.5 + 7 / observed
    return Lattice(step, int(np.ceil(reach / step)))


@cache
def _irwin_hall(count: int) -> tuple[Floats, Floats]:
    """Cell centres and masses of the sum of `count` uniform numbers on (0, 1]."""
    cells = CELLS // count
    one = np.full(cells, 1.0 / cells)
    mass = one
    for _ in range(count - 1):
        mass = np.convolve(mass, one)
    # A sum of cell indices stands for the sum of cell centres.
    return (np.arange(len(mass)) + count / 2) / cells, mass


@cache
def _truncated_moment(count: int, power: int) -> tuple[Floats, Floats]:
    """log y and log E[U^power 1{U <= y}] for the sum U of `count` uniforms; linear in between, also far below."""
    centres, mass = _irwin_hall(count)
    edges = centres + 0.5 / (CELLS // count)
    return np.log(edges), np.log(np.cumsum(mass * centres**power))


def log_likelihood(
    logs: Floats, total: Floats, largest: Floats, parties: int, observed: int, weights: Weights
) -> Floats:
    """log L at `logs` (..., size), for parts with sum `total` and maximum `largest` (...); -inf at x <= s."""
    n, k = parties, observed
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log1p(-np.exp(np.log(total)[..., None] - logs)) + logs  # log (x - s)
        if weights == "exponential":
            value = (1 - n) * logs + (n - k - 1) * rest if n - k > 1 else (1 - n) * logs
        else:
            x, y = _truncated_moment(n - k, k)
            at = rest - np.log(largest)[..., None]
            below = np.minimum(at - x[0], 0.0) * n  # the moment grows as y^n near 0
            value = logs - (k + 1) * rest + np.interp(at, x, y) + np.where(below < 0, below, 0.0)
    result: Floats = np.where(logs > np.log(total)[..., None], value, -np.inf)
    return np.where(np.isnan(result), -np.inf, result)


def weights_of(fractions: list[Floats]) -> Weights:
    """Which of the two distributions an adversary's own numbers were split by: (n,) fractions of each.

    Density on the simplex: (n - 1)! for exponential u, and by integrating over the sum, 1 / (n max^n) for uniform u.
    """
    score = 0.0
    for f in fractions:
        n = len(f)
        score += -np.log(n) - n * np.log(f.max()) - math.lgamma(n)
    return "uniform" if score >= 0 else "exponential"
