"""Arithmetic modulo the Mersenne prime p = 2^61 - 1 on numpy arrays of uint64: exact, without big integers.

Numbers are kept in [0, p). A product of two is built from halves of 30 and 31 bits, none of whose sums overflows 64
bits; as 2^61 = 1 modulo p, what lies above bit 61 is added at the bottom.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Elements = NDArray[np.uint64]

P = 2**61 - 1
_P, _BITS = np.uint64(P), np.uint64(61)
_31, _30, _LOW31, _LOW30 = np.uint64(31), np.uint64(30), np.uint64(2**31 - 1), np.uint64(2**30 - 1)


def reduce(a: Elements) -> Elements:
    """Any 64-bit numbers modulo p."""
    folded = (a & _P) + (a >> _BITS)
    return np.where(folded >= _P, folded - _P, folded)


def add(a: Elements, b: Elements) -> Elements:
    return reduce(a + b)


def multiply(a: Elements, b: Elements) -> Elements:
    """a b modulo p; arguments in [0, p), broadcast against each other."""
    a1, a0, b1, b0 = a >> _31, a & _LOW31, b >> _31, b & _LOW31
    middle = a1 * b0 + a0 * b1  # below 2^62; times 2^31
    high = (a1 * b1) << np.uint64(1)  # times 2^62 = 2
    return reduce(high + (middle >> _30) + ((middle & _LOW30) << _31) + a0 * b0)


def elements(numbers: Any) -> Elements:
    """Integers of any size modulo p."""
    return np.array([int(x) % P for x in numbers], np.uint64)
