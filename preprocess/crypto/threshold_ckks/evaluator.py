"""Arithmetic on ciphertexts by Microsoft SEAL, with level, scale and bound checked before and carried on.

Operands of different levels are brought to the lower one (`lower`), at the cost of no level but that. Products are
relinearised and rescaled to the level's own scale. `multiply_unscaled` and `rescale` are for the few steps that keep a
higher scale for precision (`inverse`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.seal import sealapi
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted, LevelError, check_room, check_scale
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import SwitchingKey, galois_element
from leakledger.preprocess.crypto.threshold_ckks.packing import Context
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats
from leakledger.preprocess.crypto.threshold_ckks.seal_objects import (
    parms_id,
    seal_context,
    to_seal_key,
)


@dataclass(frozen=True)
class Evaluator:
    """What whoever computes needs: evaluation keys, all of them public. `rotations` by Galois element."""

    context: Context
    relinearisation: SwitchingKey | None = field(default=None, repr=False)
    rotations: tuple[SwitchingKey, ...] = field(default=(), repr=False)

    @property
    def parameters(self) -> Parameters:
        return self.context.parameters

    # Sums -------------------------------------------------------------------------------------------------------

    def add(self, a: Encrypted, b: Encrypted) -> Encrypted:
        return self._linear("add_inplace", a, b)

    def subtract(self, a: Encrypted, b: Encrypted) -> Encrypted:
        return self._linear("sub_inplace", a, b)

    def total(self, parts: Sequence[Encrypted]) -> Encrypted:
        """The sum of several."""
        return reduce(self.add, parts)

    def add_constant(self, a: Encrypted, constant: float | Floats) -> Encrypted:
        """a plus a number, or plus one number a slot."""
        self._own(a)
        result, plain = self._copy(a), self._plain(constant, a.level, a.scale)
        self._evaluator.add_plain_inplace(result, plain)
        return self._made(a, result, bound=a.bound + _largest(constant))

    def _linear(self, operation: str, a: Encrypted, b: Encrypted) -> Encrypted:
        self._own(a)
        self._own(b)
        a, b = self.aligned(a, b)
        check_scale(a.scale, b.scale)
        result, other = self._copy(a), self._at_scale(b, a.scale)
        getattr(self._evaluator, operation)(result, other)
        return self._made(a, result, bound=a.bound + b.bound)

    # Products ---------------------------------------------------------------------------------------------------

    def multiply(self, a: Encrypted, b: Encrypted) -> Encrypted:
        """The product, one level down. Raises LevelError at level 0."""
        return self.rescale(self.multiply_unscaled(*self.aligned(a, b)))

    def square(self, a: Encrypted) -> Encrypted:
        return self.multiply(a, a)

    def multiply_constant(self, a: Encrypted, constant: float | Floats) -> Encrypted:
        """a times a number, or times one number a slot; one level down."""
        self._own(a)
        factor_scale = self._factor_scale(a)
        bound = a.bound * max(_largest(constant), 2.0**-60)
        check_room(self.context, a.level, a.scale * factor_scale, bound)
        result, plain = self._copy(a), self._plain(constant, a.level, factor_scale)
        self._evaluator.multiply_plain_inplace(result, plain)
        return self.rescale(self._made(a, result, scale=a.scale * factor_scale, bound=bound))

    def multiply_integer(self, a: Encrypted, factor: int) -> Encrypted:
        """a times a small whole number, at no cost of levels."""
        self._own(a)
        result, plain = self._copy(a), self._plain(float(factor), a.level, 1.0)
        self._evaluator.multiply_plain_inplace(result, plain)
        return self._made(a, result, bound=a.bound * abs(factor))

    def raised(self, a: Encrypted, bits: float) -> Encrypted:
        """a at a scale 2^bits larger: its noise grows with it, that of what follows does not."""
        self._own(a)
        check_room(self.context, a.level, a.scale * 2.0**bits, a.bound)
        result, plain = self._copy(a), self._plain(1.0, a.level, 2.0**bits)
        self._evaluator.multiply_plain_inplace(result, plain)
        return self._made(a, result, scale=a.scale * 2.0**bits)

    def multiply_unscaled(self, a: Encrypted, b: Encrypted) -> Encrypted:
        """The product at the product of the scales, relinearised, at the same level."""
        self._own(a)
        self._own(b)
        if self.relinearisation is None:
            raise LevelError("a product needs the relinearisation key; generate it first")
        if a.level != b.level:
            raise LevelError(f"levels {a.level} and {b.level} differ; lower one of them first")
        check_room(self.context, a.level, a.scale * b.scale, a.bound * b.bound)
        result = sealapi().Ciphertext(seal_context(self.parameters))
        if a is b:
            self._evaluator.square(a.seal, result)
        else:
            self._evaluator.multiply(a.seal, b.seal, result)
        self._evaluator.relinearize_inplace(result, self._relinearisation)
        return self._made(a, result, scale=a.scale * b.scale, bound=a.bound * b.bound)

    def rescale(self, a: Encrypted) -> Encrypted:
        """Divided by the last prime, which the modulus loses: one level down, numbers unchanged.

        Raises LevelError at level 0.
        """
        self._own(a)
        if a.level == 0:
            raise LevelError("no level is left for a product; refresh the ciphertext first")
        scale = a.scale / a.ring.primes[-1]
        check_room(self.context, a.level - 1, scale, a.bound)
        result = self._copy(a)
        self._evaluator.rescale_to_next_inplace(result)
        return self._made(a, result, level=a.level - 1, scale=scale)

    # Levels -----------------------------------------------------------------------------------------------------

    def drop(self, a: Encrypted, level: int) -> Encrypted:
        """The same at a lower level and at the same scale."""
        self._own(a)
        if level > a.level:
            raise LevelError(f"a ciphertext at level {a.level} cannot go up to {level}; refresh it")
        check_room(self.context, level, a.scale, a.bound)
        result = self._copy(a)
        self._evaluator.mod_switch_to_inplace(result, parms_id(self.parameters, level))
        return self._made(a, result, level=level)

    def lower(self, a: Encrypted, level: int) -> Encrypted:
        """The same at a lower level and at that level's scale; as it is at its own level."""
        if level == a.level:
            return a
        return self.to_level_scale(self.drop(a, level + 1))

    def to_level_scale(self, a: Encrypted) -> Encrypted:
        """The same one level down and at that level's scale, whatever scale it had."""
        return self.multiply_constant(a, 1.0)

    def aligned(self, a: Encrypted, b: Encrypted) -> tuple[Encrypted, Encrypted]:
        """Both at the lower level of the two."""
        level = min(a.level, b.level)
        return self.lower(a, level), self.lower(b, level)

    def within(self, a: Encrypted, bound: float) -> Encrypted:
        """The same with a tighter bound, which the caller has a proof of."""
        return replace(a, bound=min(a.bound, bound))

    # Rotations --------------------------------------------------------------------------------------------------

    def rotate(self, a: Encrypted, steps: int) -> Encrypted:
        """Slot j + steps at j, around. Raises LevelError without the key of this rotation."""
        self._own(a)
        element = galois_element(self.parameters, steps)
        if element not in self._rotations:
            raise LevelError(f"there is no key for a rotation by {steps}; generate it first")
        result = self._copy(a)
        self._evaluator.apply_galois_inplace(result, element, self._rotations[element])
        return self._made(a, result)

    # SEAL -------------------------------------------------------------------------------------------------------

    @cached_property
    def _evaluator(self) -> Any:
        return sealapi().Evaluator(seal_context(self.parameters))

    @cached_property
    def _relinearisation(self) -> Any:
        return None if self.relinearisation is None else to_seal_key(self.relinearisation)

    @cached_property
    def _rotations(self) -> dict[int | None, Any]:
        return {k.galois_element: to_seal_key(k) for k in self.rotations}

    def _factor_scale(self, a: Encrypted) -> float:
        """The scale of a factor that brings a to the scale of the next level. Raises LevelError at level 0."""
        if a.level == 0:
            raise LevelError("no level is left for a product; refresh the ciphertext first")
        return self.parameters.scale(a.level - 1) * a.ring.primes[-1] / a.scale

    def _plain(self, numbers: float | Floats, level: int, scale: float) -> Any:
        plain, encoder = sealapi().Plaintext(), _encoder(self.parameters)
        values = float(numbers) if np.ndim(numbers) == 0 else np.asarray(numbers).tolist()
        encoder.encode(values, parms_id(self.parameters, level), scale, plain)
        return plain

    def _copy(self, a: Encrypted) -> Any:
        copy = sealapi().Ciphertext(seal_context(self.parameters))
        self._evaluator.mod_switch_to(a.seal, parms_id(self.parameters, a.level), copy)
        return copy

    def _at_scale(self, a: Encrypted, scale: float) -> Any:
        """SEAL's ciphertext of a, with a scale that differs by rounding at most: SEAL adds equal ones only."""
        copy = self._copy(a)
        copy.scale = scale  # exempt: a copy of SEAL's, made above
        return copy

    def _own(self, a: Encrypted) -> None:
        if a.context != self.context:
            raise LevelError(f"a ciphertext of {a.context} does not go with the keys of {self.context}")

    def _made(self, a: Encrypted, form: Any, **changed: Any) -> Encrypted:
        made = replace(a, form=form, **changed)
        check_room(self.context, made.level, made.scale, made.bound)
        return made


def _largest(constant: float | Floats) -> float:
    return float(np.abs(constant).max(initial=0.0))


@cache  # exempt: an object of the library, without a value of any party
def _encoder(parameters: Parameters) -> Any:
    return sealapi().CKKSEncoder(seal_context(parameters))
