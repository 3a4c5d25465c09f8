"""CKKS under a public key, one product deep: whoever has the public key encrypts and computes, its maker decrypts.

Source: Cheon, Kim, Kim and Song, "Homomorphic encryption for arithmetic of approximate numbers", ASIACRYPT 2017; SEAL 4
through `tenseal.sealapi` (the extra `he`). Polynomials of degree 8192; two primes of 60 bits for ciphertexts and one
that SEAL keeps for key switching, which nothing here does: 180 bits, where SEAL's table allows 218 for 128 bits of
security. 4096 numbers in a ciphertext of 262 kB; a public key is 393 kB.

A number x is stored as x 2^36 and is off by 2e-8 (one standard deviation), a product x y by about that times |x|, and
times |y| too where both are encrypted. `LARGEST` bounds numbers, so that no product leaves the 120 bits.

What a result hides. The factors of a product scale its noise, and nothing floods that: whoever decrypts learns besides
the result how large its noise is. Honest-but-curious parties: ciphertexts are malleable.

Randomness: as in `ckks`, a context of its own for each key and ciphertext, seeded from the party's key stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import dump, load, load_public_key, new_context, sealapi
from leakledger.preprocess.secret import hkdf  # exempt: the derivation alone, of words from a seed of one party

Floats = NDArray[np.float64]

DEGREE, PRIME_BITS, SCALE_BITS = 8192, (60, 60, 60), 36
SLOTS = DEGREE // 2
SEED_WORDS, SEED_BYTES = 8, 32
RESULTS = ((2.0**SCALE_BITS, 2), (2.0 ** (2 * SCALE_BITS), 2), (2.0 ** (2 * SCALE_BITS), 3))  # scale, polynomials
LARGEST = 2.0**22  # of each factor: 2^44 at a scale of 2^72 leaves four bits of the 120


@dataclass(frozen=True)
class KeyPair:
    """`public` as bytes that are sent; the secret key never is."""

    public: bytes = field(repr=False)
    secret: Any = field(repr=False)


def key_pair(seed: bytes) -> KeyPair:
    """The keys that follow from 32 bytes."""
    words = np.frombuffer(hkdf(seed, b"ckks: key pair", 8 * SEED_WORDS), "<u8").tolist()
    generator, public = sealapi("flfe", "he").KeyGenerator(_context(words)), sealapi().PublicKey()
    generator.create_public_key(public)
    return KeyPair(dump(public), generator.secret_key())


def encrypt(public: bytes, numbers: Floats, source: Randomness, scale_bits: int = SCALE_BITS) -> list[bytes]:
    """(k,) numbers as ceil(k / 4096) ciphertexts. Raises ValueError, without the number, where one is not finite or
    beyond `LARGEST`, and MessageError for what is no public key.
    """
    check_size(numbers)
    key = load_public_key(context(), public)
    return [dump(_encrypted(key, part, source, scale_bits)) for part in _parts(numbers)]


def add(one: Sequence[bytes], other: Sequence[bytes], sign: int = 1) -> list[bytes]:
    """The encrypted sum, or with `sign` -1 the difference."""
    return [dump(_added(_loaded(a), _loaded(b), sign)) for a, b in _pairs(one, other)]


def multiply(one: Sequence[bytes], other: Sequence[bytes]) -> list[bytes]:
    """The encrypted product, in three parts each, as no evaluation key makes two of them."""
    products = []
    for a, b in _pairs(one, other):
        product = _loaded(a)
        _evaluator().multiply_inplace(product, _loaded(b))
        products.append(dump(product))
    return products


def multiply_plain(public: bytes, one: Sequence[bytes], factors: Floats, source: Randomness) -> list[bytes]:
    """The encrypted product with (k,) numbers that are known here, under fresh randomness: a new encryption of zeros is
    added, so that it cannot be told what was multiplied by whoever saw the factor's ciphertext. Errors as `encrypt`.
    """
    check_size(factors)
    key, products = load_public_key(context(), public), []
    for data, part in _pairs(one, list(_parts(factors))):
        product = _encrypted(key, np.zeros(len(part)), source, 2 * SCALE_BITS)
        if part.any():  # SEAL refuses products that show that they are zero
            scaled, plain = _loaded(data), sealapi().Plaintext()
            _encoder().encode(part.tolist(), 2.0**SCALE_BITS, plain)
            _evaluator().multiply_plain_inplace(scaled, plain)
            product = _added(scaled, product, 1)
        products.append(dump(product))
    return products


def decrypt(keys: KeyPair, ciphertexts: Sequence[bytes], count: int) -> Floats:
    """(count,) the numbers. Raises MessageError where there are not as many ciphertexts as these take."""
    if len(ciphertexts) != -(-count // SLOTS):
        raise MessageError(f"{len(ciphertexts)} ciphertexts do not hold {count} numbers")
    decryptor, plain, parts = sealapi().Decryptor(context(), keys.secret), sealapi().Plaintext(), []
    for data in ciphertexts:
        decryptor.decrypt(_result(data), plain)
        parts.append(np.array(_encoder().decode_double(plain)))
    return np.concatenate(parts)[:count]


def check_size(numbers: Floats) -> None:
    """Raises ValueError, without the number, where one is not finite or beyond `LARGEST`."""
    if not (np.abs(numbers) <= LARGEST).all():  # nothing compares with what is no number
        raise ValueError(f"a number is beyond {LARGEST:.0f}, for which encrypted products have no room")


def _parts(numbers: Floats) -> list[Floats]:
    return [numbers[start : start + SLOTS] for start in range(0, len(numbers), SLOTS)]


def _pairs(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(one) != len(other):
        raise MessageError("the encrypted columns differ in length")
    return list(zip(one, other, strict=True))


def _encrypted(key: Any, numbers: Floats, source: Randomness, scale_bits: int) -> Any:
    plain, ciphertext = sealapi().Plaintext(), sealapi().Ciphertext(context())
    _encoder().encode(np.asarray(numbers, np.float64).tolist(), 2.0**scale_bits, plain)
    sealapi().Encryptor(_context(source.words(SEED_WORDS).tolist()), key).encrypt(plain, ciphertext)
    return ciphertext


def _loaded(data: bytes) -> Any:
    """A ciphertext as `encrypt` makes it."""
    ciphertext = load(context(), data)
    if ciphertext.scale != 2.0**SCALE_BITS or ciphertext.size() != 2:
        raise MessageError("a ciphertext has another scale or form than the context's")
    return ciphertext


def _result(data: bytes) -> Any:
    """A ciphertext as computing on such leaves it."""
    ciphertext = load(context(), data)
    if (ciphertext.scale, ciphertext.size()) not in RESULTS:
        raise MessageError("a ciphertext has another scale or form than a result's")
    return ciphertext


def _added(one: Any, other: Any, sign: int) -> Any:
    (_evaluator().add_inplace if sign > 0 else _evaluator().sub_inplace)(one, other)
    return one


@cache  # exempt: an object of the library, without a value of any party
def context() -> Any:
    """The context for everything but drawing randomness."""
    return _context(None)


def _context(seed: list[int] | None) -> Any:
    return new_context(sealapi("flfe", "he").SCHEME_TYPE.CKKS, DEGREE, _primes(), seed, levels=False)


@cache  # exempt: an object of the library, without a value of any party
def _primes() -> Any:
    return sealapi().CoeffModulus.Create(DEGREE, list(PRIME_BITS))


@cache  # exempt: an object of the library, without a value of any party
def _encoder() -> Any:
    return sealapi().CKKSEncoder(context())


@cache  # exempt: an object of the library, without a value of any party
def _evaluator() -> Any:
    return sealapi().Evaluator(context())
