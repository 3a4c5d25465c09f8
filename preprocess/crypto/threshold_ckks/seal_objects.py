"""Ciphertexts and keys as Microsoft SEAL's own objects, by way of its serialised form, and back.

sealapi has no way to set a polynomial, but SEAL reads what it did not write itself: 16 bytes of header (magic number,
version, compression, length), then the fields of SEAL 4's `Ciphertext::save_members`, `PublicKey` and `KSwitchKeys`,
without compression. It writes with Zstandard, which pyarrow undoes. SEAL checks each object against its context; these
are ciphertexts and public keys only, never secrets.
"""

import struct
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import seal_file, sealapi
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import SwitchingKey
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Residues

MAGIC, VERSION, NONE, ZSTANDARD = 0xA15E, (4, 3), 0, 2
HEADER = struct.Struct("<HBBBBHQ")  # magic, own length, version, compression, reserved, length of everything
FIELDS = struct.Struct("<32sBQQQdQ")  # parms_id, in NTT form, polynomials, N, primes, scale, correction factor
ARRAY = struct.Struct("<Q")  # how many words follow


@cache  # exempt: an object of the library, without a value of any party
def seal_context(parameters: Parameters) -> Any:
    """Raises ValueError for parameters that SEAL does not find secure."""
    seal = sealapi("threshold CKKS", "he")
    chosen = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    chosen.set_poly_modulus_degree(parameters.degree)
    bits = [parameters.prime_bits] * parameters.data_primes + [parameters.special_bits]
    chosen.set_coeff_modulus(seal.CoeffModulus.Create(parameters.degree, bits))
    context = seal.SEALContext(chosen, True, seal.SEC_LEVEL_TYPE.TC128)
    if not context.parameters_set():
        raise ValueError(f"{parameters.name}: {context.parameters_error_message()}")
    return context


def parms_id(parameters: Parameters, level: int | None) -> list[int]:
    """SEAL's name of a level; of the keys' for None."""
    return _parms_ids(parameters)[parameters.data_primes if level is None else level]


@cache  # exempt: names of levels
def _parms_ids(parameters: Parameters) -> tuple[list[int], ...]:
    """By level, that of keys last: a ciphertext of zeros is brought down the chain."""
    seal, context = sealapi(), seal_context(parameters)
    evaluator, ids = seal.Evaluator(context), [list(context.first_parms_id())]
    ciphertext = seal.Ciphertext(context)
    ciphertext.resize(context, context.first_parms_id(), 2)
    plain = seal.Plaintext()
    seal.CKKSEncoder(context).encode(1.0, 1.0, plain)
    for _ in range(parameters.top):
        evaluator.mod_switch_to_next_inplace(plain)
        ids.append(list(plain.parms_id()))
    return (*reversed(ids), list(context.key_parms_id()))


def to_seal(parameters: Parameters, level: int, values: Residues, scale: float) -> Any:
    """SEAL's ciphertext of polynomials (2, level + 1, N). Raises MessageError where SEAL finds it invalid."""
    ciphertext = sealapi().Ciphertext(seal_context(parameters))
    _load(parameters, ciphertext, _ciphertext(parms_id(parameters, level), values, scale))
    return ciphertext


def from_seal(ciphertext: Any) -> Residues:
    """(polynomials, level + 1, N) of SEAL's ciphertext."""
    size, primes, degree = ciphertext.size(), ciphertext.coeff_modulus_size(), ciphertext.poly_modulus_degree()
    with seal_file() as (path, read):
        ciphertext.save(path)
        data = read()
    *_, compression, _, length = HEADER.unpack_from(data)
    words = size * primes * degree
    inside = FIELDS.size + HEADER.size + ARRAY.size + 8 * words
    body: Any = data[HEADER.size : length]
    if compression == ZSTANDARD:
        body = pa.decompress(body, decompressed_size=inside, codec="zstd")
    elif compression != NONE:
        raise ValueError(f"SEAL compresses by method {compression}, which is not read; install a build with Zstandard")
    return np.frombuffer(body, "<u8", offset=inside - 8 * words).reshape(size, primes, degree)


def to_seal_key(key: SwitchingKey) -> Any:
    """SEAL's RelinKeys or GaloisKeys with this key alone."""
    return to_seal_keys([key])


def to_seal_keys(keys: list[SwitchingKey]) -> Any:
    """SEAL's RelinKeys of one key without Galois element, or GaloisKeys of keys with one each."""
    seal, parameters = sealapi(), keys[0].context.parameters
    relinearisation = keys[0].galois_element is None
    lists: dict[int, SwitchingKey] = {0 if k.galois_element is None else (k.galois_element - 1) // 2: k for k in keys}
    name = parms_id(parameters, None)
    parts = [struct.pack("<32sQ", _id_bytes(name), max(lists) + 1)]
    for place in range(max(lists) + 1):
        digits = lists[place].values if place in lists else ()
        parts += [ARRAY.pack(len(digits)), *(_ciphertext(name, digit, 1.0) for digit in digits)]
    loaded = seal.RelinKeys() if relinearisation else seal.GaloisKeys()
    _load(parameters, loaded, _with_header(*parts))
    return loaded


def _ciphertext(name: list[int], values: Residues, scale: float) -> bytes:
    size, primes, degree = values.shape
    fields = FIELDS.pack(_id_bytes(name), 1, size, degree, primes, scale, 1)
    array = _with_header(ARRAY.pack(values.size), np.ascontiguousarray(values, "<u8").tobytes())
    return _with_header(fields, array)


def _with_header(*parts: bytes) -> bytes:
    length = HEADER.size + sum(map(len, parts))
    return b"".join([HEADER.pack(MAGIC, HEADER.size, *VERSION, NONE, 0, length), *parts])


def _id_bytes(name: list[int]) -> bytes:
    return struct.pack("<4Q", *name)


def _load(parameters: Parameters, into: Any, data: bytes) -> None:
    with seal_file(data) as (path, _):
        try:
            into.load(seal_context(parameters), path)
        except (RuntimeError, ValueError):  # SEAL's own texts name its internals
            raise MessageError("SEAL finds an object invalid") from None
