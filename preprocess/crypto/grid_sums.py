"""Sums over rows of which the total over parties says nothing but what it says of all rows together.

A total over a ring is exact to the last bit of its grid, and float64 sums are not: each is rounded by as much as its
own rows make it, and a square around a float64 mean has digits of that mean far below its own. So the total of such
sums differs between divisions of the same rows. With two parties outside and a column of two numbers, its last digits
leave one pair of row counts and rates. Here every row is rounded to the grid by itself, and whole numbers are added:
the total is the same for every division of the rows.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.sharing import Number, Ring

GRID_BITS = Ring.fraction_bits
MANTISSA = 53

Column = NDArray[np.float64]


def grid_sum(column: Column) -> Number:
    """The sum of a column (n,), each number rounded to 2^-120; infinite where one is not finite."""
    if not np.isfinite(column).all():
        return float("inf")
    return Fraction(sum(n * x for x, n in _on_grid(column)), 2**GRID_BITS)


def grid_squares(column: Column, centre: Fraction) -> Number:
    """The sum of squares around the centre, likewise: column and centre are rounded, and so is each square."""
    if not np.isfinite(column).all():
        return float("inf")
    middle, half = round(centre * 2**GRID_BITS), 1 << (GRID_BITS - 1)
    squares = sum(n * (((x - middle) ** 2 + half) >> GRID_BITS) for x, n in _on_grid(column))
    return Fraction(squares, 2**GRID_BITS)


def _on_grid(column: Column) -> Iterator[tuple[int, int]]:
    """Each number of the column in steps of the grid, and how many rows have it."""
    numbers, rows = np.unique(column, return_counts=True)
    parts, exponents = np.frexp(numbers)
    whole = np.ldexp(parts, MANTISSA).astype(np.int64).tolist()
    up = (exponents + (GRID_BITS - MANTISSA)).tolist()
    for m, e, n in zip(whole, up, rows.tolist(), strict=True):
        yield (m << e if e >= 0 else (m + (1 << (-e - 1))) >> -e), n
