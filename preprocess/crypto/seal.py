"""Microsoft SEAL through `tenseal.sealapi`: imported on first use, and its objects as bytes.

Bytes are SEAL's own format with the SHA-256 of the rest in front, against accidents: ciphertexts are malleable, and
only a sealed route keeps an active relay out. Loading checks that digest, SEAL's headers and lengths, undoes the
compression, then lets SEAL check every coefficient against the context. SEAL is given no compressed bytes of others,
and no header inside of another version: of some it ends the whole process, with an error that nobody can catch. sealapi
reads and writes files only; they are in memory where the system has such, and hold ciphertexts only, never a secret
key.
"""

import os  # exempt: SEAL reads and writes files only
import tempfile  # exempt: SEAL reads and writes files only
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import Any

from leakledger.preprocess.crypto.refusal import MessageError

HEADER = bytes.fromhex("5ea110")  # SEAL's magic number and the length of its header
HEADER_BYTES, DIGEST_BYTES, MAX_BYTES = 16, 32, 2**22
MOST_INSIDE = 2**23  # bytes that a ciphertext or key has without compression
COMPRESSION, NONE, ZSTANDARD = 5, 0, 2  # where the header says how the rest is compressed, and two of the ways
FIELDS_BYTES = 73  # before the polynomials: level, form, sizes and scale


@cache  # exempt: an object of the library, without a value of any party
def sealapi(method: str = "apsi", extra: str = "psi") -> Any:
    """SEAL, imported on first use: what does without it is not slowed down, and runs where it is not installed.

    Raises ModuleNotFoundError, which names the method that needs it and the extra to install.
    """
    try:
        import tenseal.sealapi as library
    except ImportError as error:
        raise ModuleNotFoundError(f"{method} needs tenseal; install leakledger[{extra}] ({error})") from None
    return library


def check_installed(method: str, extra: str) -> None:
    """Raises ValueError, which names the method that needs SEAL and the extra to install, where it is not there."""
    try:
        sealapi(method, extra)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None


def new_context(
    scheme: Any, degree: int, primes: Any, seed: Sequence[int] | None, *, levels: bool, plain_modulus: int | None = None
) -> Any:
    """A context of 128 bits of security. With a `seed` (8 words) everything that it draws follows from that, and starts
    anew with each call: such a context is for one ciphertext or one key. `levels`: whether primes can be dropped.
    """
    seal = sealapi()
    parameters = seal.EncryptionParameters(scheme)
    parameters.set_poly_modulus_degree(degree)
    parameters.set_coeff_modulus(primes)
    if plain_modulus is not None:
        parameters.set_plain_modulus(plain_modulus)
    if seed is not None:
        parameters.set_random_generator(seal.Blake2xbPRNGFactory(list(seed)))
    return seal.SEALContext(parameters, levels, seal.SEC_LEVEL_TYPE.TC128)


def dump(ciphertext: Any) -> bytes:
    """SEAL's bytes of a ciphertext or a public key, after their digest."""
    with seal_file() as (path, read):
        ciphertext.save(path)
        data = read()
    return sha256(data).digest() + data


def load(context: Any, data: Any) -> Any:
    """The ciphertext of `dump` under this context. Raises MessageError as `load_into`, and for one that hides nothing:
    all but its first part is zero, so that the key does not matter, and SEAL computes nothing with it.
    """
    made = load_into(sealapi().Ciphertext(context), "ciphertext", context, data)
    if made.is_transparent():
        raise MessageError("a ciphertext hides nothing: it needs no key to be read")
    return made


def load_public_key(context: Any, data: Any) -> Any:
    """The public key of `dump` under this context. Raises MessageError as `load_into`."""
    return load_into(sealapi().PublicKey(), "public key", context, data)


def load_into(made: Any, what: str, context: Any, data: Any) -> Any:
    """An object of SEAL's, loaded with what `dump` wrote of one.

    Raises MessageError for bytes that were changed, cut short or extended, or are another object of SEAL's.
    """
    if not isinstance(data, bytes) or not DIGEST_BYTES + HEADER_BYTES < len(data) <= MAX_BYTES:
        raise MessageError(f"it is no {what}")
    body = data[DIGEST_BYTES:]
    if sha256(body).digest() != data[:DIGEST_BYTES]:
        raise MessageError(f"a {what} was changed or cut short")
    if body[:3] != HEADER or int.from_bytes(body[8:HEADER_BYTES], "little") != len(body):
        raise MessageError(f"a {what} has another header than SEAL's")
    plain = _inflated(body, what)
    _check_inside(plain, what)
    with seal_file(plain) as (path, _):
        try:
            made.load(context, path)
        except (RuntimeError, ValueError, IndexError):  # SEAL's own texts name its internals
            raise MessageError(f"SEAL finds a {what} invalid") from None
    return made


def _inflated(body: bytes, what: str) -> bytes:
    """SEAL's bytes of the same object without compression. Raises MessageError for what cannot be decompressed."""
    if body[COMPRESSION] == NONE:
        return body
    if body[COMPRESSION] != ZSTANDARD:
        raise MessageError(f"a {what} is compressed in a way that is not read")
    import pyarrow as pa  # imported late: what runs without ciphertexts need not wait for it

    room = bytearray(MOST_INSIDE + 1)  # `read` would leak as much with each error
    try:
        with pa.CompressedInputStream(pa.BufferReader(body[HEADER_BYTES:]), "zstd") as stream:
            length = stream.readinto(room)
    except (OSError, pa.ArrowException):
        raise MessageError(f"a {what} cannot be decompressed") from None
    if length > MOST_INSIDE:
        raise MessageError(f"a {what} is larger than any that is sent")
    header = body[:COMPRESSION] + bytes([NONE]) + body[COMPRESSION + 1 : 8]
    return b"".join([header, (HEADER_BYTES + length).to_bytes(8, "little"), memoryview(room)[:length]])


def _check_inside(body: bytes, what: str) -> None:
    """Raises MessageError for a header inside that is not like the first one: of the polynomials and, where one of them
    is drawn from a seed, of that. A public key is a ciphertext of zero.
    """
    at = HEADER_BYTES + FIELDS_BYTES
    while at < len(body):
        if not HEADER_BYTES < (length := _length(body, at)) <= len(body) - at:
            raise MessageError(f"a {what} has another header inside than SEAL's")
        at += length


def _length(body: bytes, at: int) -> int:
    """What the header at this place says that it and what follows are long; 0 where it is unlike the first one."""
    header = body[at : at + HEADER_BYTES]
    return int.from_bytes(header[8:], "little") if header[:8] == body[:8] else 0


@contextmanager
def hiding_sums() -> Iterator[None]:
    """A MessageError in place of SEAL's error for a sum that hides nothing, as of a ciphertext and its negative."""
    try:
        yield
    except RuntimeError:
        raise MessageError("ciphertexts cancel each other out: their sum hides nothing") from None


@contextmanager
def seal_file(content: bytes = b"") -> Iterator[tuple[str, Callable[[], bytes]]]:
    """A path that SEAL can open, holding `content`, and what reads it back; gone afterwards."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("ciphertext"), "r+b", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{file.fileno()}", lambda: os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ciphertext")
        with open(path, "wb") as file:  # exempt: SEAL reads and writes files only
            file.write(content)
        yield path, lambda: _content(path)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:  # exempt: SEAL reads and writes files only
        return file.read()
