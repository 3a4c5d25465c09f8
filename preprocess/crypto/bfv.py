"""Batched BFV encryption with Microsoft SEAL: 4096 numbers modulo a 21-bit prime in one ciphertext, secret-key only.

Source: Brakerski (2012), Fan and Vercauteren (2012); SEAL 4 through `tenseal.sealapi` (the extra `psi`). Two data
primes of 32 bits, of which the result keeps one, and one that SEAL asks for and nothing uses: 84 bits, where its table
allows 109 for 128 bits of security at degree 4096. The noise has room for one plaintext factor and a sum of some forty
terms, not for a product of ciphertexts. There are no public and no relinearisation keys: the holder of the secret key
encrypts. Coefficients of 32 bits fill half of SEAL's words, which its compression takes out.

Randomness. SEAL draws its own from the operating system, unless a context fixes its seed. Every ciphertext gets a
context of its own, with a seed from the party's key stream: bytes follow from the party's secret, and no two
ciphertexts share their randomness, which one context with one seed would give them (it starts anew with each call).

Serialisation is that of `seal`; beyond what it checks, a ciphertext has two parts and the protocol's level.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import dump, new_context, sealapi
from leakledger.preprocess.crypto.seal import load as load_ciphertext

Numbers = NDArray[np.int64]

SLOTS = 4096
PLAIN_MODULUS = 2056193  # the largest 21-bit prime that allows batching at this degree
PRIME_BITS = (32, 32, 20)


@dataclass(frozen=True)
class SecretKey:
    """SEAL's secret key, which never leaves the party that made it and is never written anywhere."""

    key: Any = field(repr=False)


def new_key(source: Randomness) -> SecretKey:
    return SecretKey(sealapi().KeyGenerator(_fresh_context(source)).secret_key())


def encrypt(key: SecretKey, numbers: Numbers, source: Randomness) -> bytes:
    """The serialised encryption of (SLOTS,) numbers in [0, PLAIN_MODULUS); its random half is stored as a seed."""
    encryptor = sealapi().Encryptor(_fresh_context(source), key.key)
    return dump(encryptor.encrypt_symmetric(encode(numbers)))


def decrypt(key: SecretKey, ciphertext: Any) -> Numbers:
    """(SLOTS,) the numbers."""
    plain = sealapi().Plaintext()
    sealapi().Decryptor(context(), key.key).decrypt(ciphertext, plain)
    return np.array(_encoder().decode_uint64(plain), np.int64)


def noise_budget(key: SecretKey, ciphertext: Any) -> int:
    """Bits of noise that the ciphertext can still take; at 0 it decrypts to something else."""
    return int(sealapi().Decryptor(context(), key.key).invariant_noise_budget(ciphertext))


def encode(numbers: Numbers) -> Any:
    """(SLOTS,) numbers in [0, PLAIN_MODULUS) as a plaintext."""
    plain = sealapi().Plaintext()
    _encoder().encode(numbers.tolist(), plain)
    return plain


def to_ntt(ciphertext: Any) -> Any:
    """The form in which products with plaintexts cost least."""
    transformed = sealapi().Ciphertext(context())
    _evaluator().transform_to_ntt(ciphertext, transformed)
    return transformed


def combine(coefficients: Numbers, powers: list[Any]) -> bytes:
    """The serialised encryption of c_0 + c_1 y^1 + ... + c_D y^D, slot by slot, at the lowest level.

    `coefficients` is (D + 1, SLOTS), no row of c_1 ... c_D all zero; `powers` holds y^1 ... y^D as `to_ntt` gives them.
    """
    seal, evaluator, level = sealapi(), _evaluator(), context().first_parms_id()
    terms = []
    for row, power in zip(coefficients[1:], powers, strict=True):
        plain, term = encode(row), seal.Ciphertext(context())
        evaluator.transform_to_ntt_inplace(plain, level)
        evaluator.multiply_plain(power, plain, term)
        terms.append(term)
    for term in terms[1:]:
        evaluator.add_inplace(terms[0], term)
    evaluator.transform_from_ntt_inplace(terms[0])
    evaluator.add_plain_inplace(terms[0], encode(coefficients[0]))
    low = seal.Ciphertext(context())
    evaluator.mod_switch_to(terms[0], context().last_parms_id(), low)
    return dump(low)


def load(data: Any, *, fresh: bool) -> Any:
    """The ciphertext of `dump`: of two parts, at the first level if `fresh`, else at the last.

    Raises MessageError for bytes that were changed, cut short or extended, or are another object of SEAL's.
    """
    ciphertext = load_ciphertext(context(), data)
    level = context().first_parms_id() if fresh else context().last_parms_id()
    if ciphertext.size() != 2 or ciphertext.parms_id() != level or ciphertext.is_ntt_form():
        raise MessageError("a ciphertext has other parts or another level than the protocol's")
    return ciphertext


def _fresh_context(source: Randomness) -> Any:
    """A context whose seed comes from the party's key stream."""
    return _context(source.words(8).tolist())


@cache  # exempt: an object of the library, without a value of any party
def context() -> Any:
    """The context for everything but drawing randomness."""
    return _context(None)


def _context(seed: list[int] | None) -> Any:
    scheme = sealapi().SCHEME_TYPE.BFV
    return new_context(scheme, SLOTS, _primes(), seed, levels=seed is None, plain_modulus=PLAIN_MODULUS)


@cache  # exempt: an object of the library, without a value of any party
def _primes() -> Any:
    return sealapi().CoeffModulus.Create(SLOTS, list(PRIME_BITS))


@cache  # exempt: an object of the library, without a value of any party
def _encoder() -> Any:
    return sealapi().BatchEncoder(context())


@cache  # exempt: an object of the library, without a value of any party
def _evaluator() -> Any:
    return sealapi().Evaluator(context())
