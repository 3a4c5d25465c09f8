"""What a view gives of updates under homomorphic encryption: whoever has the clients' key opens what it was sent.

Every client has the key. A client alone opens the sums, which is what they are for; the server with one client opens
every single update. The key follows from 32 bytes in `he-aggregation.key`, which its sender and recipient can read.
Scheme and parameters are public: CKKS at degree 8192, one prime of 60 bits (Cheon et al. 2017; SEAL through tenseal).
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.aggregation.vectors import Arrays, Vector
from leakledger.attacks.seal import SLOTS, Opener
from leakledger.preprocess.messages import EncryptedSum, EncryptedUpdate, SharedKey
from leakledger.preprocess.views import View

PRIME_BITS = (60,)


def single(view: View, like: Arrays) -> Iterator[Vector]:
    """The vector of each client whose ciphertexts and whose key the observers have, their own ones too."""
    opener = _opener(view)
    for m in view.readable(EncryptedUpdate):
        numbers = None if opener is None else opener.vector(m.payload.ciphertexts.value, like)
        if numbers is not None:
            yield Vector(m.round, (m.sender,), numbers, m.sequence)


def sums(view: View, like: Arrays) -> Iterator[Vector]:
    """The sum of each round, if an observer has the key; over whom, only the server knows: all clients are named."""
    opener, seen = _opener(view), set[int]()
    senders: dict[int, list[str]] = {}
    for m in view.on(EncryptedUpdate):
        senders.setdefault(m.round, []).append(m.sender)
    for m in view.readable(EncryptedSum):
        numbers = None if opener is None or m.round in seen else opener.vector(m.payload.ciphertexts.value, like)
        if numbers is not None:
            seen.add(m.round)
            complete = view.public.server in view.observers
            clients = tuple(senders[m.round]) if complete else view.public.clients
            yield Vector(m.round, clients, numbers, m.sequence)


def _opener(view: View) -> "_Opener | None":
    """What opens ciphertexts, where an observer has the key."""
    told = next(view.readable(SharedKey), None)
    return None if told is None else _Opener(told.payload.key, view.public.aggregation.options["scale_bits"])


class _Opener:
    """Decrypts under the key that follows from `seed`."""

    def __init__(self, seed: bytes, scale_bits: int) -> None:
        self._name = sha256(b"ckks: context" + bytes([scale_bits]) + seed).digest()[:16]
        self._opener = Opener(seed, b"ckks: secret key", PRIME_BITS)

    def vector(self, parts: Sequence[bytes], like: Arrays) -> NDArray[np.float64] | None:
        """(d + 1,) the numbers; None for ciphertexts under another key, or too few of them."""
        count = 1 + sum(w.size for w in like.values())
        if parts[0] != self._name or (len(parts) - 1) * SLOTS < count:
            return None
        return self._opener.vector(parts[1:])[:count]
