"""Numbers as polynomials: the canonical embedding of CKKS (Cheon et al. 2017, section 3.2), in numpy.

Slot j is the value at zeta^(3^j), for zeta = exp(i pi / N), over the scale; so a rotation of the slots is the
automorphism of a power of 3, as in SEAL. Encoding rounds each coefficient to float64 or to a whole number, whichever is
coarser.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring


def encode(numbers: Floats, scale: float, ring: Ring) -> Residues:
    """(L, N) values of the polynomial whose slots are up to N / 2 numbers, times the scale; further slots are 0.

    Raises ValueError for too many numbers, without showing any, and for one that is not finite.
    """
    slots = ring.degree // 2
    if numbers.ndim != 1 or len(numbers) > slots:
        raise ValueError(f"{numbers.shape} numbers are not a vector of at most {slots}")
    if not np.isfinite(numbers).all():
        raise ValueError("a number to encrypt is not finite; remove or impute such numbers first")
    at_roots = np.zeros(2 * ring.degree, np.complex128)
    at_roots[_threes(ring.degree)[: len(numbers)]] = numbers
    coefficients = np.fft.fft(at_roots)[: ring.degree].real * (2.0 / ring.degree)
    return ring.values(ring.from_floats(np.rint(coefficients * scale)))


def decode(values: Residues, scale: float, ring: Ring) -> Floats:
    """(N / 2,) the numbers in the slots of a polynomial, given by its values (L, N)."""
    coefficients = ring.to_floats(ring.coefficients(values)) / scale
    padded = np.concatenate([coefficients, np.zeros(ring.degree)])
    at_roots = np.fft.ifft(padded) * (2 * ring.degree)
    numbers: Floats = at_roots[_threes(ring.degree)].real
    return numbers


@cache  # exempt: a table of a public number
def _threes(degree: int) -> NDArray[np.int64]:
    """(N / 2,) powers of 3 modulo 2N."""
    powers = np.ones(degree // 2, np.int64)
    for j in range(1, degree // 2):
        powers[j] = powers[j - 1] * 3 % (2 * degree)
    return powers
