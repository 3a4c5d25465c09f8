"""Arithmetic modulo word-sized primes on numpy arrays of uint64, and the negacyclic number-theoretic transform.

Residues are kept in [0, p). A product takes its quotient from float64, which is off by at most one below 2^51, and its
remainder from 64-bit integers that wrap around; primes up to 2^61 take a factor in halves of 30 and 31 bits. Nothing
reads a word of 128 bits, which numpy has not.

The transform is that of Longa and Naehrig ("Speeding up the number theoretic transform", CANS 2016, algorithms 1 and 2)
with the least primitive 2N-th root of unity: the same as Microsoft SEAL's, order of the values included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Signed = NDArray[np.int64]
Floats = NDArray[np.float64]
Factor = Residues | np.uint64

NARROW_BITS, WIDE_BITS = 50, 60  # the widest primes of either kind
_HALF, _LOW = np.int64(30), np.int64(2**30 - 1)


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


def multiply(a: Residues, b: Factor, p: int) -> Residues:
    """a b modulo p; residues broadcast against each other."""
    factor: Signed = np.asarray(b).view(np.int64)
    if p < 2**NARROW_BITS:
        return _narrow_product(a.view(np.int64), *_Narrow.factors(factor, p), p)
    return _wide_product(a.view(np.int64), *_Wide.factors(factor, p), p)


def multiply_add(pairs: Sequence[tuple[Residues, Factor]], plus: Residues, p: int) -> Residues:
    """The sum of at most two products, plus residues, modulo p: reduced once where the prime is narrow."""
    if p >= 2**NARROW_BITS:
        for a, b in pairs:
            plus = add(plus, multiply(a, b, p), p)
        return plus
    total: Signed = plus.view(np.int64)
    quotient: Floats = np.zeros(())
    for a, b in pairs:
        quotient = quotient + a.view(np.int64) * (b.view(np.int64) * (1.0 / p))
        total = total + a.view(np.int64) * b.view(np.int64)
    total = total - quotient.astype(np.int64) * np.int64(p)  # off by at most one: from -p to 3 p with `plus`
    rest = _near(total.view(np.uint64), p)
    least: Residues = np.minimum(rest, rest - np.uint64(p))
    return least


def joined(digits: Residues, bits: int, p: int) -> Residues:
    """d_0 + 2^bits d_1 + 2^(2 bits) d_2 + ... modulo p, for digits (D, ...) below p, two at a time."""
    total: Residues = digits[-1]
    rest = digits[:-1][::-1]
    once, twice = np.uint64(pow(2, bits, p)), np.uint64(pow(2, 2 * bits, p))
    if len(rest) % 2:
        total, rest = multiply_add([(total, once)], rest[0], p), rest[1:]
    for upper, lower in zip(rest[::2], rest[1::2], strict=True):
        total = multiply_add([(total, twice), (upper, once)], lower, p)
    return total


def _narrow_product(a: Signed, b: Signed, ratio: Floats, p: int) -> Residues:
    """a b modulo p as long as a b / p is below 2^50: then the quotient from float64 is off by at most one."""
    quotient = (a * ratio).astype(np.int64)
    quotient *= np.int64(p)
    rest = a * b
    rest -= quotient
    return _near(rest.view(np.uint64), p)


def _wide_product(a: Signed, high: Signed, high_ratio: Floats, low: Signed, low_ratio: Floats, p: int) -> Residues:
    """a (2^30 high + low) modulo p: both quotients are below 2^33, and float64 gets them right but for one."""
    real = a.astype(np.float64)
    upper = a * high
    upper -= (real * high_ratio).astype(np.int64) * np.int64(p)  # between -1 and p
    real *= low_ratio
    real += upper * (2.0**30 / p)
    rest = (upper << _HALF) + a * low
    rest -= np.floor(real, out=real).astype(np.int64) * np.int64(p)
    return _near(rest.view(np.uint64), p)


def _over(numbers: Signed, p: int) -> Floats:
    ratio: Floats = np.multiply(numbers, 1.0 / p)
    return ratio


def _near(rest: Residues, p: int) -> Residues:
    """What is within [-p, 2 p), as a word, modulo p."""
    rest = np.minimum(rest, rest + np.uint64(p))
    least: Residues = np.minimum(rest, rest - np.uint64(p))
    return least


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
class Pass:
    """One pass of a transform: over so many groups, each with roots of its own, (groups, 1, columns or 1).

    What the butterfly makes of them is kept in the order in which it is read.
    """

    groups: int
    factors: tuple[NDArray[Any], ...] = field(repr=False)  # what the butterfly makes of the roots


@dataclass(frozen=True)
class Transform:
    """The negacyclic transform of polynomials of N coefficients modulo `p`, which is one modulo 2N.

    The first half of the passes runs down the columns of a square, and after a transposition so does the second:
    numpy's inner loops stay long, and roots are read in the order in which they lie.
    """

    p: int
    order: NDArray[np.int64] = field(repr=False)  # (N,) bit-reversed numbers
    first: tuple[Pass, ...] = field(repr=False)
    second: tuple[Pass, ...] = field(repr=False)
    inverse_powers: Residues = field(repr=False)  # (N,) of the inverse of the root, over N

    def forward(self, a: Residues) -> Residues:
        """(..., N) values, in SEAL's order, of the polynomials with coefficients (..., N)."""
        return self.forward_signed(a.view(np.int64))

    def forward_signed(self, a: Signed, out: Residues | None = None) -> Residues:
        """The same of coefficients in (-2 p, 2 p), into `out` where that is given."""
        n, out = a.shape[-1], np.empty(a.shape, np.uint64) if out is None else out
        butterfly = _Narrow(self.p, n) if self.p < 2**NARROW_BITS else _Wide(self.p)
        work, other = np.empty(n, np.int64), np.empty(n, np.int64)
        for at in np.ndindex(a.shape[:-1]):
            np.copyto(work, a[at])
            butterfly.begin(work)
            self._passes(work, other, butterfly)
            butterfly.reduce(work, out[at])
        return out

    def _passes(self, work: Signed, other: Signed, butterfly: "_Narrow | _Wide") -> None:
        rows = 1 << len(self.first)
        for half in (self.first, self.second):
            for step in half:
                parts = work.reshape(step.groups, 2, rows // (2 * step.groups), -1)
                butterfly(parts[:, 0], parts[:, 1], *step.factors)
            np.copyto(other.reshape(-1, rows), work.reshape(rows, -1).T)
            work[:] = other
            rows = len(work) // rows

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


class _Narrow:
    """Butterflies u + w v and u - w v whose results are reduced once, at the end.

    The quotient of w v, from float64, is off by at most |v| / 2p + 1 (four roundings), so numbers grow by no more than
    half and p in a pass: from 2 p on they are below 2^11 p after 15, and 64 bits are enough.
    """

    def __init__(self, p: int, n: int) -> None:
        self.p, self.product, self.quotient = p, np.empty(n, np.int64), np.empty(n, np.int64)
        self.real = np.empty(n)

    @staticmethod
    def factors(roots: Signed, p: int) -> tuple[Signed, Floats]:
        return roots, _over(roots, p)

    def begin(self, a: Signed) -> None:
        """Signed numbers will do."""

    def __call__(self, u: Signed, v: Signed, root: Signed, ratio: Floats) -> None:
        product, quotient = self.product[: v.size].reshape(v.shape), self.quotient[: v.size].reshape(v.shape)
        real = self.real[: v.size].reshape(v.shape)
        np.multiply(v, root, out=product)
        np.copyto(real, v, casting="unsafe")
        real *= ratio
        np.copyto(quotient, real, casting="unsafe")
        quotient *= np.int64(self.p)
        product -= quotient
        np.subtract(u, product, out=v)
        u += product

    def reduce(self, a: Signed, out: Residues) -> None:
        np.multiply(a, 1.0 / self.p, out=self.real)
        np.floor(self.real, out=self.real)
        np.copyto(self.quotient, self.real, casting="unsafe")  # off by at most one
        np.multiply(self.quotient, np.int64(self.p), out=self.quotient)
        np.subtract(a, self.quotient, out=self.product)
        out[:] = _near(self.product.view(np.uint64), self.p)


class _Wide:
    """Butterflies for primes above 2^50, every result reduced."""

    def __init__(self, p: int) -> None:
        self.p = p

    @staticmethod
    def factors(roots: Signed, p: int) -> tuple[Signed, Floats, Signed, Floats]:
        high, low = roots >> _HALF, roots & _LOW
        return high, _over(high, p), low, _over(low, p)

    def begin(self, a: Signed) -> None:
        np.remainder(a, np.int64(self.p), out=a)

    def __call__(self, u: Signed, v: Signed, high: Signed, high_ratio: Floats, low: Signed, low_ratio: Floats) -> None:
        t, reduced = _wide_product(v, high, high_ratio, low, low_ratio, self.p), u.view(np.uint64)
        np.copyto(v.view(np.uint64), subtract(reduced, t, self.p))
        np.copyto(u.view(np.uint64), add(reduced, t, self.p))

    def reduce(self, a: Signed, out: Residues) -> None:
        out[:] = a.view(np.uint64)


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
    roots = powers_of(root, degree, p)[order].view(np.int64)
    rows = 1 << (degree.bit_length() - 1) // 2
    first = [_pass(roots, groups, 1, p) for groups in _doubling(rows)]
    second = [_pass(roots, groups, rows, p) for groups in _doubling(degree // rows)]
    return Transform(p, order, tuple(first), tuple(second), inverse)


def _pass(roots: Signed, groups: int, columns: int, p: int) -> Pass:
    """The roots of a pass: one for each group, or for each group and column."""
    own = roots[columns * groups : 2 * columns * groups].reshape(columns, groups).T
    laid = np.ascontiguousarray(own).reshape(groups, 1, columns)
    return Pass(groups, (_Narrow if p < 2**NARROW_BITS else _Wide).factors(laid, p))


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
