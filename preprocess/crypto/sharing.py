"""Additive secret sharing of a vector of numbers: proportional parts of a real number, or uniform elements of a ring.

Source: "Privacy-preserving tabular data transformation", section 6, eq. 6, which adapts the secure average computation
of Wink and Nochta (2021). A party splits each of its numbers into one part per party; the parts add up to the number,
and so do sums of parts to sums of numbers. Two schemes:

* `Proportional`, the paper's: part i is v * r_i / (r_1 + ... + r_n) for positive random r. The parts are *not*
  independent of v: each has the sign of v and is smaller than v, all are zero when v is, and with n parties a part is
  v / n on average. Whoever holds one part holds an estimate of v. Arithmetic is float64: the sum is off by at most
  2 (n + 2) 2^-53 times the sum of the magnitudes.
* `Ring`, the standard remedy: fixed-point numbers in Z_2^(64 limbs); n - 1 parts are uniform and the last makes up the
  difference, so that any n - 1 parts are independent of v. Exact but for rounding each number to the grid
  2^-fraction_bits once (at most 2^-(fraction_bits + 1) each). One limb is the usual Z_2^64.

The paper leaves the distribution of r open. Readings: uniform on (0, 1] (`weights="uniform"`, the default), or
exponential, which makes the proportions uniform on the simplex (`weights="exponential"`). It decides how well a part
estimates v. Every number gets its own r ("for a feature f").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import shake_256
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.messages import PartialSum, SecureSum, Share, SumKinds, SumPart

Number = int | float | Fraction
Part = NDArray[Any]
Weights = Literal["uniform", "exponential"]

LIMB = 64
MAX_LIMBS = 256
KEY_BYTES = 32


class Sharing(Protocol):
    """A way to split vectors of k numbers among n parties."""

    def split(self, values: Sequence[Number], parties: int, source: Randomness) -> list[Part]:
        """One part per party, each an array over the k numbers."""

    def check(self, part: Any, own: Part) -> Part:
        """A part as it arrived. Raises MessageError unless it has the form of the recipient's own part."""

    def kinds(self, of: SumKinds) -> tuple[type[SumPart], type[PartialSum]]:
        """As which messages parts and partial sums of this sharing travel."""

    def told(self, kind: type[SecureSum], part: Part) -> SecureSum:
        """A part as a message."""

    def add(self, *parts: Part) -> Part:
        """The part of the sum."""

    def reveal(self, *parts: Part) -> list[Fraction]:
        """(k,) the numbers that all parts together stand for."""

    def rounding(self, parties: int) -> float:
        """By how much a sum may be off, as a share of the sum of the magnitudes."""


@dataclass(frozen=True)
class Proportional:
    """Real parts in random proportion (eq. 6): float64 arrays (k,). Not hiding; see the module's text."""

    weights: Weights = "uniform"

    def __post_init__(self) -> None:
        if self.weights not in ("uniform", "exponential"):
            raise ValueError(f"weights {self.weights!r} is neither uniform nor exponential")

    def split(self, values: Sequence[Number], parties: int, source: Randomness) -> list[Part]:
        """Raises ValueError, without the number, for one that is not finite or beyond float64."""
        numbers = _as_floats(values)
        words = source.words(parties * len(numbers)).reshape(parties, len(numbers))
        random = ((words >> np.uint64(11)) + 1.0) / 2.0**53  # in (0, 1]
        if self.weights == "exponential":
            random = np.maximum(-np.log(random), 2.0**-53)
        return list(numbers * (random / random.sum(axis=0)))

    def check(self, part: Any, own: Part) -> Part:
        return _same_form(part, own)

    def kinds(self, of: SumKinds) -> tuple[type[SumPart], type[PartialSum]]:
        return of.part, of.partial

    def told(self, kind: type[SecureSum], part: Part) -> SecureSum:
        return kind(part)  # type: ignore[call-arg]  # a family has no fields of its own

    def add(self, *parts: Part) -> Part:
        with np.errstate(over="ignore", invalid="ignore"):  # refused when it is revealed
            total: Part = np.sum(parts, axis=0)
        return total

    def reveal(self, *parts: Part) -> list[Fraction]:
        """Raises ValueError for a sum beyond float64."""
        total = self.add(*parts)
        if not np.isfinite(total).all():
            raise ValueError("the sum is beyond the range of float64; share it over a ring instead")
        return [Fraction(float(x)) for x in total]

    def rounding(self, parties: int) -> float:
        return 2 * (parties + 2) * 2.0**-53


@dataclass(frozen=True)
class Ring:
    """Uniform parts in Z_2^(64 limbs), fixed point: uint64 arrays (k, limbs), the least significant limb first.

    A sum over n parties is exact as long as every number is below `bound(n)` in magnitude, which `split` enforces.
    """

    limbs: int = 4
    fraction_bits: int = 120

    def __post_init__(self) -> None:
        if not 1 <= self.limbs <= MAX_LIMBS:
            raise ValueError(f"{self.limbs} limbs: a ring has 1 to {MAX_LIMBS} limbs of {LIMB} bits")
        if not 0 <= self.fraction_bits <= LIMB * self.limbs - 8:
            raise ValueError(f"{self.fraction_bits} fraction bits leave no room in a ring of {LIMB * self.limbs} bits")

    @property
    def bits(self) -> int:
        return LIMB * self.limbs

    def bound(self, parties: int) -> Fraction:
        """What each of `parties` numbers must stay below in magnitude."""
        return Fraction(2 ** (self.bits - 1) - parties, parties * 2**self.fraction_bits)

    def split(self, values: Sequence[Number], parties: int, source: Randomness) -> list[Part]:
        """Parts from a keyed stream (SHAKE-256), since who holds raw output of a generator might continue it.

        Raises ValueError, without the number, for one that is not finite or not below `bound(parties)`.
        """
        numbers = [self._on_grid(v, parties) for v in values]
        size = len(numbers) * self.limbs * (LIMB // 8)
        stream = shake_256(source.bytes(KEY_BYTES)).digest(size * (parties - 1))
        masks = np.frombuffer(stream, "<u8").reshape(parties - 1, len(numbers), self.limbs)
        hidden = [self._integers(m) for m in masks]
        rest = [v - sum(h[k] for h in hidden) for k, v in enumerate(numbers)]
        return [*masks, self._array(rest)]

    def check(self, part: Any, own: Part) -> Part:
        return _same_form(part, own)

    def kinds(self, of: SumKinds) -> tuple[type[SumPart], type[PartialSum]]:
        return of.share, of.share_partial

    def told(self, kind: type[SecureSum], part: Part) -> SecureSum:
        return kind(Share(part))  # type: ignore[call-arg]  # a family has no fields of its own

    def add(self, *parts: Part) -> Part:
        return self._array([sum(column) for column in zip(*map(self._integers, parts), strict=True)])

    def reveal(self, *parts: Part) -> list[Fraction]:
        half, modulus = 2 ** (self.bits - 1), 2**self.bits
        total = self._integers(self.add(*parts))
        return [Fraction(v - modulus if v >= half else v, 2**self.fraction_bits) for v in total]

    def rounding(self, parties: int) -> float:
        return 0.0

    def _on_grid(self, value: Number, parties: int) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number to share is not finite; remove or impute such numbers first")
        exact = Fraction(value)
        if abs(exact) >= self.bound(parties):
            limit = f"2^{self.bits - 1 - self.fraction_bits} over {parties} parties"
            raise ValueError(
                f"a sum of a column is beyond the ring's range, {limit}; scale large columns down, or set "
                'sharing = "proportional"'
            )
        return round(exact * int(2**self.fraction_bits))

    def _integers(self, part: Part) -> list[int]:
        return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in part]

    def _array(self, numbers: Sequence[int]) -> Part:
        mask = 2**self.bits - 1
        data = b"".join((v & mask).to_bytes(self.bits // 8, "little") for v in numbers)
        return np.frombuffer(data, "<u8").reshape(len(numbers), self.limbs)


def _same_form(part: Any, own: Part) -> Part:
    if not isinstance(part, np.ndarray) or part.dtype != own.dtype or part.shape != own.shape:
        raise MessageError(f"it is no part of {len(own)} numbers under this sharing")
    return part


def _as_floats(values: Sequence[Number]) -> NDArray[np.float64]:
    try:
        numbers = np.array([float(v) for v in values], np.float64)
    except OverflowError:
        raise ValueError("a number to share is beyond the range of float64; share it over a ring instead") from None
    if not np.isfinite(numbers).all():
        raise ValueError("a number to share is not finite; remove or impute such numbers first")
    return numbers
