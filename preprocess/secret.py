"""Secrets and what follows from them: one master secret a run, one secret a case, one a party, and the party's coins.

Everything is derived downwards with HKDF-SHA256 (RFC 5869; Krawczyk, CRYPTO 2010), so a derived secret says nothing of
the one above it, nor of its neighbours: a party that shows all it has leads nobody to another's. A derivation names
everything in force, so another configuration, other data or another protocol has other keys.

`PUBLIC_MASTER` is in this file for everyone to read. Benchmarks and tests derive from it, so that their figures can be
repeated; nothing that ran under it was secret from anyone. An audit draws its own.
"""

import hmac
from hashlib import sha256
from secrets import token_bytes
from typing import Final

import numpy as np
from nacl.utils import randombytes_deterministic

from leakledger.preprocess.wire import encode

SECRET_BYTES: Final = 32
PUBLIC_MASTER: Final = sha256(b"LeakLedger: the master secret of benchmarks and tests, which is public").digest()
DIGEST_BYTES: Final = 32  # of SHA-256
BLOCK: Final = 2**12  # bytes of a key stream that are made at a time

Label = str | int | bytes | None | list["Label"]


def new_secret() -> bytes:
    """256 bits from the operating system."""
    return token_bytes(SECRET_BYTES)


def derive(secret: bytes, *labels: Label) -> bytes:
    """The secret of 32 bytes that belongs to these labels; other labels, or others in another order, have another.

    Raises ValueError for a secret that is not 32 bytes long.
    """
    return hkdf(checked(secret), encode(list(labels)), SECRET_BYTES)


def pinned(*labels: Label) -> bytes:
    """A secret that anyone can derive, from `PUBLIC_MASTER`: for tests and benchmarks."""
    return derive(PUBLIC_MASTER, *labels)


def checked(secret: bytes) -> bytes:
    """The secret. Raises ValueError, without showing it, unless it is 32 bytes."""
    if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES:
        size = f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
        raise ValueError(f"a secret is {SECRET_BYTES} bytes, not {size}")
    return secret


def hkdf(secret: bytes, info: bytes, length: int, salt: bytes = b"") -> bytes:
    """HKDF-SHA256, extract and expand (RFC 5869, sections 2.2 and 2.3). Raises ValueError beyond 255 blocks."""
    return _expand(_extract(secret, salt), info, length)


def _extract(secret: bytes, salt: bytes = b"") -> bytes:
    return hmac.digest(salt or bytes(DIGEST_BYTES), secret, "sha256")


def _expand(key: bytes, info: bytes, length: int) -> bytes:
    if length > 255 * DIGEST_BYTES:
        raise ValueError(f"HKDF-SHA256 gives at most {255 * DIGEST_BYTES} bytes, not {length}")
    block, output = b"", b""
    for counter in range(1, -(-length // DIGEST_BYTES) + 1):
        block = hmac.digest(key, block + info + bytes([counter]), "sha256")
        output += block
    return output[:length]


def generator(secret: bytes) -> np.random.Generator:
    """The numpy generator of a secret: for samples, orders and noise. It is no source for keys: use `KeyStream`."""
    return np.random.default_rng(int.from_bytes(derive(secret, "generator"), "big"))


class KeyStream:
    """The bytes of a secret, in order and without end: ChaCha20, block by block under keys of their own (libsodium).

    Whoever sees some of the bytes learns nothing about the others.
    """

    def __init__(self, secret: bytes) -> None:
        self._key, self._blocks, self._rest = _extract(derive(secret, "key stream")), 0, b""

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        parts, missing = [self._rest], count - len(self._rest)
        while missing > 0:
            parts.append(randombytes_deterministic(BLOCK, _expand(self._key, encode(self._blocks), SECRET_BYTES)))
            self._blocks, missing = self._blocks + 1, missing - BLOCK
        drawn = b"".join(parts)
        self._rest = drawn[count:]
        return drawn[:count]
