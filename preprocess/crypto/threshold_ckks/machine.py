"""What computes on encrypted numbers with collective refreshes where levels run out: the seam between the functions of
`inverse` and `comparison` and who runs them. `Alone` runs them in one process; a protocol has one whose values live at
a party.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Protocol, TypeVar

from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted, LevelError, check_room
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.refresh import STATISTICAL_BITS

V = TypeVar("V")


class Machine(Protocol[V]):
    """Operations of `Evaluator`, on values that only the machine looks into."""

    def add(self, a: V, b: V) -> V: ...
    def subtract(self, a: V, b: V) -> V: ...
    def multiply(self, a: V, b: V) -> V: ...
    def add_constant(self, a: V, constant: float) -> V: ...
    def multiply_constant(self, a: V, constant: float) -> V: ...
    def multiply_integer(self, a: V, factor: int) -> V: ...

    def within(self, a: V, bound: float) -> V:
        """The same with a tighter bound, which the caller has a proof of."""

    def shift(self, a: V, bits: int) -> V:
        """a over 2^bits, at no cost: the scale grows."""

    def ready(self, a: V, levels: int, bound: float) -> V:
        """The same with so many levels for products above the one at which numbers up to the bound can be refreshed:
        as it is where it has them, refreshed where not. Raises LevelError where not even that gives so many.
        """


def refresh_level(parameters: Parameters, parties: int, bound: float, statistical_bits: int = STATISTICAL_BITS) -> int:
    """The lowest level at which numbers up to `bound` can be refreshed. Raises LevelError where there is none."""
    bits = parameters.prime_bits + max(1, ceil(log2(bound))) + 1 + statistical_bits + ceil(log2(parties + 1)) + 2
    level = -(-(bits + 1) // parameters.prime_bits) - 1
    if level > parameters.top:
        raise LevelError(f"{parameters.name} has no level at which numbers up to {bound:g} can be refreshed")
    return level


def check_levels(parameters: Parameters, parties: int, levels: int, bound: float, statistical_bits: int) -> int:
    """The lowest level at which a ciphertext need not be refreshed before `levels` products. Raises LevelError."""
    needed = refresh_level(parameters, parties, bound, statistical_bits) + levels
    if needed >= parameters.top:
        raise LevelError(
            f"{parameters.name} gives no {levels} products between refreshes of numbers up to {bound:g}; choose a "
            "larger ring"
        )
    return needed


@dataclass
class Alone:
    """Everything in one process; `refresh` gives the ciphertext at the top level. Counts what it did."""

    evaluator: Evaluator
    parties: int
    refresh: Callable[[Encrypted], Encrypted]
    statistical_bits: int = STATISTICAL_BITS
    refreshes: int = 0
    products: int = 0

    def add(self, a: Encrypted, b: Encrypted) -> Encrypted:
        return self.evaluator.add(a, b)  # exempt: a sum of ciphertexts

    def subtract(self, a: Encrypted, b: Encrypted) -> Encrypted:
        return self.evaluator.subtract(a, b)

    def multiply(self, a: Encrypted, b: Encrypted) -> Encrypted:
        self.products += 1  # exempt: a count, in one process
        return self.evaluator.multiply(a, b)

    def add_constant(self, a: Encrypted, constant: float) -> Encrypted:
        return self.evaluator.add_constant(a, constant)

    def multiply_constant(self, a: Encrypted, constant: float) -> Encrypted:
        return self.evaluator.multiply_constant(a, constant)

    def multiply_integer(self, a: Encrypted, factor: int) -> Encrypted:
        return self.evaluator.multiply_integer(a, factor)

    def within(self, a: Encrypted, bound: float) -> Encrypted:
        return self.evaluator.within(a, bound)

    def shift(self, a: Encrypted, bits: int) -> Encrypted:
        return shifted(a, bits)

    def ready(self, a: Encrypted, levels: int, bound: float) -> Encrypted:
        parameters = self.evaluator.parameters
        if a.level >= check_levels(parameters, self.parties, levels, bound, self.statistical_bits):
            return a
        self.refreshes += 1  # exempt: likewise
        lowest = refresh_level(parameters, self.parties, a.bound, self.statistical_bits)
        return self.evaluator.to_level_scale(self.refresh(self.evaluator.drop(a, lowest)))


def shifted(a: Encrypted, bits: int) -> Encrypted:
    """a over 2^bits: the scale grows, and the bound shrinks with the numbers."""
    check_room(a.context, a.level, a.scale * 2.0**bits, a.bound * 2.0**-bits)
    return replace(a, scale=a.scale * 2.0**bits, bound=a.bound * 2.0**-bits)
