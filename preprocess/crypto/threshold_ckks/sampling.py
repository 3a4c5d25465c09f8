"""What the scheme draws from a party's source of secrets: ternary keys, errors, smudging noise, masks; and, from a
public seed, common reference polynomials.
"""

from math import sqrt

import numpy as np

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues, Signed
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.secret import KeyStream, hkdf  # exempt: the expansion of a seed that is public

COINS = 21  # errors are centred binomial: the difference of this many coins and as many others, as in SEAL
ERROR = sqrt(COINS / 2)  # standard deviation of an error, 3.24
MAX_SMUDGING_BITS = 512
_WORD_BITS = 62  # within a word of 64
_COINS = np.uint64(2**COINS - 1)


def ternary(ring: Ring, source: Randomness) -> Residues:
    """(L, N) values of a polynomial with uniform coefficients in -1, 0, 1."""
    return ring.values_of(source.below(3, ring.degree).astype(np.int64) - 1)


def errors(ring: Ring, source: Randomness, count: int = 1) -> Residues:
    """(count, L, N) values of polynomials with centred binomial coefficients."""
    return ring.values_of(_binomial(ring, source, count))


def error_coefficients(ring: Ring, source: Randomness) -> Signed:
    """(N,) coefficients of one such polynomial, as integers."""
    only: Signed = _binomial(ring, source, 1)[0]
    return only


def _binomial(ring: Ring, source: Randomness, count: int) -> Signed:
    words = source.words(count * ring.degree).reshape(count, ring.degree)
    heads, tails = np.bitwise_count(words & _COINS), np.bitwise_count(words >> np.uint64(COINS) & _COINS)
    drawn: Signed = heads.astype(np.int64) - tails
    return drawn


def smudging(ring: Ring, bits: int, source: Randomness) -> Residues:
    """(L, N) values of a polynomial with uniform coefficients in [-2^bits, 2^bits)."""
    if not 0 <= bits <= MAX_SMUDGING_BITS:
        raise ValueError(f"smudging noise of {bits} bits: it has 0 to {MAX_SMUDGING_BITS}")
    if bits > _WORD_BITS:
        return ring.values(mask_coefficients(ring, bits, source))
    return ring.values_of(_within(source.words(ring.degree), bits))


def _within(words: Residues, bits: int) -> Signed:
    return (words >> np.uint64(63 - bits)).astype(np.int64) - np.int64(2**bits)


def mask_coefficients(ring: Ring, bits: int, source: Randomness) -> Residues:
    """(L, N) coefficients of a polynomial, uniform in [-2^bits, 2^bits)."""
    each = min(ring.primes).bit_length() - 1  # what is drawn at a time is below every prime
    sizes = [min(each, bits + 1 - at) for at in range(0, bits + 1, each)]
    drawn = source.words(len(sizes) * ring.degree).reshape(-1, ring.degree)
    digits = drawn >> np.array([64 - size for size in sizes], np.uint64)[:, None]
    return ring.from_digits(digits, each, 2**bits)


def common(ring: Ring, seed: bytes, label: str, count: int = 1) -> Residues:
    """(count, L, N) uniform values that follow from a public seed: the common reference polynomials of `label`."""
    source = Randomness(KeyStream(hkdf(seed, b"threshold ckks: " + label.encode(), 32)))
    rows = [[source.below(p, ring.degree) for p in ring.primes] for _ in range(count)]
    return np.array(rows, np.uint64)
