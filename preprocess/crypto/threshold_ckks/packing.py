"""Polynomials as bytes for messages, and the one loader that refuses what is none of the context's.

The form: the SHA-256 of the rest, then MessagePack of `kind`, parameters, key name, whatever else is public of it, and
the residues as an array of uint64. The digest is against accidents; who can change messages can change digests, too.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.wire import WireError, decode, encode

DIGEST_BYTES = 32
HEADER_BYTES = 2**10  # more than everything but the residues takes
MAX_BYTES = 100 * 2**20


@dataclass(frozen=True)
class Context:
    """What all objects of one execution share: the parameters, and a name of 16 bytes of the collective key."""

    parameters: Parameters
    name: bytes

    def __str__(self) -> str:
        return f"{self.parameters.name}, key {self.name.hex()[:8]}"


def pack(kind: str, context: Context, residues: Residues, **public: Any) -> bytes:
    """The bytes of an object. Raises ValueError for one that no loader would take."""
    body = encode([kind, context.parameters.name, context.name, public, residues])
    if len(body) + DIGEST_BYTES > MAX_BYTES:
        raise ValueError(f"{kind} of {len(body)} bytes is beyond the {MAX_BYTES} bytes of a message; send it in parts")
    return sha256(body).digest() + body


def unpack(kind: str, context: Context, data: Any) -> tuple[dict[str, Any], Residues]:
    """What is public of an object of this kind, and its residues as they came: `check_residues` is to follow.

    Raises MessageError for bytes that were changed or cut short, or are another kind of object or another context's.
    """
    if not isinstance(data, bytes) or not DIGEST_BYTES < len(data) <= MAX_BYTES:
        raise MessageError(f"it is no {kind} of at most {MAX_BYTES} bytes")
    body = memoryview(data)[DIGEST_BYTES:]
    if sha256(body).digest() != data[:DIGEST_BYTES]:
        raise MessageError(f"a {kind} was changed or cut short")
    try:
        plain = decode(bytes(body))
    except WireError:
        raise MessageError(f"it is no {kind}") from None
    if not isinstance(plain, list) or len(plain) != 5 or plain[0] != kind or not isinstance(plain[3], dict):
        raise MessageError(f"it is no {kind}, but another object")
    _, parameters, name, public, residues = plain
    if parameters != context.parameters.name:
        raise MessageError(f"a {kind} has other parameters than {context.parameters.name}")
    if name != context.name:
        raise MessageError(f"a {kind} is of another collective key than {context.name.hex()[:8]}")
    return public, residues


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
