"""An oblivious pseudorandom function: a client learns F(k, x) = H2(x, k H1(x)) of its own x, the holder of k nothing.

Source: Jarecki, Kiayias, Krawczyk, Xu, "Highly-efficient and composable password-protected secret sharing" (2016),
2HashDH, over ristretto255 as in RFC 9497 (OPRF mode; the encoding of inputs is our own, so its test vectors do not
apply). One blinding scalar serves a client's whole list: the holder then sees r H1(x) for all x, which is random as
long as the decisional Diffie-Hellman assumption holds, as in Diffie-Hellman set intersection. What the holder learns is
how many elements there are. All functions are pure; keys and blindings are the caller's to keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha512
from typing import Any

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.ristretto import hash_to_group, inverse, multiply, new_scalar, pack, unpack

DOMAIN = b"leakledger oprf ristretto255"
OUTPUT_BYTES = 64


@dataclass(frozen=True)
class Blinded:
    """What a client keeps of its request: its elements, the inverse of its blinding, and the request itself."""

    elements: tuple[bytes, ...] = field(repr=False)
    unblinding: bytes = field(repr=False)
    request: bytes = field(repr=False)


def blind(elements: Sequence[bytes], source: Randomness) -> Blinded:
    """The request for the function's values at `elements`: 32 bytes each."""
    scalar = new_scalar(source)
    points = multiply(scalar, [hash_to_group(x, DOMAIN) for x in elements])
    return Blinded(tuple(elements), inverse(scalar), pack(points))


def evaluate(key: bytes, request: Any) -> bytes:
    """The key holder's answer. Raises MessageError for anything but group elements."""
    return pack(multiply(key, unpack(request)))


def finish(blinded: Blinded, answer: Any) -> list[bytes]:
    """F(k, x) for each element, 64 bytes. Raises MessageError for an answer of another length, or no group elements."""
    points = multiply(blinded.unblinding, unpack(answer, len(blinded.elements)))
    return [_output(x, p) for x, p in zip(blinded.elements, points, strict=True)]


def values(key: bytes, elements: Sequence[bytes]) -> list[bytes]:
    """F(k, x) for elements of the key holder itself."""
    points = multiply(key, [hash_to_group(x, DOMAIN) for x in elements])
    return [_output(x, p) for x, p in zip(elements, points, strict=True)]


def _output(x: bytes, point: bytes) -> bytes:
    return sha512(DOMAIN + point + len(x).to_bytes(8, "big") + x).digest()
