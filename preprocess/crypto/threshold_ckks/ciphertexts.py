"""Ciphertexts under the collective key: what is known of them without decrypting, encryption, and bytes.

A ciphertext knows its context, its level (from its sizes), its scale, and a bound that no number in its slots exceeds.
Whoever encrypts checks the bound, operations carry it on, and what would not fit the modulus of its level is refused
(`check_room`): without that, a number that wraps around decrypts to another, and nothing tells.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import PublicKey
from leakledger.preprocess.crypto.threshold_ckks.encoding import encode
from leakledger.preprocess.crypto.threshold_ckks.packing import Context, check_residues, pack, unpack
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.crypto.threshold_ckks.sampling import errors, ternary
from leakledger.preprocess.crypto.threshold_ckks.seal_objects import from_seal, to_seal

KIND = "ciphertext"
SCALE_TOLERANCE = 1e-9  # relative; scales of a level come out of the same arithmetic


class LevelError(ValueError):
    """A ciphertext at a level, of a scale or with a bound that an operation cannot take."""


@dataclass(frozen=True)
class Encrypted:
    """A ciphertext of two polynomials, as residues or as SEAL's object. `bound` is of the magnitude of each slot."""

    context: Context
    level: int
    scale: float
    bound: float
    form: Any = field(repr=False)

    @property
    def ring(self) -> Ring:
        return self.context.parameters.ring(self.level)

    @property
    def residues(self) -> Residues:
        """(2, level + 1, N)"""
        return self.form if isinstance(self.form, np.ndarray) else from_seal(self.form)

    @property
    def seal(self) -> Any:
        """SEAL's ciphertext, which nobody may change in place."""
        if isinstance(self.form, np.ndarray):
            return to_seal(self.context.parameters, self.level, self.form, self.scale)
        return self.form


def encrypt(
    key: PublicKey,
    numbers: Floats,
    bound: float,
    source: Randomness,
    scale: float | None = None,
    encoder: Callable[[Floats, float, Ring], Residues] = encode,
) -> Encrypted:
    """Up to N / 2 numbers at the top level; its scale, unless another is given.

    Raises ValueError, without the number, where one is not finite or beyond `bound`; LevelError where the bound
    does not fit the modulus.
    """
    parameters = key.context.parameters
    ring = parameters.ring(parameters.top)
    if not (np.abs(numbers) <= bound).all():  # nothing compares with what is no number
        raise ValueError(f"a number to encrypt is not within [-{bound:g}, {bound:g}]")
    scale = parameters.scale(parameters.top) if scale is None else scale
    check_room(key.context, parameters.top, scale, bound)
    message = encoder(np.asarray(numbers, np.float64), scale, ring)
    once = ternary(ring, source)
    both = ring.add(ring.multiply(once, key.values[:, : parameters.data_primes]), errors(ring, source, 2))
    both[0] = ring.add(both[0], message)
    return Encrypted(key.context, parameters.top, scale, bound, both)


def check_room(context: Context, level: int, scale: float, bound: float) -> None:
    """Raises LevelError unless numbers up to the bound, and 1, stay below a quarter of the level's modulus."""
    if not max(bound, 1.0) * scale < context.parameters.ring(level).modulus / 4:
        raise LevelError(
            f"numbers up to {bound:g} at scale 2^{np.log2(scale):.1f} do not fit the modulus of level {level} of "
            f"{context.parameters.name}; stay at a higher level, or refresh"
        )


def check_scale(a: float, b: float) -> None:
    """Raises LevelError for scales that differ."""
    if abs(a - b) > SCALE_TOLERANCE * b:
        raise LevelError(f"scales 2^{np.log2(a):.4f} and 2^{np.log2(b):.4f} differ; bring both to one level's own")


def to_bytes(ciphertext: Encrypted) -> bytes:
    public = {"level": ciphertext.level, "scale": ciphertext.scale, "bound": ciphertext.bound}
    return pack(KIND, ciphertext.context, ciphertext.residues, **public)


def from_bytes(
    context: Context, data: Any, *, level: int | None = None, scale: float | None = None, bound: float | None = None
) -> Encrypted:
    """The ciphertext of `to_bytes`. Raises MessageError for what is none of the context's or hides nothing, and where a
    level, scale or bound is expected and it has another.
    """
    public, residues = unpack(KIND, context, data)
    if public.keys() != {"level", "scale", "bound"} or not _plausible(context, public):
        raise MessageError("a ciphertext has no valid level, scale and bound")
    for name, expected in (("level", level), ("scale", scale), ("bound", bound)):
        if expected is not None and public[name] != expected:
            raise MessageError(f"a ciphertext has {name} {public[name]:g}, not the protocol's {expected:g}")
    ring = context.parameters.ring(public["level"])
    form = check_residues(KIND, ring, residues, 2)
    if not form[1].any():  # SEAL computes nothing with it
        raise MessageError("a ciphertext hides nothing: it needs no key to be read")
    return Encrypted(context, **public, form=form)


def _plausible(context: Context, public: dict[str, Any]) -> bool:
    level, scale, bound = public["level"], public["scale"], public["bound"]
    if type(level) is not int or type(scale) is not float or type(bound) is not float:
        return False
    if not 0 <= level <= context.parameters.top or not isfinite(scale) or not isfinite(bound):
        return False
    return scale >= 1 and bound > 0 and max(bound, 1.0) * scale < context.parameters.ring(level).modulus / 4
