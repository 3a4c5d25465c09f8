"""Numbers as polynomials: the canonical embedding of CKKS (Cheon et al. 2017, section 3.2), in numpy.

Slot j is the value at zeta^(3^j), for zeta = exp(i pi / N), over the scale; so a rotation of the slots is the
automorphism of a power of 3, as in SEAL. Encoding rounds each coefficient to float64 or to a whole number, whichever is
coarser. The rounding depends on the numbers, and a sum of ciphertexts has the sum of all roundings in it: more than the
sum of the numbers, and larger than the noise of keys where the scale is large. Whole numbers are therefore encoded by
a linear map where only their sum may be told (`encode_whole`).
"""

from functools import cache
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring

WHOLE = 2.0**25  # sums of as many as there are slots, each times a digit, are below 2^63
DIGIT, HIGH = 20, 1 << 36  # bits of a digit of the table; what makes the highest digit of any sum positive


def encode(numbers: Floats, scale: float, ring: Ring) -> Residues:
    """(L, N) values of the polynomial whose slots are up to N / 2 numbers, times the scale; further slots are 0.

    Raises ValueError for too many numbers, without showing any, and for one that is not finite.
    """
    _check_slots(numbers, ring)
    if not np.isfinite(numbers).all():
        raise ValueError("a number to encrypt is not finite; remove or impute such numbers first")
    at_roots = np.zeros(2 * ring.degree, np.complex128)
    at_roots[_threes(ring.degree)[: len(numbers)]] = numbers
    coefficients = np.fft.fft(at_roots)[: ring.degree].real * (2.0 / ring.degree)
    return ring.values(ring.from_floats(np.rint(coefficients * scale)))


def encode_whole(numbers: Floats, scale: float, ring: Ring) -> Residues:
    """The same of whole numbers below `WHOLE`, at a scale that is a power of two: the combination of fixed polynomials
    with the numbers as coefficients, in exact integers. What several parties encode adds up to what their sum encodes.

    Raises ValueError as `encode`, and for a number that is not whole or too large.
    """
    _check_slots(numbers, ring)
    bits = log2(scale) + 1 - log2(ring.degree)
    if not (np.abs(numbers) < WHOLE).all() or (numbers != np.rint(numbers)).any():
        raise ValueError(f"a number to encrypt is not whole, or not below 2^{log2(WHOLE):.0f}")
    if bits != int(bits) or bits < 0:
        raise ValueError(f"the scale {scale:g} is no power of two from {ring.degree / 2:g} on")
    table = _cosines(ring.degree, int(bits))
    sums, places = np.zeros((len(table), ring.degree), np.int64), np.arange(ring.degree)
    for number, power in zip(numbers.astype(np.int64), _threes(ring.degree), strict=False):
        sums += number * table[:, places * power % (2 * ring.degree)]
    digits, carry = np.empty((len(table) + 1, ring.degree), np.uint64), np.zeros(ring.degree, np.int64)
    for d, part in enumerate(sums):
        digits[d] = (part + carry) & (2**DIGIT - 1)
        carry = (part + carry) >> DIGIT
    digits[-1] = carry + HIGH
    return ring.values(ring.from_digits(digits, DIGIT, HIGH << DIGIT * len(table)))


def decode(values: Residues, scale: float, ring: Ring) -> Floats:
    """(N / 2,) the numbers in the slots of a polynomial, given by its values (L, N)."""
    coefficients = ring.to_floats(ring.coefficients(values)) / scale
    padded = np.concatenate([coefficients, np.zeros(ring.degree)])
    at_roots = np.fft.ifft(padded) * (2 * ring.degree)
    numbers: Floats = at_roots[_threes(ring.degree)].real
    return numbers


def _check_slots(numbers: Floats, ring: Ring) -> None:
    """Raises ValueError for anything but a vector that fits the slots."""
    if numbers.ndim != 1 or len(numbers) > ring.degree // 2:
        raise ValueError(f"{numbers.shape} numbers are not a vector of at most {ring.degree // 2}")


@cache  # exempt: a table of a public number
def _threes(degree: int) -> NDArray[np.int64]:
    """(N / 2,) powers of 3 modulo 2N."""
    powers = np.ones(degree // 2, np.int64)
    for j in range(1, degree // 2):
        powers[j] = powers[j - 1] * 3 % (2 * degree)
    return powers


@cache  # exempt: a table of public numbers
def _cosines(degree: int, bits: int) -> NDArray[np.int64]:
    """(D, 2N) the digits of 2^bits cos(pi m / N) as an integer, least significant first; the last has the sign."""
    guarded = bits + 64
    unit, angle = 1 << guarded, _pi(guarded) // degree
    cosine, sine, term, k = unit, 0, unit, 0
    while term:  # Taylor's series
        k += 1
        term = (term * angle >> guarded) // k
        sign = -1 if k % 4 in (2, 3) else 1
        cosine, sine = (cosine, sine + sign * term) if k % 2 else (cosine + sign * term, sine)
    values, c, s = [], unit, 0
    for _ in range(2 * degree):
        values.append((c + (1 << 63)) >> 64)
        c, s = (c * cosine - s * sine) >> guarded, (s * cosine + c * sine) >> guarded
    count = ceil((bits + 2) / DIGIT)
    rows = [[(v >> DIGIT * d) & (2**DIGIT - 1) for v in values] for d in range(count - 1)]
    return np.array([*rows, [v >> DIGIT * (count - 1) for v in values]], np.int64)


def _pi(bits: int) -> int:
    """2^bits pi, by Machin's formula, but for the last places."""

    def arctan(inverse: int) -> int:
        power, total, k = (1 << bits + 16) // inverse, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= inverse**2
            k += 2
        return total

    return (16 * arctan(5) - 4 * arctan(239)) >> 16
