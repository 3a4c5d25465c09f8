"""Polynomials modulo X^N + 1 and a product of primes: arrays (..., L, N), one row of residues for each of L primes.

The order of the primes is that of SEAL: rescaling drops the last one. Products are of values (`Ring.values`), not of
coefficients. `lift` and `to_floats` leave the residues for the integers that they stand for, the ones nearest to 0, by
mixed radices (Garner): all in words of 64 bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from math import prod

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.threshold_ckks import primes as mod
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues, Signed, transform


@dataclass(frozen=True)
class Ring:
    """Z[X] / (X^N + 1) modulo the product of `primes`."""

    degree: int
    primes: tuple[int, ...]

    @property
    def modulus(self) -> int:
        return prod(self.primes)

    def first(self, count: int) -> "Ring":
        """The ring of the first `count` primes."""
        return Ring(self.degree, self.primes[:count])

    def shape(self, *before: int) -> tuple[int, ...]:
        return (*before, len(self.primes), self.degree)

    def zeros(self, *before: int) -> Residues:
        return np.zeros(self.shape(*before), np.uint64)

    def values(self, coefficients: Residues) -> Residues:
        """(..., L, N) values at the roots of X^N + 1, which is the form that products take."""
        return self._each(lambda p, a: transform(p, self.degree).forward(a), coefficients)

    def values_near(self, coefficients: Residues, small: Signed, sign: int = 1) -> Residues:
        """(L, N) values of `sign` times the polynomial with coefficients (L, N), plus small integers (N,)."""
        out = np.empty(coefficients.shape, np.uint64)
        for p, own, target in zip(self.primes, coefficients.view(np.int64), out, strict=True):
            transform(p, self.degree).forward_signed(small + own if sign > 0 else small - own, target)
        return out

    def coefficients(self, values: Residues) -> Residues:
        """(..., L, N) coefficients from values."""
        return self._each(lambda p, a: transform(p, self.degree).backward(a), values)

    def add(self, a: Residues, b: Residues) -> Residues:
        return self._each(lambda p, x, y: mod.add(x, y, p), a, b)  # exempt: a sum of residues

    def subtract(self, a: Residues, b: Residues) -> Residues:
        return self._each(lambda p, x, y: mod.subtract(x, y, p), a, b)

    def multiply(self, a: Residues, b: Residues) -> Residues:
        """The product of polynomials given by their values."""
        return self._each(lambda p, x, y: mod.multiply(x, y, p), a, b)

    def times(self, a: Residues, factor: int) -> Residues:
        """a times an integer of any size."""
        return self._each(lambda p, x: mod.multiply(x, np.uint64(factor % p), p), a)

    def total(self, parts: "list[Residues] | tuple[Residues, ...]") -> Residues:
        return reduce(self.add, parts)

    def multiply_add(self, pairs: Sequence[tuple[Residues, Residues]], plus: Residues) -> Residues:
        """The sum of at most two products of polynomials given by their values, plus one more polynomial."""

        def of(p: int, plus: Residues, *factors: Residues) -> Residues:
            return mod.multiply_add(list(zip(factors[::2], factors[1::2], strict=True)), plus, p)

        return self._each(of, plus, *chain(*pairs))

    def values_of(self, numbers: Signed) -> Residues:
        """(..., N) integers of less than 64 bits as (..., L, N) values, not coefficients."""
        flat, large = numbers.reshape(-1, self.degree), np.abs(numbers).max(initial=0) >= min(self.primes)
        out = np.empty((len(flat), len(self.primes), self.degree), np.uint64)
        for i, p in enumerate(self.primes):  # its roots stay in the cache
            transform(p, self.degree).forward_signed(np.fmod(flat, np.int64(p)) if large else flat, out[:, i])
        return out.reshape(*numbers.shape[:-1], *out.shape[1:])

    def from_floats(self, numbers: Floats) -> Residues:
        """(N,) whole numbers of any size as (L, N) coefficients."""
        return np.stack([mod.from_floats(numbers, p) for p in self.primes])

    def from_digits(self, digits: Residues, bits: int, less: int) -> Residues:
        """(D, N) digits of so many bits each, least significant first and below every prime, less an integer: (L, N)
        coefficients.
        """
        return np.stack(
            [mod.subtract(mod.joined(digits, bits, p), np.array(less % p, np.uint64), p) for p in self.primes]
        )

    def _each(self, fn: Callable[..., Residues], *arrays: Residues) -> Residues:
        """`fn` of each prime and its rows, one polynomial at a time, one prime after another: what it makes in between,
        and the roots of the prime, stay in the cache.
        """
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        count, flat = len(self.primes), [np.broadcast_to(a, shape).reshape(-1, *shape[-2:]) for a in arrays]
        if shape[-2] != count:
            raise ValueError(f"a polynomial over {shape[-2]} primes is none over {count}")
        out = np.empty(flat[0].shape, np.uint64)
        for i, p in enumerate(self.primes):
            for k in range(len(out)):
                out[k, i] = fn(p, *(a[k, i] for a in flat))
        return out.reshape(shape)

    def lift(self, coefficients: Residues, target: "Ring") -> Residues:
        """(L, N) -> (L', N): the same integers, those nearest to 0, modulo the primes of `target`."""
        negative, digits = self._mixed(coefficients)
        rows = []
        for p in target.primes:
            size = _horner(digits % np.uint64(p), [q % p for q in self.primes[:-1]], p)
            rows.append(np.where(negative, mod.negate(size, p), size))
        return np.stack(rows)

    def to_floats(self, coefficients: Residues) -> Floats:
        """(N,) the integers nearest to 0 that (L, N) coefficients stand for, rounded to float64."""
        negative, digits = self._mixed(coefficients)
        size = digits[-1].astype(np.float64)
        for digit, p in zip(digits[-2::-1], self.primes[-2::-1], strict=True):
            size = size * p + digit
        signed: Floats = np.where(negative, -size, size)
        return signed

    def _mixed(self, coefficients: Residues) -> tuple[NDArray[np.bool_], Residues]:
        """Which integers are negative, and the digits d of their sizes d_0 + d_1 p_0 + d_2 p_0 p_1 + ..."""
        negative = self._above_half(self._digits(coefficients))
        return negative, self._digits(
            np.stack([np.where(negative, mod.negate(r, p), r) for r, p in zip(coefficients, self.primes, strict=True)])
        )

    def _digits(self, residues: Residues) -> Residues:
        digits: list[Residues] = []
        for i, p in enumerate(self.primes):
            rest = residues[i]
            for q, digit in zip(self.primes[:i], digits, strict=True):
                rest = mod.multiply(mod.subtract(rest, digit % np.uint64(p), p), np.uint64(pow(q, -1, p)), p)
            digits.append(rest)
        return np.stack(digits)

    def _above_half(self, digits: Residues) -> NDArray[np.bool_]:
        """Whether integers in [0, modulus) are above half the modulus, digit by digit from the first, least one."""
        above, half = np.zeros(digits.shape[1], bool), self.modulus // 2
        for digit, p in zip(digits, self.primes, strict=True):
            half, own = divmod(half, p)
            above = (digit > np.uint64(own)) | ((digit == np.uint64(own)) & above)
        return above


def _horner(digits: Residues, radices: list[int], p: int) -> Residues:
    """d_0 + r_0 (d_1 + r_1 (d_2 + ...)) modulo p."""
    total: Residues = digits[-1]
    for digit, radix in zip(digits[-2::-1], radices[::-1], strict=True):
        total = mod.add(mod.multiply(total, np.uint64(radix), p), digit, p)  # exempt: likewise
    return total
