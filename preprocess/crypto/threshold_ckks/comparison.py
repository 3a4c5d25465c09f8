"""Sign, minimum and maximum of encrypted numbers, by a composition of minimax polynomials.

Source: Lee, Lee, No and Kim, "Minimax approximation of sign function by composite polynomial for homomorphic
comparison" (IEEE TDSC 2022): each polynomial is the odd one of its degree that is nearest to the sign on what the one
before leaves. The first is fitted on [`FINEST`, 1]. Nearer to 0 the sign is anything between -1 and 1; what minimum and
maximum are off by is at most `WORST`, for any two numbers in [-1, 1], and largest where these are nearly equal.

Polynomials are fitted by linear programming in the Chebyshev basis, on a grid, and evaluated in that basis by
T_(i + j) = 2 T_i T_j - T_|i - j|.
"""

from functools import cache
from typing import Final, TypeVar

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.optimize import linprog

from leakledger.preprocess.crypto.threshold_ckks.machine import Machine

V = TypeVar("V")

DEGREES: Final = (7, 15, 15, 15)  # of at most five levels each, which a ring of 2^14 has between refreshes
FINEST: Final = 2.0**-10.5  # where `WORST` is least for these degrees
GRID: Final = 1500  # points
ROOM: Final = 1.0 + 2.0**-10  # for noise and points between those of the grid
WORST: Final = 8e-5


@cache  # exempt: public coefficients
def polynomials(degrees: tuple[int, ...] = DEGREES) -> tuple[tuple[float, ...], ...]:
    """Of each polynomial the coefficients of T_1, T_3, T_5, ... Each but the last takes [-1, 1] into itself."""
    low, found = FINEST, []
    for place, degree in enumerate(degrees):
        coefficients, error = _fit(low, degree)
        top = (1.0 + error) * ROOM if place < len(degrees) - 1 else 1.0
        found.append(tuple((coefficients / top).tolist()))
        low = (1.0 - error) / top
    return tuple(found)


def _fit(low: float, degree: int) -> tuple[NDArray[np.float64], float]:
    """The odd polynomial nearest to 1 on [low, 1], and how near."""
    points = low + (1 - low) * (1 - np.cos(np.linspace(0, np.pi, GRID))) / 2
    points = np.union1d(points, np.geomspace(low, 1, GRID))
    values = np.cos(np.outer(np.arccos(np.clip(points, -1, 1)), np.arange(1, degree + 1, 2)))
    above = np.hstack([values, -np.ones((len(points), 1))])
    below = np.hstack([-values, -np.ones((len(points), 1))])
    limits = np.concatenate([np.ones(len(points)), -np.ones(len(points))])
    goal = np.append(np.zeros(values.shape[1]), 1.0)
    bounds = [(None, None)] * values.shape[1] + [(0, None)]
    solved = linprog(goal, np.vstack([above, below]), limits, bounds=bounds, method="highs")
    return solved.x[:-1], float(solved.x[-1])


def plain_sign(x: NDArray[np.float64], degrees: tuple[int, ...] = DEGREES) -> NDArray[np.float64]:
    """What `sign` computes, on numbers in the clear."""
    for coefficients in polynomials(degrees):
        spread = np.zeros(2 * len(coefficients))
        spread[1::2] = coefficients
        x = np.asarray(chebyshev.chebval(x, spread), np.float64)
    return x


def sign(machine: Machine[V], x: V) -> V:
    """-1 to 1 for x in [-1, 1]. Raises LevelError where the parameters have too few levels."""
    for coefficients in polynomials():
        depth = (2 * len(coefficients) - 1).bit_length() + 1
        x = _evaluate(machine, machine.ready(x, depth, 2.0), coefficients)
    return x


def maximum(machine: Machine[V], a: V, b: V) -> V:
    """The larger number of each slot, of numbers in [-1, 1]: (a + b) / 2 + (a - b) / 2 sign((a - b) / 2)."""
    return _outer(machine, a, b, 1)


def minimum(machine: Machine[V], a: V, b: V) -> V:
    """The smaller number of each slot, of numbers in [-1, 1]."""
    return _outer(machine, a, b, -1)


def _outer(machine: Machine[V], a: V, b: V, which: int) -> V:
    mean = machine.multiply_constant(machine.add(a, b), 0.5)
    half = machine.within(machine.multiply_constant(machine.subtract(a, b), 0.5), 1.0)
    side = machine.multiply_integer(machine.ready(sign(machine, half), 1, 2.0), which)
    return machine.within(machine.add(machine.multiply(half, side), mean), ROOM)


def _evaluate(machine: Machine[V], x: V, coefficients: tuple[float, ...]) -> V:
    """The sum of coefficients times T_1, T_3, ... at x."""
    terms = {1: x}
    power = 1
    while 2 * power < 2 * len(coefficients):
        terms[2 * power] = _chebyshev(machine, terms, power, power)
        power *= 2
    total = machine.multiply_constant(x, coefficients[0])
    for k in range(3, 2 * len(coefficients), 2):
        largest = 1 << (k.bit_length() - 1)
        terms[k] = _chebyshev(machine, terms, largest, k - largest)
        total = machine.add(total, machine.multiply_constant(terms[k], coefficients[k // 2]))
    return machine.within(total, ROOM)


def _chebyshev(machine: Machine[V], terms: dict[int, V], i: int, j: int) -> V:
    """T_(i + j) = 2 T_i T_j - T_|i - j|"""
    twice = machine.multiply_integer(machine.multiply(terms[i], terms[j]), 2)
    less = machine.add_constant(twice, -1.0) if i == j else machine.subtract(twice, terms[abs(i - j)])
    return machine.within(less, ROOM)
