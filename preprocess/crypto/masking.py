"""The arithmetic of secure aggregation: fixed-point numbers in a ring, masks that cancel, shares of 256-bit secrets.

Source: Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, sections 3
and 4. Everything here is a pure function; who does what, and when, is `aggregation.secure_aggregation`.

* Numbers x become round(x 2^f) modulo 2^32 or 2^64 (`Ring`). A sum of n of them is exact up to that rounding, at most
  2^-(f + 1) each, as long as every |x| is below 2^(bits - 1 - f) / n, which `Ring.encode` enforces.
* A mask is the output of a generator on a seed of 32 bytes: ChaCha20 (libsodium), as many words as there are numbers.
* Two clients agree on a seed by X25519 and HKDF-SHA256, over both public keys and the round. The one with the smaller
  number adds the mask, the other subtracts it.
* A secret of 32 bytes is shared as five numbers of 52 bits over the field modulo 2^61 - 1 (`shamir`). Each of the five
  is hidden perfectly, so the whole is: no share says anything about a part of it.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import CryptoError
from nacl.utils import randombytes_deterministic
from numpy.typing import NDArray

from leakledger.preprocess.crypto.field import Elements
from leakledger.preprocess.crypto.shamir import reconstruct
from leakledger.preprocess.secret import hkdf  # exempt: the derivation alone, of seeds that the two parties agree on

Words = NDArray[Any]

SECRET_BYTES = 32
PARTS, PART_BITS = 5, 52  # 5 x 52 bits hold 256, and each part is below the field's 2^61 - 1


@dataclass(frozen=True)
class Ring:
    """Fixed-point numbers with `fraction_bits` binary places in the integers modulo 2^`bits`, bits 32 or 64."""

    bits: int
    fraction_bits: int

    @property
    def dtype(self) -> str:
        return f"<u{self.bits // 8}"

    def limit(self, parties: int) -> float:
        """What each of `parties` numbers must stay below in magnitude, so that no sum of them wraps around."""
        return float((2 ** (self.bits - 1 - self.fraction_bits)) / parties - 2.0**-self.fraction_bits)

    def encode(self, numbers: NDArray[np.float64], parties: int) -> Words:
        """(d,) numbers as elements. Raises ValueError, without the number, where one is not finite or not below
        `limit(parties)`.
        """
        if not (np.abs(numbers) < self.limit(parties)).all():  # nothing compares with what is no number
            raise ValueError(
                f"a number is beyond the range of {self.bits} bits of which {self.fraction_bits} are binary places, "
                f"{self.limit(parties):.4g} for each of {parties} clients"
            )
        signed = np.rint(np.ldexp(numbers, self.fraction_bits)).astype(np.int64)
        return signed.astype(np.uint64).astype(self.dtype)

    def decode(self, elements: Words) -> NDArray[np.float64]:
        """(d,) the numbers that elements stand for."""
        signed = np.ascontiguousarray(elements, self.dtype).view(f"<i{self.bits // 8}")
        return np.ldexp(signed.astype(np.float64), -self.fraction_bits)

    def mask(self, seed: bytes, count: int) -> Words:
        """(count,) uniform elements that follow from `seed`."""
        return np.frombuffer(randombytes_deterministic(count * self.bits // 8, seed), self.dtype)


def public_key(secret: bytes) -> bytes:
    """The X25519 public key of a secret one (any 32 bytes; RFC 7748, section 5)."""
    return bytes(crypto_scalarmult_base(secret))


def pair_seed(secret: bytes, other: bytes, round: int) -> bytes:
    """The seed that the holders of two key pairs share in a round. Raises ValueError for a key that is none."""
    agreed = b""
    if len(other) == SECRET_BYTES:  # the binding reads so many bytes whatever it is given
        with suppress(CryptoError):  # of a point of low order
            agreed = bytes(crypto_scalarmult(secret, other))
    if not agreed:
        raise ValueError("a public key is no point of X25519 that a secret can be agreed with")
    both = sorted([public_key(secret), other])
    return hkdf(agreed, b"secure aggregation" + round.to_bytes(8, "big") + both[0] + both[1], SECRET_BYTES)


def commitment(seed: bytes) -> bytes:
    """What binds its sender to a seed and hides it: the seed is 256 uniform bits."""
    return sha256(b"secure aggregation: seed" + seed).digest()


def apply_masks(words: Words, ring: Ring, own: int, others: Iterable[tuple[int, bytes]]) -> Words:
    """`words` with the masks that client `own` puts on them for `others`, (number, seed) each. A pair's masks cancel:
    the client with the smaller number adds, the other one subtracts.
    """
    masked = words.copy()
    for other, seed in others:
        mask = ring.mask(seed, len(words))
        if own < other:
            masked += mask
        else:
            masked -= mask
    return masked


def to_parts(secret: bytes) -> Elements:
    """(5,) numbers of 52 bits."""
    number = int.from_bytes(secret, "big")
    return np.array([number >> (PART_BITS * k) & (2**PART_BITS - 1) for k in range(PARTS)], np.uint64)


def from_parts(parts: Elements) -> bytes:
    """The secret. Raises ValueError for numbers that are of none, as wrong shares give them."""
    number = sum(int(p) << (PART_BITS * k) for k, p in enumerate(parts))
    if any(int(p) >> PART_BITS for p in parts) or number >> (8 * SECRET_BYTES):
        raise ValueError("shares of a secret do not fit together")
    return number.to_bytes(SECRET_BYTES, "big")


def restore(points: Sequence[int], shares: Sequence[Elements]) -> list[bytes]:
    """The k secrets behind shares (k, 5) at each of `points`. Raises ValueError where they do not fit together."""
    return [from_parts(parts) for parts in reconstruct(points, shares)] if len(shares[0]) else []
