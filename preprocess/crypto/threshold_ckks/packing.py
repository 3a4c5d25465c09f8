"""Polynomials as bytes for messages, and the one loader that refuses what is none of the context's.

The form: the SHA-256 of the rest; two bytes, the length of what follows; MessagePack of `kind`, parameters, key name,
whatever else is public of it, dtype and shape; zeros up to a multiple of `ALIGNED` bytes; the residues as uint64, which
are read where they lie. The digest is against accidents; who can change messages can change digests, too.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.wire import WireError, decode, encode

DIGEST_BYTES = 32
LENGTH_BYTES, WORD_BYTES, ALIGNED = 2, 8, 64
MAX_BYTES = 100 * 2**20
HEADER = (str, str, bytes, dict, str, list)  # kind, parameters, key name, what else is public, dtype, shape


@dataclass(frozen=True)
class Context:
    """What all objects of one execution share: the parameters, and a name of 16 bytes of the collective key."""

    parameters: Parameters
    name: bytes

    def __str__(self) -> str:
        return f"{self.parameters.name}, key {self.name.hex()[:8]}"


def pack(kind: str, context: Context, residues: Residues, **public: Any) -> bytes:
    """The bytes of an object. Raises ValueError for one that no loader would take."""
    header = encode([kind, context.parameters.name, context.name, public, residues.dtype.str, list(residues.shape)])
    front = len(header).to_bytes(LENGTH_BYTES, "little") + header
    front += bytes(-(DIGEST_BYTES + len(front)) % ALIGNED)
    content = np.ascontiguousarray(residues).reshape(-1).view(np.uint8).data
    if (size := DIGEST_BYTES + len(front) + len(content)) > MAX_BYTES:
        raise ValueError(f"{kind} of {size} bytes is beyond the {MAX_BYTES} bytes of a message; send it in parts")
    digest = sha256(front)
    digest.update(content)
    return b"".join([digest.digest(), front, content])


def unpack(kind: str, context: Context, data: Any) -> tuple[dict[str, Any], Residues]:
    """What is public of an object of this kind, and its residues as they came: `check_residues` is to follow.

    Raises MessageError for bytes that were changed or cut short, or are another kind of object or another context's.
    """
    if not isinstance(data, bytes) or not DIGEST_BYTES < len(data) <= MAX_BYTES:
        raise MessageError(f"it is no {kind} of at most {MAX_BYTES} bytes")
    body = memoryview(data)[DIGEST_BYTES:]
    if sha256(body).digest() != data[:DIGEST_BYTES]:
        raise MessageError(f"a {kind} was changed or cut short")
    at = LENGTH_BYTES + int.from_bytes(body[:LENGTH_BYTES], "little")
    try:
        plain = decode(bytes(body[LENGTH_BYTES:at]))
    except WireError:
        raise MessageError(f"it is no {kind}") from None
    if not isinstance(plain, list) or tuple(map(type, plain)) != HEADER or plain[0] != kind:
        raise MessageError(f"it is no {kind}, but another object")
    _, parameters, name, public, dtype, shape = plain
    if parameters != context.parameters.name:
        raise MessageError(f"a {kind} has other parameters than {context.parameters.name}")
    if name != context.name:
        raise MessageError(f"a {kind} is of another collective key than {context.name.hex()[:8]}")
    content = body[at + -(DIGEST_BYTES + at) % ALIGNED :]
    if dtype != "<u8" or not _are_sizes(shape) or prod(shape) * WORD_BYTES != len(content):
        raise MessageError(f"a {kind} has other sizes than it says")
    return public, np.frombuffer(content, np.uint64).reshape(shape)


def _are_sizes(shape: list[Any]) -> bool:
    return len(shape) <= 4 and all(type(n) is int and 0 <= n <= MAX_BYTES for n in shape)


def check_residues(kind: str, ring: Ring, residues: Any, *before: int) -> Residues:
    """The residues. Raises MessageError unless they are (*before, L, N), each below its prime."""
    if not isinstance(residues, np.ndarray) or residues.dtype != np.uint64 or residues.shape != ring.shape(*before):
        raise MessageError(f"a {kind} has other sizes than {ring.shape(*before)}")
    for i, p in enumerate(ring.primes):
        if residues[..., i, :].max(initial=0) >= p:
            raise MessageError(f"a {kind} has a coefficient beyond its prime")
    return residues


def unpacked(kind: str, context: Context, ring: Ring, data: Any, *before: int) -> Residues:
    """The residues (*before, L, N) of an object without anything else. Raises MessageError."""
    public, residues = unpack(kind, context, data)
    if public:
        raise MessageError(f"a {kind} says more than it has to")
    return check_residues(kind, ring, residues, *before)
