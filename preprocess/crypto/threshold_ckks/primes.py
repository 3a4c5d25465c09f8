"""Arithmetic modulo word-sized primes on numpy arrays of uint64, and the negacyclic number-theoretic transform.

Residues are kept in [0, p). A product takes its quotient from float64, which is off by at most one below 2^51, and its
remainder from 64-bit integers that wrap around; primes up to 2^61 take a factor in halves of 30 and 31 bits.

The transform is that of Longa and Naehrig ("Speeding up the number theoretic transform", CANS 2016, algorithms 1 and 2)
with the least primitive 2N-th root of unity: the same as Microsoft SEAL's, order of the values included.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Signed = NDArray[np.int64]
Floats = NDArray[np.float64]

NARROW_BITS, WIDE_BITS = 50, 60  # the widest primes of either kind
_HALF, _LOW = np.uint64(30), np.uint64(2**30 - 1)


def add(a: Residues, b: Residues, p: int) -> Residues:
    """a + b modulo p."""
    total = a + b
    least: Residues = np.minimum(total, total - np.uint64(p))  # the other one has wrapped around
    return least


def subtract(a: Residues, b: Residues, p: int) -> Residues:
    """a - b modulo p."""
    difference = a - b
    least: Residues = np.minimum(difference, difference + np.uint64(p))
    return least


def negate(a: Residues, p: int) -> Residues:
    """-a modulo p."""
    return subtract(np.zeros_like(a), a, p)


def multiply(a: Residues, b: "Residues | np.uint64", p: int) -> Residues:
    """a b modulo p; residues broadcast against each other."""
    if p < 2**NARROW_BITS:
        return _multiply(a, b, p)
    high = _multiply(_multiply(a, b >> _HALF, p), np.uint64(2**30), p)
    return add(high, _multiply(a, b & _LOW, p), p)


def _multiply(a: Residues, b: "Residues | np.uint64", p: int) -> Residues:
    """a b modulo p as long as a b / p is below 2^50: then the quotient from float64 is off by at most one."""
    quotient = (a * (1.0 / p) * b).astype(np.uint64)
    quotient *= np.uint64(p)
    rest: Residues = a * b
    rest -= quotient
    rest = np.minimum(rest, rest + np.uint64(p))
    rest = np.minimum(rest, rest - np.uint64(p))
    return rest


def from_signed(a: Signed, p: int) -> Residues:
    """Integers in (-p, p) modulo p."""
    return np.where(a < 0, a + p, a).astype(np.uint64)


def from_floats(a: Floats, p: int) -> Residues:
    """Whole numbers of any size, held as float64, modulo p."""
    fraction, exponent = np.frexp(a)
    size = np.maximum(exponent, 53)  # smaller numbers are whole below 2^53
    whole = np.ldexp(fraction, exponent - size + 53).astype(np.int64)
    powers = np.array([pow(2, k, p) for k in range(int(size.max(initial=53)) - 52)], np.uint64)
    residues = from_signed(np.sign(whole) * (np.abs(whole) % p), p)
    return multiply(residues, powers[size - 53], p)


@dataclass(frozen=True)
class Transform:
    """The negacyclic transform of polynomials of N coefficients modulo `p`, which is one modulo 2N.

    The first half of the passes runs down the columns of a square, and after a transposition so does the second:
    numpy's inner loops stay long.
    """

    p: int
    order: NDArray[np.int64] = field(repr=False)  # (N,) bit-reversed numbers
    roots: Residues = field(repr=False)  # (N,) powers of the root, in this order
    ratios: NDArray[Any] = field(repr=False)  # (N,) roots / p
    inverse_powers: Residues = field(repr=False)  # (N,) of its inverse, over N

    def forward(self, a: Residues) -> Residues:
        """(..., N) values, in SEAL's order, of the polynomials with coefficients (..., N)."""
        narrow = self.p < 2**NARROW_BITS
        room, out = a.shape[-1] // 2, np.empty(a.shape, np.uint64)
        butterfly = _Narrow(self, room) if narrow else _Wide(self)
        for source, target in zip(a.reshape(-1, 2 * room), out.reshape(-1, 2 * room), strict=True):
            target[:] = butterfly.reduce(_passes(source.astype(butterfly.dtype), butterfly))
        return out

    def backward(self, values: Residues) -> Residues:
        """(..., N) coefficients from values: the inverse of `forward`, by way of it.

        With values A_k in natural order, `forward` of A_k w^-k for the root w gives N a_-j w^-j at j (a_N-j = -a_-j).
        """
        p, shape = self.p, values.shape
        n = shape[-1]
        natural = multiply(values[..., self.order].reshape(-1, n), self.inverse_powers, p)
        turned = self.forward(natural)[:, self.order]
        turned = np.concatenate([turned[:, :1], turned[:, :0:-1]], axis=1)
        coefficients = multiply(multiply(turned, self.inverse_powers, p), np.uint64(n), p)
        return coefficients.reshape(shape)


def _passes(a: NDArray[Any], butterfly: "_Narrow | _Wide") -> NDArray[Any]:
    rows = 1 << (len(a).bit_length() - 1) // 2
    columns = len(a) // rows
    for groups in _doubling(rows):
        parts = a.reshape(groups, 2, rows // (2 * groups), columns)
        butterfly(parts[:, 0], parts[:, 1], slice(groups, 2 * groups), (groups, 1, 1))
    b = np.ascontiguousarray(a.reshape(rows, columns).T)
    for groups in _doubling(columns):
        parts = b.reshape(groups, 2, columns // (2 * groups), rows)
        butterfly(parts[:, 0], parts[:, 1], slice(rows * groups, 2 * rows * groups), (groups, 1, rows))
    return np.ascontiguousarray(b.T).reshape(-1)


class _Narrow:
    """Butterflies u + w v and u - w v whose results are reduced once, at the end.

    The quotient of w v, from float64, is off by at most |v| / 2p + 1 (four roundings), so numbers grow by no more than
    half and p in a pass: after 15 they are below 2^11 p, and 64 bits are enough.
    """

    dtype = np.int64

    def __init__(self, of: Transform, room: int) -> None:
        self.p, self.roots, self.ratios = of.p, of.roots.view(np.int64), of.ratios
        self.product, self.quotient = np.empty(room, np.int64), np.empty(room, np.int64)
        self.real = np.empty(room)

    def __call__(self, u: Signed, v: Signed, which: slice, shape: tuple[int, int, int]) -> None:
        product, quotient = self.product.reshape(v.shape), self.quotient.reshape(v.shape)
        real = self.real.reshape(v.shape)
        np.multiply(v, _roots(self.roots, which, shape), out=product)
        np.copyto(real, v, casting="unsafe")
        real *= _roots(self.ratios, which, shape)
        np.copyto(quotient, real, casting="unsafe")
        quotient *= np.int64(self.p)
        product -= quotient
        np.subtract(u, product, out=v)
        u += product

    def reduce(self, a: Signed) -> Residues:
        quotient = np.floor(a * (1.0 / self.p)).astype(np.int64)  # off by at most one
        quotient *= self.p
        rest: Residues = (a - quotient).view(np.uint64)
        np.minimum(rest, rest + np.uint64(self.p), out=rest)
        np.minimum(rest, rest - np.uint64(self.p), out=rest)
        return rest


class _Wide:
    """Butterflies for primes above 2^50, every result reduced."""

    dtype = np.uint64

    def __init__(self, of: Transform) -> None:
        self.p, self.roots = of.p, of.roots

    def __call__(self, u: Residues, v: Residues, which: slice, shape: tuple[int, int, int]) -> None:
        t = multiply(v, np.broadcast_to(_roots(self.roots, which, shape), v.shape), self.p)
        v[...] = subtract(u, t, self.p)
        u[...] = add(u, t, self.p)

    def reduce(self, a: Residues) -> Residues:
        return a


def _roots(table: NDArray[Any], which: slice, shape: tuple[int, int, int]) -> NDArray[Any]:
    """The roots of a pass: one for each group, or for each group and column."""
    groups, _, columns = shape
    return table[which].reshape(columns, groups).T.reshape(shape)


def _doubling(stop: int) -> list[int]:
    """1, 2, 4, ... below stop."""
    return [1 << k for k in range(stop.bit_length() - 1)]


@cache  # exempt: tables of a public prime
def transform(p: int, degree: int) -> Transform:
    """Raises ValueError for a number that is not one modulo 2 `degree`, or that is too wide."""
    if p % (2 * degree) != 1 or not 2 < p < 2 ** (WIDE_BITS + 1):
        raise ValueError(f"there is no transform of degree {degree} modulo {p}")
    root = least_root(p, degree)
    inverse = multiply(powers_of(pow(root, -1, p), degree, p), np.uint64(pow(degree, -1, p)), p)
    order = bit_reversed(degree)
    roots = powers_of(root, degree, p)[order]
    return Transform(p, order, roots, roots * (1.0 / p), inverse)


def least_root(p: int, degree: int) -> int:
    """The least primitive root of unity of order 2 `degree` modulo the prime p."""
    candidates = (pow(g, (p - 1) // (2 * degree), p) for g in range(2, 200))
    root = next(c for c in candidates if pow(c, degree, p) == p - 1)
    odd = multiply(powers_of(pow(root, 2, p), degree, p), np.uint64(root), p)
    return int(odd.min())


def powers_of(root: int, count: int, p: int) -> Residues:
    """(count,) powers of the root from the 0th on, by doubling."""
    table = np.ones(1, np.uint64)
    while len(table) < count:
        table = np.concatenate([table, multiply(table, np.uint64(pow(root, len(table), p)), p)])
    return table


def bit_reversed(count: int) -> NDArray[np.int64]:
    order = np.zeros(1, np.int64)
    while len(order) < count:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
