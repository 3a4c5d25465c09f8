"""CKKS encryption of vectors of real numbers with Microsoft SEAL, for sums alone: secret-key, no evaluation keys.

Source: Cheon, Kim, Kim and Song, "Homomorphic encryption for arithmetic of approximate numbers", ASIACRYPT 2017; SEAL 4
through `tenseal.sealapi` (the extra `he`). Polynomials of degree 8192 modulo one prime of 60 bits, where SEAL's table
allows 218 for 128 bits of security: 4096 numbers in a ciphertext of 131 kB, 66 kB as long as its random half is stored
as a seed. There are no products, so no further primes; no Galois keys, as nothing rotates; no public key, as whoever
encrypts holds the secret one.

A number x is stored as x 2^scale_bits and carries an error of 290 2^-scale_bits (one standard deviation: the noise of
SEAL, 3.2 per coefficient, over 8192 of them); a sum of n has sqrt(n) times as much. Sums are right as long as no |sum|
reaches 2^(58 - scale_bits), which `encrypt` enforces of each of n.

Randomness: as in `bfv`, a context of its own for each ciphertext, with a seed from the party's key stream. The secret
key follows from 32 bytes, so it is never written, and whoever is told these bytes has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import dump, hiding_sums, load, new_context, sealapi
from leakledger.preprocess.secret import hkdf  # exempt: the derivation alone, of words from a key that clients share

Floats = NDArray[np.float64]

DEGREE, PRIME_BITS, ROOM_BITS = 8192, 60, 58  # one bit for the sign, one so that noise cannot wrap around
SLOTS = DEGREE // 2
SEED_WORDS = 8  # of SEAL's generators, 64 bits each
NAME_BYTES = 16


@dataclass(frozen=True)
class SecretKey:
    """The clients' secret key, and the `name` of its context: a hash that tells it from others and nothing else."""

    key: Any = field(repr=False)
    scale_bits: int
    name: bytes


def key_from(seed: bytes, scale_bits: int) -> SecretKey:
    """The key that follows from 32 bytes; the same bytes under another scale have another name."""
    words = np.frombuffer(hkdf(seed, b"ckks: secret key", 8 * SEED_WORDS), "<u8").tolist()
    name = sha256(b"ckks: context" + bytes([scale_bits]) + seed).digest()[:NAME_BYTES]
    return SecretKey(sealapi("he-aggregation", "he").KeyGenerator(_context(words)).secret_key(), scale_bits, name)


def limit(scale_bits: int, parties: int) -> float:
    """What each of `parties` numbers must stay below in magnitude."""
    return 2.0 ** (ROOM_BITS - scale_bits) / parties


def encrypt(key: SecretKey, numbers: Floats, parties: int, source: Randomness) -> list[bytes]:
    """(k,) numbers as ceil(k / 4096) ciphertexts, the last one filled up with zeros. Raises ValueError, without the
    number, where one is not finite or not below the `limit` for so many parties.
    """
    most = limit(key.scale_bits, parties)
    if not (np.abs(numbers) < most).all():  # nothing compares with what is no number
        raise ValueError(
            f"a number is beyond the range at {key.scale_bits} scale bits, {most:.4g} for each of {parties} clients"
        )
    return [
        _encrypt(key, numbers[start : start + SLOTS], source.words(SEED_WORDS).tolist())
        for start in range(0, len(numbers), SLOTS)
    ]


def add(vectors: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The sum of encrypted vectors. Raises MessageError for what is none, or of another length."""
    if len({len(v) for v in vectors}) > 1:
        raise MessageError("the encrypted vectors differ in length")
    return [_sum(parts) for parts in zip(*vectors, strict=True)]


def decrypt(key: SecretKey, ciphertexts: Sequence[bytes], count: int) -> Floats:
    """(count,) the numbers. Raises MessageError where there are not as many ciphertexts as these take."""
    if len(ciphertexts) != -(-count // SLOTS):
        raise MessageError(f"{len(ciphertexts)} ciphertexts do not hold {count} numbers")
    decryptor, plain = sealapi().Decryptor(context(), key.key), sealapi().Plaintext()
    parts = []
    for data in ciphertexts:
        decryptor.decrypt(_loaded(data, key.scale_bits), plain)
        parts.append(np.array(_encoder().decode_double(plain)))
    return np.concatenate(parts)[:count]


def _encrypt(key: SecretKey, numbers: Floats, seed: list[int]) -> bytes:
    seal, plain = sealapi(), sealapi().Plaintext()
    _encoder().encode(numbers.tolist(), 2.0**key.scale_bits, plain)
    return dump(seal.Encryptor(_context(seed), key.key).encrypt_symmetric(plain))


def _sum(parts: Sequence[bytes]) -> bytes:
    first, *others = (load(context(), p) for p in parts)
    for other in others:
        if other.scale != first.scale or other.size() != first.size() or other.parms_id() != first.parms_id():
            raise MessageError("a ciphertext has another scale or form than the others")
        with hiding_sums():
            _evaluator().add_inplace(first, other)
    return dump(first)


def _loaded(data: bytes, scale_bits: int) -> Any:
    ciphertext = load(context(), data)
    if ciphertext.scale != 2.0**scale_bits or ciphertext.size() != 2:
        raise MessageError("a ciphertext has another scale or form than the context's")
    return ciphertext


@cache  # exempt: an object of the library, without a value of any party
def context() -> Any:
    """The context for everything but drawing randomness."""
    return _context(None)


def _context(seed: list[int] | None) -> Any:
    scheme = sealapi("he-aggregation", "he").SCHEME_TYPE.CKKS
    return new_context(scheme, DEGREE, _primes(), seed, levels=False)


@cache  # exempt: an object of the library, without a value of any party
def _primes() -> Any:
    return sealapi().CoeffModulus.Create(DEGREE, [PRIME_BITS])


@cache  # exempt: an object of the library, without a value of any party
def _encoder() -> Any:
    return sealapi().CKKSEncoder(context())


@cache  # exempt: an object of the library, without a value of any party
def _evaluator() -> Any:
    return sealapi().Evaluator(context())
