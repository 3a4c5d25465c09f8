"""Microsoft SEAL as an adversary who has a key uses it: keys from seeds, and the numbers in ciphertexts.

Schemes and parameters are public (CKKS: Cheon et al. 2017; BFV: Brakerski 2012; SEAL through tenseal); this is written
from the description of the protocols and shares no code with them.
"""

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.secret import hkdf

DEGREE, DIGEST_BYTES, HEADER_BYTES = 8192, 32, 16
ZSTANDARD, MOST_BYTES = b"\2", 2**23  # how SEAL's header names a compression, and what no ciphertext has without it
SLOTS = DEGREE // 2
BATCH_DEGREE, BATCH_PRIMES, PLAIN_MODULUS = 4096, (32, 32, 20), 2056193


class Opener:
    """Decrypts under the secret key that follows from `seed` and the words that its protocol derives it by."""

    def __init__(self, seed: bytes, words: bytes, primes: Sequence[int]) -> None:
        seal = _seal()
        self._seed, self._primes = seed, tuple(primes)
        self._context = _context(self._primes, None)
        self._secret = seal.KeyGenerator(self._drawing(words)).secret_key()
        self._encoder = seal.CKKSEncoder(self._context)
        self._decryptor = seal.Decryptor(self._context, self._secret)

    def public_key(self, words: bytes) -> bytes:
        """The public key that goes with it under the coins of other `words`, as it is sent but for the digest."""
        made = _seal().PublicKey()
        _seal().KeyGenerator(self._drawing(words), self._secret).create_public_key(made)
        with _folder() as folder:
            path = Path(folder) / "key"
            made.save(str(path))
            return path.read_bytes()

    def _drawing(self, words: bytes) -> Any:
        """The context that draws what follows from the seed and these words."""
        drawn = np.frombuffer(hkdf(self._seed, words, 64), "<u8").tolist()
        return _context(self._primes, tuple(drawn))

    def numbers(self, data: bytes) -> NDArray[np.float64]:
        """(4096,) what one ciphertext holds."""
        plain = _seal().Plaintext()
        self._decryptor.decrypt(_loaded(self._context, data), plain)
        return np.array(self._encoder.decode_double(plain))

    def vector(self, parts: Sequence[bytes]) -> NDArray[np.float64]:
        """(4096 k,) what k ciphertexts hold."""
        return np.concatenate([self.numbers(p) for p in parts])


class BatchOpener:
    """Decrypts batched BFV under the secret key that SEAL draws from a seed of 64 bytes: 4096 numbers modulo a prime of
    21 bits, two data primes of 32.
    """

    def __init__(self, seed: bytes) -> None:
        seal = _seal()
        self._context = _batched(None)
        drawing = _batched(tuple(np.frombuffer(seed, "<u8").tolist()))
        self._encoder = seal.BatchEncoder(self._context)
        self._decryptor = seal.Decryptor(self._context, seal.KeyGenerator(drawing).secret_key())

    def numbers(self, data: bytes) -> NDArray[np.int64]:
        """(4096,) what one ciphertext holds."""
        plain = _seal().Plaintext()
        self._decryptor.decrypt(_loaded(self._context, data), plain)
        return np.array(self._encoder.decode_uint64(plain), np.int64)


def _loaded(context: Any, data: bytes) -> Any:
    """The ciphertext behind its digest. Raises ValueError for bytes that cannot be decompressed."""
    ciphertext = _seal().Ciphertext(context)
    with _folder() as folder:
        path = Path(folder) / "ciphertext"
        path.write_bytes(_inflated(data[DIGEST_BYTES:]))
        ciphertext.load(context, str(path))
    return ciphertext


def _inflated(data: bytes) -> bytes:
    """The same ciphertext, not compressed: where compressed bytes end too soon SEAL ends the process."""
    magic, version, compression, reserved = data[:3], data[3:5], data[5:6], data[6:8]
    if compression == b"\0":
        return data
    if compression != ZSTANDARD:
        raise ValueError("a ciphertext is compressed in a way that is not read")
    import pyarrow as pa  # imported late, as SEAL is

    room = bytearray(MOST_BYTES)  # `read` would leak as much with each error
    try:
        with pa.CompressedInputStream(pa.BufferReader(data[HEADER_BYTES:]), "zstd") as stream:
            length = stream.readinto(room)
    except (OSError, pa.ArrowException):
        raise ValueError("a ciphertext cannot be decompressed") from None
    total = (HEADER_BYTES + length).to_bytes(8, "little")
    return b"".join([magic, version, b"\0", reserved, total, memoryview(room)[:length]])


def _folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for a moment, in memory where there is one: SEAL reads and writes files only."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def _context(primes: tuple[int, ...], seed: tuple[int, ...] | None) -> Any:
    seal = _seal()
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, list(primes)))
    if seed is not None:
        parameters.set_random_generator(seal.Blake2xbPRNGFactory(list(seed)))
    return seal.SEALContext(parameters, False, seal.SEC_LEVEL_TYPE.TC128)


def _batched(seed: tuple[int, ...] | None) -> Any:
    seal = _seal()
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    parameters.set_poly_modulus_degree(BATCH_DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(BATCH_DEGREE, list(BATCH_PRIMES)))
    parameters.set_plain_modulus(PLAIN_MODULUS)
    if seed is not None:
        parameters.set_random_generator(seal.Blake2xbPRNGFactory(list(seed)))
    return seal.SEALContext(parameters, seed is None, seal.SEC_LEVEL_TYPE.TC128)


@cache
def _seal() -> Any:
    """SEAL, imported on first use: other views are read without it. Raises ModuleNotFoundError, which says what to
    install.
    """
    try:
        import tenseal.sealapi as library
    except ImportError as error:
        raise ModuleNotFoundError(f"to open ciphertexts takes tenseal; install leakledger[he] ({error})") from None
    return library
