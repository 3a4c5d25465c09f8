"""CKKS under a public key, one product deep: whoever has the public key encrypts and computes, its maker decrypts.

Source: Cheon, Kim, Kim and Song, "Homomorphic encryption for arithmetic of approximate numbers", ASIACRYPT 2017; SEAL 4
through `tenseal.sealapi` (the extra `he`). Polynomials of degree 8192; primes of 60, 60 and 58 bits for ciphertexts and
one of 40 that SEAL keeps for key switching, which nothing here does: 218 bits, what SEAL's table allows for 128 bits of
security. 4096 numbers in a ciphertext of 393 kB; a public key is 493 kB.

Two scales. A number that is to meet numbers in the clear (`ALONE`) is stored as x 2^68, whose noise is below the
rounding of a double. Of two encrypted columns to be multiplied each is stored as x 2^36 (`TOGETHER`): x is off by 2e-8
(one standard deviation), a product x y by that times (|x| + |y|). `LARGEST` bounds numbers, so that no product leaves
the 178 bits.

What a result hides. The noise of a product grows with its factors, so whoever decrypts would learn besides the product
how large they are; and a sum has digits of both addends that a double rounds away. Whoever computes with numbers in the
clear therefore floods the result (`FLOOD`, of quotients `DIVISION_FLOOD`, one standard deviation of every number):
products by 2^20 times what noise and rounding of the factors leave at `LARGEST`, by 2^(20 + k) where factors are 2^k
times as small, sums by 2^15 times the last digit at `LARGEST`, likewise. This is no statistical hiding of 40 bits, for
which there is no room beside the numbers; and doubles round numbers before they are encrypted, which moves a product by
about 2^-50 of the largest in its ciphertext. Results of two encrypted columns (`add`, `multiply`) are not flooded: who
opens them can open these, too. Honest-but-curious parties: ciphertexts are malleable.

Randomness: as in `ckks`, a context of its own for each key and ciphertext, seeded from the party's key stream; the
public key has other coins than the secret one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import dump, hiding_sums, load, load_public_key, new_context, sealapi
from leakledger.preprocess.secret import hkdf  # exempt: the derivation alone, of words from a seed of one party

Floats = NDArray[np.float64]

DEGREE, PRIME_BITS = 8192, (60, 60, 58, 40)
SLOTS = DEGREE // 2
ALONE, TOGETHER = 68, 36  # bits of the scale of what meets numbers in the clear, and of what meets its like
FACTOR_BITS, DIVISION_BITS = 62, 80  # of the scale of numbers in the clear
FLOOD, DIVISION_FLOOD = 2.0**-16, 2.0**-33
SEED_WORDS, SEED_BYTES = 8, 32
FRESH = tuple((2.0**bits, 2) for bits in (ALONE, TOGETHER))  # scale, polynomials
RESULTS = (*FRESH, (2.0 ** (2 * TOGETHER), 3), *((2.0 ** (ALONE + b), 2) for b in (FACTOR_BITS, DIVISION_BITS)))
LARGEST = 2.0**22  # of each factor: 2^44 at a scale of 2^130 leaves four bits of the 178
SMALLEST = 2.0**-4  # of a divisor, and of the largest number of a column: smaller ones drown


@dataclass(frozen=True)
class KeyPair:
    """`public` as bytes that are sent; the secret key never is."""

    public: bytes = field(repr=False)
    secret: Any = field(repr=False)


def key_pair(seed: bytes) -> KeyPair:
    """The keys that follow from 32 bytes."""
    secret = sealapi("flfe", "he").KeyGenerator(_context(_words(seed, b"ckks public: secret key"))).secret_key()
    public = sealapi().PublicKey()
    sealapi().KeyGenerator(_context(_words(seed, b"ckks public: public key")), secret).create_public_key(public)
    return KeyPair(dump(public), secret)


def encrypt(public: bytes, numbers: Floats, source: Randomness, scale_bits: int = ALONE) -> list[bytes]:
    """(k,) numbers as ceil(k / 4096) ciphertexts. Raises ValueError, without the number, where one is not finite or
    beyond `LARGEST`, or all are below `SMALLEST` and not zero, and MessageError for what is no public key.
    """
    check_size(numbers)
    key = load_public_key(context(), public)
    return [dump(_encrypted(key, part, source, scale_bits)) for part in _parts(numbers)]


def add(one: Sequence[bytes], other: Sequence[bytes], sign: int = 1) -> list[bytes]:
    """The encrypted sum, or with `sign` -1 the difference, of numbers at the same scale."""
    return [dump(_added(_loaded(a), _loaded(b), sign)) for a, b in _pairs(one, other)]


def add_plain(public: bytes, one: Sequence[bytes], numbers: Floats, source: Randomness, sign: int = 1) -> list[bytes]:
    """The encrypted sum, or with `sign` -1 the difference, of numbers that are `ALONE` and (k,) numbers that are known
    here, flooded. Errors as `encrypt`.
    """
    check_size(numbers)
    key, sums = load_public_key(context(), public), list[bytes]()
    for data, part in _pairs(one, list(_parts(numbers))):
        flood = _encrypted(key, FLOOD * _normal(source), source, ALONE)
        total = _added(_loaded(data, ALONE), _encrypted(key, part, source, ALONE), sign)
        sums.append(dump(_added(total, flood, 1)))
    return sums


def multiply(one: Sequence[bytes], other: Sequence[bytes]) -> list[bytes]:
    """The encrypted product of numbers that are `TOGETHER`, in three parts each, as no evaluation key makes two."""
    products = []
    for a, b in _pairs(one, other):
        product = _loaded(a, TOGETHER)
        _evaluator().multiply_inplace(product, _loaded(b, TOGETHER))
        products.append(dump(product))
    return products


def multiply_plain(public: bytes, one: Sequence[bytes], factors: Floats, source: Randomness) -> list[bytes]:
    """The encrypted product of numbers that are `ALONE` with (k,) numbers that are known here, flooded. Errors as
    `encrypt`.
    """
    check_size(factors)
    return _multiplied(public, one, factors, source, FACTOR_BITS, FLOOD)


def divide_plain(public: bytes, one: Sequence[bytes], divisors: Floats, source: Randomness) -> list[bytes]:
    """The encrypted quotient by (k,) numbers that are known here, likewise. Raises ValueError, too, where one of them
    is below `SMALLEST`.
    """
    check_size(divisors)
    if not (np.abs(divisors) >= SMALLEST).all():
        raise ValueError(f"a divisor is below 1/{1 / SMALLEST:.0f}, for which encrypted quotients have no room")
    return _multiplied(public, one, 1 / divisors, source, DIVISION_BITS, DIVISION_FLOOD)


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
    """Raises ValueError, without the number, where one is not finite or beyond `LARGEST`, or all are below `SMALLEST`
    and not zero.
    """
    if not (np.abs(numbers) <= LARGEST).all():  # nothing compares with what is no number
        raise ValueError(f"a number is beyond {LARGEST:.0f}, for which encrypted products have no room")
    if numbers.any() and np.abs(numbers).max() < SMALLEST:
        raise ValueError(f"all numbers are below 1/{1 / SMALLEST:.0f}, which the noise of encrypted products hides")


def _words(seed: bytes, what: bytes) -> list[int]:
    return list(np.frombuffer(hkdf(seed, what, 8 * SEED_WORDS), "<u8").tolist())


def _normal(source: Randomness) -> Floats:
    """(4096,) standard normal numbers."""
    return np.asarray(ndtri(((source.words(SLOTS) >> np.uint64(11)) + 0.5) / 2.0**53))


def _multiplied(
    public: bytes, one: Sequence[bytes], factors: Floats, source: Randomness, bits: int, flood: float
) -> list[bytes]:
    """The product with `factors` at a scale of so many `bits`, to which a new encryption of noise is added: so it
    cannot be told what was multiplied, neither by whoever saw the factor's ciphertext nor, but for what the module
    says, by whoever opens the product.
    """
    key, products = load_public_key(context(), public), list[bytes]()
    for data, part in _pairs(one, list(_parts(factors))):
        product = _encrypted(key, flood * _normal(source), source, ALONE + bits)
        scaled, plain = _loaded(data, ALONE), sealapi().Plaintext()
        _encoder().encode(part.tolist(), 2.0**bits, plain)
        if not plain.is_zero():  # SEAL refuses products that show that they are zero
            _evaluator().multiply_plain_inplace(scaled, plain)
            product = _added(scaled, product, 1)
        products.append(dump(product))
    return products


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


def _loaded(data: bytes, scale_bits: int | None = None) -> Any:
    """A ciphertext as `encrypt` makes it, at that scale if one is named."""
    allowed = FRESH if scale_bits is None else ((2.0**scale_bits, 2),)
    return _of_form(data, allowed, "the context's")


def _result(data: bytes) -> Any:
    """A ciphertext as computing on such leaves it."""
    return _of_form(data, RESULTS, "a result's")


def _of_form(data: bytes, allowed: Sequence[tuple[float, int]], whose: str) -> Any:
    ciphertext = load(context(), data)
    if (ciphertext.scale, ciphertext.size()) not in allowed:
        raise MessageError(f"a ciphertext has another scale or form than {whose}")
    return ciphertext


def _added(one: Any, other: Any, sign: int) -> Any:
    if one.scale != other.scale:
        raise MessageError("the encrypted columns differ in scale")
    with hiding_sums():
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
