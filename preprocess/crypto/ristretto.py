"""The prime-order group ristretto255 (RFC 9496): hashing to it, secret scalars, multiplication. Points are 32 bytes.

The arithmetic is libsodium's, through rbcl. A received point is decoded by libsodium before it is used: bytes that are
no canonical encoding, and the identity, are refused. Equal elements have equal bytes.
"""

import os  # exempt: for the line below the imports
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha512
from typing import Any

import rbcl

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError

POINT_BYTES = 32

# rbcl unpacks its library into a temporary file at import, and leaves it there; once loaded, the file is not needed.
with suppress(OSError):
    os.unlink(rbcl._sodium._name)  # exempt: at import, of a file of the library


def element(feature: str, value: str) -> bytes:
    """One categorical value as bytes, injectively: no other feature and value have the same.

    Text is compared by code points, as Python compares it: two normal forms of one character are two values, and an
    empty text, NUL or text of any length is a value like others.
    """
    name = feature.encode("utf-8", "surrogatepass")
    return len(name).to_bytes(4, "big") + name + value.encode("utf-8", "surrogatepass")


def hash_to_group(data: bytes, domain: bytes) -> bytes:
    """A point whose logarithm nobody knows (RFC 9496, section 4.3.4, from SHA-512)."""
    return bytes(
        rbcl.crypto_core_ristretto255_from_hash(sha512(len(domain).to_bytes(1, "big") + domain + data).digest())
    )


def new_scalar(source: Randomness) -> bytes:
    """A uniform scalar; zero has probability 2^-252 and would be refused by `multiply`."""
    return bytes(rbcl.crypto_core_ristretto255_scalar_reduce(source.bytes(64)))


def inverse(scalar: bytes) -> bytes:
    return bytes(rbcl.crypto_core_ristretto255_scalar_invert(scalar))


def multiply(scalar: bytes, points: Iterable[bytes]) -> list[bytes]:
    """Each point times the scalar, in order. Raises MessageError for bytes that are no point, or the identity."""
    try:
        return [bytes(rbcl.crypto_scalarmult_ristretto255(scalar, p)) for p in points]
    except (ValueError, RuntimeError):
        raise MessageError("32 bytes are not an element of the group") from None


def pack(points: Iterable[bytes]) -> bytes:
    """Points as one message."""
    return b"".join(points)


def unpack(message: Any, count: int | None = None) -> list[bytes]:
    """The points of a message, `count` of them where that is known. Raises MessageError for another length or type."""
    if not isinstance(message, bytes) or len(message) % POINT_BYTES:
        raise MessageError("it is not a list of group elements")
    if count is not None and len(message) != count * POINT_BYTES:
        raise MessageError(f"it has {len(message) // POINT_BYTES} group elements, not {count}")
    return [message[i : i + POINT_BYTES] for i in range(0, len(message), POINT_BYTES)]
