"""Shares of the collective keys, and what they add up to.

Source: Mouchet et al. 2021, section IV-B: `secret_key` (SecKeyGen), `public_share` (protocol 1, EncKeyGen),
`first_share` and `second_share` (protocol 2, RelinKeyGen, in two rounds) and `rotation_share` (RotKeyGen), on the
decomposition that SEAL's key switching has: digit i of L is the residue modulo prime i, its weight the special prime
times the number that is 1 modulo prime i and 0 modulo the others.

The collective secret is the sum of the parties' secrets, and nobody ever has it. Polynomials are given by their values
over all primes, special one included: (L + 1, N), and (L, L + 1, N) for L digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.threshold_ckks.packing import Context
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues, bit_reversed
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.crypto.threshold_ckks.sampling import common, errors, ternary

SEED_BYTES, NAME_BYTES = 32, 16


@dataclass(frozen=True)
class SecretShare:
    """A party's secret: a ternary polynomial, by its values over all primes. It never leaves the party."""

    values: Residues = field(repr=False)

    def over(self, ring: Ring) -> Residues:
        first: Residues = self.values[: len(ring.primes)]
        return first


@dataclass(frozen=True)
class PublicKey:
    """The collective public key (b, a): b = -s a + e."""

    context: Context
    values: Residues = field(repr=False)  # (2, L + 1, N)


@dataclass(frozen=True)
class SwitchingKey:
    """A key that SEAL's key switching takes, of a power of the secret or an image of it under an automorphism."""

    context: Context
    values: Residues = field(repr=False)  # (L, 2, L + 1, N)
    galois_element: int | None = None  # None: relinearisation


def joint_seed(contributions: Sequence[bytes]) -> bytes:
    """The seed of the common reference polynomials from a contribution of each party.

    Raises MessageError for a contribution that is not 32 bytes.
    """
    if bad := [len(c) for c in contributions if len(c) != SEED_BYTES]:
        raise MessageError(f"a contribution to the seed is {SEED_BYTES} bytes, not {bad[0]}")
    return sha256(b"threshold ckks: joint seed" + b"".join(contributions)).digest()


def context_of(parameters: Parameters, seed: bytes) -> Context:
    """The context of the execution with this joint seed: the name is a hash of it."""
    name = sha256(b"threshold ckks: context" + parameters.name.encode() + seed).digest()[:NAME_BYTES]
    return Context(parameters, name)


def secret_key(parameters: Parameters, source: Randomness) -> SecretShare:
    return SecretShare(ternary(parameters.key_ring, source))


def public_reference(parameters: Parameters, seed: bytes) -> Residues:
    """(L + 1, N) the polynomial a."""
    only: Residues = common(parameters.key_ring, seed, "public key")[0]
    return only


def public_share(ring: Ring, secret: SecretShare, reference: Residues, source: Randomness) -> Residues:
    """(L + 1, N) -s_i a + e_i."""
    return masked(ring, secret.values, reference, errors(ring, source)[0])


def public_key(context: Context, reference: Residues, shares: Sequence[Residues]) -> PublicKey:
    return PublicKey(context, np.stack([context.parameters.key_ring.total(list(shares)), reference]))


def switching_reference(parameters: Parameters, seed: bytes, label: str) -> Residues:
    """(L, L + 1, N) the polynomials a of each digit."""
    return common(parameters.key_ring, seed, label, parameters.data_primes)


@dataclass(frozen=True)
class Ephemeral:
    """The secret u_i that a party keeps from the first round of the relinearisation key to the second."""

    values: Residues = field(repr=False)


def first_share(
    parameters: Parameters, secret: SecretShare, ephemeral: Ephemeral, reference: Residues, source: Randomness
) -> tuple[Residues, Residues]:
    """Both (L, L + 1, N): -u_i a + w s_i + e_0 and s_i a + e_1."""
    ring, digits = parameters.key_ring, parameters.data_primes
    zero = masked(ring, ephemeral.values, reference, errors(ring, source, digits))
    one = ring.multiply_add([(secret.values, reference)], errors(ring, source, digits))
    return _plus_weighted(ring, zero, secret.values), one


def second_share(
    parameters: Parameters,
    secret: SecretShare,
    ephemeral: Ephemeral,
    first: tuple[Residues, Residues],
    source: Randomness,
) -> Residues:
    """(L, L + 1, N) s_i h_0 + (u_i - s_i) h_1 + e, for the sums h_0 and h_1 of the first round.

    The paper has a party send the two terms apart, with an error each; only their sum is used.
    """
    ring = parameters.key_ring
    difference = ring.subtract(ephemeral.values, secret.values)
    terms = [(secret.values, first[0]), (difference, first[1])]
    return ring.multiply_add(terms, errors(ring, source, parameters.data_primes))


def relinearisation_key(context: Context, one: Residues, second: Residues) -> SwitchingKey:
    """From the sums of h_1 in the first round and of the shares in the second."""
    return SwitchingKey(context, np.stack([second, one], axis=1))


def rotation_share(
    parameters: Parameters, secret: SecretShare, element: int, reference: Residues, source: Randomness
) -> Residues:
    """(L, L + 1, N) -s_i a + w phi(s_i) + e, for the automorphism phi that takes X to X^element."""
    ring = parameters.key_ring
    share = masked(ring, secret.values, reference, errors(ring, source, parameters.data_primes))
    return _plus_weighted(ring, share, automorphism(secret.values, element))


def rotation_key(context: Context, element: int, reference: Residues, total: Residues) -> SwitchingKey:
    return SwitchingKey(context, np.stack([total, reference], axis=1), element)


def galois_element(parameters: Parameters, steps: int) -> int:
    """The automorphism that rotates the slots by `steps` to the left. Raises ValueError for no rotation."""
    if not 0 < abs(steps) < parameters.slots:
        raise ValueError(f"a rotation by {steps} is none of {parameters.slots} slots")
    return pow(3, steps % parameters.slots, 2 * parameters.degree)


def automorphism(values: Residues, element: int) -> Residues:
    """The values of a(X^element) from those of a: they change places."""
    moved: Residues = values[..., _places(values.shape[-1], element)]
    return moved


def _places(degree: int, element: int) -> NDArray[np.int64]:
    order = bit_reversed(degree)
    places: NDArray[np.int64] = order[((2 * order + 1) * element % (2 * degree) - 1) // 2]
    return places


def masked(ring: Ring, secret: Residues, reference: Residues, plus: Residues) -> Residues:
    """-s a + e, all by their values."""
    return ring.multiply_add([(ring.subtract(ring.zeros(), secret), reference)], plus)


def _plus_weighted(ring: Ring, digits: Residues, secret: Residues) -> Residues:
    """Digit i plus its weight times the secret: only residues modulo prime i change."""
    for i in range(len(digits)):
        one = Ring(ring.degree, (ring.primes[i],))
        weighted = one.times(secret[i : i + 1], ring.primes[-1])
        digits[i, i] = one.add(digits[i, i : i + 1], weighted)[0]
    return digits
