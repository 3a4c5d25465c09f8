"""An observer's side of a set intersection, computed again: its scalars from its secret, its results from its messages.

An honest party ends a set intersection with results that no message states: it unblinds an answer with a scalar that it
drew from its key stream. A view has both. Where in the stream the scalar was drawn depends on options, so it is
looked for, and known by what it does: it maps an own element to a point of the party's own request, or a request to the
party's own answer.

Functions are those of `preprocess.crypto.oprf` (2HashDH over ristretto255): F(k, x) = H(x, k H'(x)). The formula is
public, so an attack has its own copy. Results are kept, since coalitions share members.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha512
from types import MappingProxyType

import rbcl

from leakledger.preprocess.secret import KeyStream

DOMAIN = b"leakledger oprf ristretto255"
POINT, SCALAR_BYTES = 32, 64
LONGEST = 2048  # 32-bit words of the key stream that are tried as the beginning of a scalar


@lru_cache(1 << 16)
def element(feature: str, value: str) -> bytes:
    """One value of one feature as bytes."""
    name = feature.encode("utf-8", "surrogatepass")
    return len(name).to_bytes(4, "big") + name + value.encode("utf-8", "surrogatepass")


@lru_cache(1 << 16)
def hashed(data: bytes) -> bytes:
    """H': a point of the group."""
    digest = sha512(len(DOMAIN).to_bytes(1, "big") + DOMAIN + data).digest()
    return bytes(rbcl.crypto_core_ristretto255_from_hash(digest))


def times(scalar: bytes, point: bytes) -> bytes:
    """Raises ValueError for what is no point of the group, or its neutral element, which no party sends."""
    try:
        return bytes(rbcl.crypto_scalarmult_ristretto255(scalar, point))
    except RuntimeError as error:
        raise ValueError("it is not a list of group elements") from error


def inverse(scalar: bytes) -> bytes:
    return bytes(rbcl.crypto_core_ristretto255_scalar_invert(scalar))


def output(data: bytes, point: bytes) -> bytes:
    """F of an element, 64 bytes, from k H'(x)."""
    return sha512(DOMAIN + point + len(data).to_bytes(8, "big") + data).digest()


def points(message: bytes) -> list[bytes]:
    """The group elements of a message. Raises ValueError for another length."""
    if not isinstance(message, bytes) or len(message) % POINT:
        raise ValueError("it is not a list of group elements")
    return [message[i : i + POINT] for i in range(0, len(message), POINT)]


def find_scalar(secret: bytes | None, point: bytes, images: tuple[bytes, ...]) -> bytes | None:
    """The scalar in the key stream of `secret` that takes `point` to one of `images`; None without either."""
    place = find_place(secret, point, images)
    return None if secret is None or place is None else stream_at(secret, place, 0)[0]


@lru_cache(1 << 10)
def find_place(secret: bytes | None, point: bytes, images: tuple[bytes, ...]) -> int | None:
    """Where in the key stream of `secret` the scalar begins that takes `point` to one of `images`."""
    if secret is None:
        return None
    wanted = set(images)
    return next((start for start, s in _scalars(secret) if times(s, point) in wanted), None)


def stream_at(secret: bytes, place: int, more: int) -> tuple[bytes, bytes]:
    """The scalar that begins at a place of the key stream, and so many bytes behind it."""
    stream = KeyStream(secret).bytes(place + SCALAR_BYTES + more)[place:]
    return _scalar(stream), stream[SCALAR_BYTES:]


def _scalars(secret: bytes) -> Iterator[tuple[int, bytes]]:
    stream = KeyStream(secret).bytes(4 * LONGEST + SCALAR_BYTES)
    for start in range(0, 4 * LONGEST, 4):
        yield start, _scalar(stream[start:])


def _scalar(stream: bytes) -> bytes:
    return bytes(rbcl.crypto_core_ristretto255_scalar_reduce(stream[:SCALAR_BYTES]))


@lru_cache(1 << 10)
def unblinded(scalar: bytes, own: tuple[bytes, ...], asked: bytes, answered: bytes) -> Mapping[bytes, bytes]:
    """Element -> F for the own elements, from the own request, in its order, and its answer. Raises ValueError where
    they differ.
    """
    request, answer = points(asked), points(answered)
    if len(request) != len(answer):
        raise ValueError("the answer has another length than the request")
    place = {point: i for i, point in enumerate(request)}
    back = inverse(scalar)
    images = {x: times(scalar, hashed(x)) for x in own}
    asked_for = sorted((place[image], x) for x, image in images.items() if image in place)
    found = {x: output(x, times(back, answer[i])) for i, x in asked_for}
    return MappingProxyType(found)
