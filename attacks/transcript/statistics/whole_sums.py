"""How much it says that a mean of whole numbers is a multiple of 1/N, by what the observers' own rows have in common.

Of N = d p rows, the sums of F columns are all multiples of p, so that the means look like those of d rows, with the
chance p^-F if sums are as likely to leave any rest by p as any other. Rows that have something in common leave fewer:
sums of numbers that are all multiples of 10 always end in 0, equal columns leave the same rest twice, and a column of
one number N times that number's. The rests of sums over N rows are combinations of the rows (1, x) with rests by p; so
their number is p^(r - 1), where r is the rank of these rows modulo p and p divides N.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PRIMES = tuple(p for p in range(2, 100) if all(p % q for q in range(2, p)))
LARGE = 1_000_003  # a prime that stands for all beyond those
MOST = 512  # rows that are looked at: of more, the rank is nearly always the same, and never smaller


def log_rests(rows: Floats, own: Floats) -> Floats:
    """(C, 2) for each number of rows the logarithm of how many sums there may be for one that is whole multiples of it,
    from the observers' rows (n, F) of whole numbers: with the divisors that these have in common, and without.
    """
    common, free = _with_ones(own), independent(own)
    logs, left = np.zeros(len(rows)), rows.astype(np.int64)
    for p in PRIMES:
        shared = rank(common, p) - 1
        while (divided := left % p == 0).any():
            left[divided] //= p
            logs[divided] += shared * np.log(p)
    return np.column_stack([logs + free * np.log(left), free * np.log(rows)])


def independent(own: Floats) -> int:
    """How many columns of rows (n, F) of whole numbers vary independently of each other."""
    return rank(_with_ones(own), LARGE) - 1


def _with_ones(own: Floats) -> Floats:
    return np.column_stack([np.ones(len(own)), np.rint(own)])


def rank(rows: Floats, prime: int) -> int:
    """The rank modulo a prime of rows (n, k) of whole numbers; of the first different ones of many."""
    left: Ints = np.unique(np.fmod(rows, prime).astype(np.int64) % prime, axis=0)[:MOST]
    found = 0
    for column in range(left.shape[1]):
        if not len(places := np.flatnonzero(left[:, column])):
            continue
        pivot = left[places[0]] * pow(int(left[places[0], column]), -1, prime) % prime
        left = np.delete(left, places[0], axis=0)
        left = (left - left[:, [column]] * pivot) % prime
        found += 1
    return found
