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
    step = float(np.clip(width / 6 / np.sqrt(times), 0.003, 0.06))
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
def _truncated_moment(count: int, power: int) -> tuple[float, float, Floats]:
    """First log y, step and values of log E[U^power 1{U <= y}], on even steps of log y, for U of `count` uniforms."""
    centres, mass = _irwin_hall(count)
    edges = centres + 0.5 / (CELLS // count)
    even = np.linspace(np.log(edges[0]), np.log(edges[-1]), CELLS)
    values = np.interp(even, np.log(edges), np.log(np.cumsum(mass * centres**power)))
    return float(even[0]), float(even[1] - even[0]), values


def _moment_at(logs: Floats, parties: int, observed: int) -> Floats:
    """log E[U^k 1{U <= y}] at log y, linear in between; near 0 it grows as y^n."""
    first, step, values = _truncated_moment(parties - observed, observed)
    place = (logs - first) / step
    inside = np.clip(np.nan_to_num(place, nan=0.0), 0.0, len(values) - 1.000001)
    left = inside.astype(np.int64)
    low = values[left]
    result: Floats = low + (inside - left) * (values[left + 1] - low) + np.minimum(place, 0.0) * (step * parties)
    return result


def log_likelihood(
    logs: Floats, total: Floats, largest: Floats, parties: int, observed: int, weights: Weights
) -> Floats:
    """log L at `logs` (..., size), for parts with sum `total` and maximum `largest` (...); -inf at x <= s."""
    n, k = parties, observed
    least = np.log(total)[..., None]
    possible = logs > least
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log1p(-np.exp(np.where(possible, least - logs, -1.0))) + logs  # log (x - s)
        if weights == "exponential":
            value = (1 - n) * logs + (n - k - 1) * rest if n - k > 1 else (1 - n) * logs
        else:
            value = logs - (k + 1) * rest + _moment_at(rest - np.log(largest)[..., None], n, k)
    result: Floats = np.where(possible & ~np.isnan(value), value, -np.inf)
    return result


def weights_of(fractions: list[Floats]) -> Weights:
    """Which of the two distributions an adversary's own numbers were split by: (n,) fractions of each.

    Density on the simplex: (n - 1)! for exponential u, and by integrating over the sum, 1 / (n max^n) for uniform u.
    """
    score = 0.0
    for n in {len(f) for f in fractions}:
        largest = np.max([f for f in fractions if len(f) == n], axis=1)  # (numbers,)
        score -= float(np.sum(np.log(n) + n * np.log(largest) + math.lgamma(n)))
    return "uniform" if score >= 0 else "exponential"
