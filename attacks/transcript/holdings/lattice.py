"""Small integer solutions of linear equations with large integer coefficients, by lattice reduction.

The knapsack of Lagarias and Odlyzko (1985), with several equations and an expected solution: in the lattice spanned by
the rows (w_v e_v | W a_v | 0) and (-w_v c_v | -W b | M), a vector that is 0 behind the bar and M at the end is a
solution x of A x = b, weighted by its distance from what is expected, c. LLL reduction (Lenstra, Lenstra, Lovász 1982)
in exact integers (Cohen, "A course in computational algebraic number theory", algorithm 2.6.7) finds it where the
equations have more digits than the solution. The rest of the reduced basis spans the kernel of A: another non-negative
solution is a step along it, sum_i z_i b_i with whole z. A step is as long as the part of its last b_i that is
orthogonal to those before, so that long ones take none; whether the others do is a small integer program.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = list[int]
REACHED, INFEASIBLE = 0, 2  # of `scipy.optimize.milp`
LARGEST, NODES = 10**6, 1000  # entries that an integer program in float64 is trusted with, and the nodes that it gets


class Solution(NamedTuple):
    """Counts (k,), and whether they are shown to be the only ones: else the search for others had no end."""

    counts: Vector
    only: bool


def non_negative_solution(
    coefficients: Sequence[Sequence[int]], sums: Sequence[int], expected: Sequence[int], weights: Sequence[int]
) -> Solution | None:
    """x (k,) of whole numbers from 0 with `coefficients` (equations, k) times x = `sums`; None where none is found, or
    where another one is. The first equation is how many there are in all: its coefficients are 1. `expected` (k,) and
    `weights` (k,) say what x is likely to be, and how surely.
    """
    k, equations = len(expected), len(sums)
    large = 2 ** (k + 8) * (1 + max(w * (1 + c) for w, c in zip(weights, expected, strict=True)))
    rows = [[weights[v] * (v == i) for v in range(k)] + [large * a[i] for a in coefficients] + [0] for i in range(k)]
    marker = max(weights)
    rows.append([-w * c for w, c in zip(weights, expected, strict=True)] + [-large * b for b in sums] + [marker])
    reduced = reduce(rows)
    inside = [r for r in reduced if not any(r[k : k + equations])]
    row = next((r for r in inside if abs(r[-1]) == marker), None)
    if row is None:
        return None
    sign = row[-1] // marker
    found = [sign * x // w + c for x, w, c in zip(row, weights, expected, strict=False)]
    others = [[x - r[-1] // row[-1] * y for x, y in zip(r, row, strict=True)] for r in inside if r is not row]
    kernel = [[x // w for x, w in zip(r, weights, strict=False)] for r in others]
    another = _another(found, kernel) if min(found) >= 0 else True
    return None if another else Solution(found, only=another is False)


def _another(found: Vector, kernel: Sequence[Vector]) -> bool | None:
    """Whether a step along the kernel leads to another non-negative solution; None where that is not settled."""
    steps = _short(kernel, 2.0 * sum(found)) if kernel else np.zeros((0, len(found)))
    if not len(steps):
        return False
    if np.abs(steps).max() > LARGEST:
        return None
    open_ = False
    for more in range(len(found)):
        reached = _reachable(np.array(found, np.float64), steps, more)
        if reached:
            return True
        open_ = open_ or reached is None
    return None if open_ else False


def _short(kernel: Sequence[Vector], longest: float) -> NDArray[np.float64]:
    """(steps, k) of the basis those that a vector of the lattice up to that long may take: none behind the last whose
    orthogonal part (Gram and Schmidt) is as short.
    """
    basis = np.array(kernel, np.float64)
    parts = np.abs(np.linalg.qr(basis.T)[1].diagonal())
    near = np.flatnonzero(parts <= 2 * longest)  # twice, for the rounding of long vectors
    short: NDArray[np.float64] = basis[: near[-1] + 1] if len(near) else basis[:0]
    return short


def _reachable(found: NDArray[np.float64], steps: NDArray[np.float64], more: int) -> bool | None:
    """Whether whole multiples of the steps lead to a non-negative solution with more of one value; None: they may."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # imported late: other attacks need not wait for it

    least = -found
    least[more] = 1.0
    solved = milp(
        np.zeros(len(steps)),
        integrality=np.ones(len(steps)),
        bounds=Bounds(-np.inf, np.inf),
        constraints=LinearConstraint(steps.T, least, np.inf),
        options={"node_limit": NODES},
    )
    return {REACHED: True, INFEASIBLE: False}.get(int(solved.status))


def reduce(basis: Sequence[Sequence[int]]) -> list[Vector]:
    """An LLL-reduced basis (factor 3/4) of the lattice of linearly independent rows, in exact arithmetic."""
    b = [list(row) for row in basis]
    n = len(b)
    d = [1, _dot(b[0], b[0])] + [0] * (n - 1)  # d[i + 1]: Gram determinant of the first i + 1 rows
    mu = [[0] * n for _ in range(n)]  # times d[j + 1]
    k, ready = 1, 0
    while k < n:
        if k > ready:
            ready = k
            _extend(b, d, mu, k)
        _size_reduce(b, d, mu, k, k - 1)
        if 4 * d[k + 1] * d[k - 1] < 3 * d[k] ** 2 - 4 * mu[k][k - 1] ** 2:
            _swap(b, d, mu, k, ready)
            k = max(1, k - 1)
        else:
            for j in range(k - 2, -1, -1):
                _size_reduce(b, d, mu, k, j)
            k += 1
    return b


def _dot(a: Vector, b: Vector) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _extend(b: list[Vector], d: Vector, mu: list[Vector], k: int) -> None:
    """The integral Gram-Schmidt coefficients of row k."""
    for j in range(k + 1):
        u = _dot(b[k], b[j])
        for i in range(j):
            u = (d[i + 1] * u - mu[k][i] * mu[j][i]) // d[i]
        if j < k:
            mu[k][j] = u
        else:
            d[k + 1] = u


def _size_reduce(b: list[Vector], d: Vector, mu: list[Vector], k: int, j: int) -> None:
    if 2 * abs(mu[k][j]) <= d[j + 1]:
        return
    q = (2 * mu[k][j] + d[j + 1]) // (2 * d[j + 1])
    b[k] = [x - q * y for x, y in zip(b[k], b[j], strict=True)]
    mu[k][j] -= q * d[j + 1]
    for i in range(j):
        mu[k][i] -= q * mu[j][i]


def _swap(b: list[Vector], d: Vector, mu: list[Vector], k: int, ready: int) -> None:
    b[k], b[k - 1] = b[k - 1], b[k]
    for j in range(k - 1):
        mu[k][j], mu[k - 1][j] = mu[k - 1][j], mu[k][j]
    m = mu[k][k - 1]
    new = (d[k - 1] * d[k + 1] + m * m) // d[k]
    for i in range(k + 1, ready + 1):
        t = mu[i][k]
        mu[i][k] = (d[k + 1] * mu[i][k - 1] - m * t) // d[k]
        mu[i][k - 1] = (new * t + m * mu[i][k]) // d[k + 1]
    d[k] = new
