"""What a view gives of updates under homomorphic encryption: whoever has the clients' key opens what it was sent.

Every client has the key. A client alone opens the sums, which is what they are for; the server with one client opens
every single update. The key follows from 32 bytes in `he-aggregation.key`, which its sender and recipient can read.
Scheme and parameters are public: CKKS at degree 8192, one prime of 60 bits (Cheon et al. 2017; SEAL through tenseal).
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.aggregation.vectors import Arrays, Vector
from leakledger.preprocess.messages import EncryptedSum, EncryptedUpdate, SharedKey
from leakledger.preprocess.secret import hkdf
from leakledger.preprocess.views import View

DEGREE, PRIME_BITS, DIGEST_BYTES = 8192, 60, 32


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
        seal, words = _seal(), np.frombuffer(hkdf(seed, b"ckks: secret key", 64), "<u8").tolist()
        self._name = sha256(b"ckks: context" + bytes([scale_bits]) + seed).digest()[:16]
        self._context = _context(None)
        self._encoder = seal.CKKSEncoder(self._context)
        self._decryptor = seal.Decryptor(self._context, seal.KeyGenerator(_context(words)).secret_key())

    def vector(self, parts: Sequence[bytes], like: Arrays) -> NDArray[np.float64] | None:
        """(d + 1,) the numbers; None for ciphertexts under another key, or too few of them."""
        count = 1 + sum(w.size for w in like.values())
        if parts[0] != self._name or (len(parts) - 1) * (DEGREE // 2) < count:
            return None
        return np.concatenate([self._numbers(p) for p in parts[1:]])[:count]

    def _numbers(self, data: bytes) -> NDArray[np.float64]:
        ciphertext, plain = _seal().Ciphertext(self._context), _seal().Plaintext()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            path = Path(folder) / "ciphertext"  # SEAL reads files only
            path.write_bytes(data[DIGEST_BYTES:])
            ciphertext.load(self._context, str(path))
        self._decryptor.decrypt(ciphertext, plain)
        return np.array(self._encoder.decode_double(plain))


def _context(seed: list[int] | None) -> Any:
    seal = _seal()
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, [PRIME_BITS]))
    if seed is not None:
        parameters.set_random_generator(seal.Blake2xbPRNGFactory(seed))
    return seal.SEALContext(parameters, False, seal.SEC_LEVEL_TYPE.TC128)


@cache
def _seal() -> Any:
    """SEAL, imported on first use: other views are read without it."""
    import tenseal.sealapi as library

    return library
