"""What a set of linear equations determines, decided exactly: fraction-free Gauss-Jordan elimination over the integers.

Observed messages are equations A u = b in unknown numbers u with whole coefficients (0 and 1: sums of parts). A sum of
unknowns t u is determined if and only if t lies in the row space of A, t = w A, and then t u = w b. Elimination of
[A | I] finds w without rounding: it depends on who saw which message, not on a number in them, so that one elimination
serves all features of a message, and all of a party's figures in it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Determined:
    """Of t sums over m equations: `known` (t,); `weights` (t, m) and `scale` (t,) whole, target = weights b / scale.

    `relations` (r, m) are the whole combinations of equations that must vanish: what tells whether the equations agree.
    """

    known: NDArray[np.bool_]
    weights: Integers
    scale: Integers
    relations: Integers


def determine(equations: Integers, targets: Integers) -> Determined:
    """Which of `targets` (t, u) follow from `equations` (m, u), and how. Raises OverflowError beyond 62 bits."""
    m, u = equations.shape
    t = len(targets)
    table = np.zeros((m + t, u + m + t), np.int64)
    table[:m, :u], table[m:, :u] = equations, targets
    table[:, u:] = np.eye(m + t, dtype=np.int64)
    spent = np.zeros(m, np.bool_)
    for row in range(m):
        filled = np.flatnonzero(table[row, :u])
        if len(filled):
            spent[row] = True
            _clear(table, row, int(filled[0]))
    rest, scale = table[m:], table[m:, u + m :].diagonal()
    known = np.logical_not(rest[:, :u].any(axis=1))
    sign = np.where(scale < 0, -1, 1)
    relations = table[:m][~spent][:, u : u + m]
    return Determined(np.asarray(known), -rest[:, u : u + m] * sign[:, None], scale * sign, relations)


def _clear(table: Integers, row: int, column: int) -> None:
    """Removes `column` from every other row, and the common factor of what is left of it."""
    others = np.flatnonzero(table[:, column])
    others = others[others != row]
    if len(others) == 0:
        return
    pivot = table[row]
    if int(np.abs(table[others]).max()) * int(np.abs(pivot).max()) >= 2**61:
        raise OverflowError("the coefficients of the equations outgrow 62 bits")
    changed = table[others] * pivot[column] - table[others, column][:, None] * pivot
    common = np.gcd.reduce(changed, axis=1)
    table[others] = changed // np.where(common > 0, common, 1)[:, None]
