"""Collective refresh, in place of bootstrapping: from a ciphertext to additive shares, and back at the top level.

Source: Mouchet et al. 2021, protocols 5 (encryption to shares) and 6 (shares to encryption), joined as in their
ColBootstrap, for CKKS. Party i draws a mask M_i and sends s_i c_1 - M_i + e, at the ciphertext's level, and
-s_i a + M_i + e', at the top one, for a common reference polynomial a. The first shares add up to the message less all
masks, an integer that hides the message statistically: a coefficient of a mask is uniform in [-2^b, 2^b), for b
`statistical_bits` above what bounds the message. That integer, modulo the top level's primes, plus the second shares
is the first half of the new ciphertext; a is the second.

The noise of the ciphertext becomes part of the message. The scale stays what it was; see `Evaluator.to_level_scale`.

A refresh can rotate the slots on its way, without a key for it: the automorphism of the rotation is linear, so whoever
adds up the first shares applies it to the integer that they find, and each party to its mask before the second share.
What is sent has the same distribution as without.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log2

import numpy as np

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted, LevelError
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import (
    SecretShare,
    automorphism,
    galois_element,
    masked,
)
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues
from leakledger.preprocess.crypto.threshold_ckks.sampling import common, error_coefficients, mask_coefficients

KIND_DOWN, KIND_UP = "refresh share to a mask", "refresh share from a mask"
STATISTICAL_BITS = 64


@dataclass(frozen=True)
class RefreshShare:
    """A party's two shares: (level + 1, N) from the ciphertext to the masks, and (L, N) from the masks back."""

    down: Residues = field(repr=False)
    up: Residues = field(repr=False)


def reference(parameters: Parameters, seed: bytes, number: int) -> Residues:
    """(L, N) the common reference polynomial of the refresh with this number: each has its own."""
    polynomials = common(parameters.ring(parameters.top), seed, f"refresh {number}")
    return polynomials.reshape(polynomials.shape[1:])


def mask_bits(ciphertext: Encrypted, parties: int, statistical_bits: int = STATISTICAL_BITS) -> int:
    """The size of masks. Raises LevelError where the masks of all parties do not fit the ciphertext's modulus."""
    bits = message_bits(ciphertext) + statistical_bits
    if (parties + 1) * 2**bits >= ciphertext.ring.modulus // 4:
        raise LevelError(
            f"masks of {bits} bits of {parties} parties do not fit level {ciphertext.level}: refresh at a higher level"
        )
    return bits


def message_bits(ciphertext: Encrypted) -> int:
    return max(1, ceil(log2(ciphertext.bound * ciphertext.scale)))


def share(
    secret: SecretShare,
    ciphertext: Encrypted,
    bits: int,
    reference: Residues,
    source: Randomness,
    rotation: int = 0,
) -> RefreshShare:
    """A party's shares; the slots come out rotated by `rotation` to the left."""
    ring, top = ciphertext.ring, ciphertext.context.parameters.ring(ciphertext.context.parameters.top)
    mask = mask_coefficients(top, bits, source)
    hidden = ring.values_near(mask[: len(ring.primes)], error_coefficients(ring, source), -1)
    shown = _rotated(ciphertext, top.values_near(mask, error_coefficients(top, source)), rotation)
    down = ring.multiply_add([(secret.over(ring), ciphertext.residues[1])], hidden)
    return RefreshShare(down, masked(top, secret.over(top), reference, shown))


def combine(ciphertext: Encrypted, shares: Sequence[RefreshShare], reference: Residues, rotation: int = 0) -> Encrypted:
    """The ciphertext of the same numbers at the top level, from the shares of all parties for this rotation."""
    parameters = ciphertext.context.parameters
    ring, top = ciphertext.ring, parameters.ring(parameters.top)
    masked = ring.total([ciphertext.residues[0], *(s.down for s in shares)])
    lifted = _rotated(ciphertext, top.values(ring.lift(ring.coefficients(masked), top)), rotation)
    both = np.stack([top.total([lifted, *(s.up for s in shares)]), reference])
    return replace(ciphertext, level=parameters.top, form=both)


def _rotated(ciphertext: Encrypted, values: Residues, rotation: int) -> Residues:
    return automorphism(values, galois_element(ciphertext.context.parameters, rotation)) if rotation else values
