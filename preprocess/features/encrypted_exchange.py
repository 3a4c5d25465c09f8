"""The exchange of columns under homomorphic encryption, which FLFE compares itself with: what each party does.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", sections 3.2
and 5.2, "HE-based LFE": sketches and judges as in FLFE, new keys in every loop, columns that are encrypted instead of
masked. The paper has Paillier; here it is CKKS (`crypto.ckks_public`), which has products of ciphertexts, so that no
quotient or product has to be estimated. The server makes the keys of a loop and ends with the result in the clear, but
for the noise that hides what was computed with (`ckks_public`): 1.5e-5 of a sum or product, 1.2e-10 of a quotient.

Who computes on ciphertexts is not agreed in the paper. Section 3.2 has devices send theirs to the server, which
transforms and decrypts (`encrypted-at-server`): the server then holds the key to each column that it is sent. The
reading in which it does not (`encrypted`) has the second device compute with its own column in the clear, as in
algorithm 3, so that all the server is sent is the result.
"""

from collections.abc import Callable
from typing import Any

from leakledger.preprocess.crypto.ckks_public import (
    ALONE,
    SEED_BYTES,
    TOGETHER,
    KeyPair,
    add,
    add_plain,
    decrypt,
    divide_plain,
    encrypt,
    key_pair,
    multiply,
    multiply_plain,
)
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.features.devices import DeviceColumns
from leakledger.preprocess.features.masks import ADDITIVE
from leakledger.preprocess.features.sketch import Column
from leakledger.preprocess.messages import Ciphertext, EncryptedColumn, EncryptedResult, ExchangeKey

SIGNS = {"sum": 1, "difference": -1}


def new_keys(source: Randomness) -> KeyPair:
    return key_pair(source.bytes(SEED_BYTES))


def exchange_key(keys: KeyPair) -> ExchangeKey:
    return ExchangeKey(keys.public)


def encrypted_column(
    key: ExchangeKey, held: DeviceColumns, feature: str, source: Randomness, scale_bits: int = ALONE
) -> EncryptedColumn:
    """A device's column. Raises ValueError, naming it, where it does not fit."""
    return EncryptedColumn(Ciphertext(_named(feature, encrypt, key.public, held.columns[feature], source, scale_bits)))


def for_the_server(key: ExchangeKey, held: DeviceColumns, feature: str, source: Randomness) -> EncryptedColumn:
    """The same to be computed with another encrypted column. Errors as there."""
    return encrypted_column(key, held, feature, source, TOGETHER)


def encrypted_result(
    key: ExchangeKey, told: EncryptedColumn, held: DeviceColumns, feature: str, how: str, source: Randomness
) -> EncryptedResult:
    """What the second device makes of an encrypted column and its own. Raises ValueError, naming its column, for a
    divisor near 0 and what does not fit, and MessageError for what is no such column.
    """
    column, parts = held.columns[feature], ciphertexts_of(told)
    if how in ADDITIVE:
        made = _named(feature, add_plain, key.public, parts, column, source, SIGNS[how])
    else:
        by = multiply_plain if how == "product" else divide_plain
        made = _named(feature, by, key.public, parts, column, source)
    return EncryptedResult(Ciphertext(made))


def opened(keys: KeyPair, told: EncryptedResult, records: int) -> Column:
    """The result (n,), at who has the keys."""
    return decrypt(keys, ciphertexts_of(told), records)


def transformed(keys: KeyPair, one: EncryptedColumn, other: EncryptedColumn, how: str, records: int) -> Column:
    """The same of two encrypted columns, at the server."""
    first, second = ciphertexts_of(one), ciphertexts_of(other)
    return decrypt(keys, multiply(first, second) if how == "product" else add(first, second, SIGNS[how]), records)


def ciphertexts_of(told: EncryptedColumn | EncryptedResult) -> list[bytes]:
    """Raises MessageError where there are none."""
    parts = told.ciphertexts.value
    if not isinstance(parts, list) or not parts or not all(isinstance(p, bytes) for p in parts):
        raise MessageError("it is no list of ciphertexts")
    return parts


def _named(feature: str, encrypting: Callable[..., list[bytes]], *given: Any) -> list[bytes]:
    try:
        return encrypting(*given)
    except MessageError:
        raise
    except ValueError as error:
        raise ValueError(f"{feature} cannot be encrypted: {error}; scale the column, or leave it out") from None
