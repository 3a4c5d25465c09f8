"""Turns values into bytes and back, safely: the only form in which anything crosses from one party to another.

The format is MessagePack with two extensions: arrays (dtype, shape, raw bytes) and integers beyond 64 bits. Decoding
builds plain data only; no byte of a message can name a class, a function or a path. What arrives is what plain data can
express: a tuple arrives as a list, a torch tensor must be turned into an array by its sender, and every array arrives
read-only.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

ARRAY, BIG_INTEGER = 1, 2
DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])
MAX_DIMENSIONS = 32
HEADER_BYTES = 512  # no header of an array is longer


class WireError(ValueError):
    """A value that cannot be sent, or bytes that are not the encoding of a value."""


def encode(value: Any) -> bytes:
    """The bytes of `value`: None, bool, int, float, str, bytes, numeric arrays, and lists and dicts of these.

    Equal values in equal order give equal bytes. Raises WireError with the type of the first part that has no encoding.
    """
    try:
        return bytes(msgpack.packb(_plain(value), use_bin_type=True, strict_types=True))
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise WireError(f"a value of type {type(value).__name__} cannot be sent: {error}") from None


def decode(data: bytes) -> Any:
    """The value that `data` encodes. Raises WireError for anything truncated, extended, malformed or oversized."""
    try:
        # Timestamps, which `encode` never writes, arrive as plain numbers.
        return msgpack.unpackb(data, raw=False, timestamp=1, object_hook=_with_text_keys, ext_hook=_from_extension)
    except WireError:
        raise
    except Exception as error:  # msgpack raises many unrelated types on malformed input
        raise WireError(f"{len(data)} bytes are not a message: {type(error).__name__}") from None


def _plain(value: Any) -> Any:
    """`value` in MessagePack's own types, arrays and big integers wrapped as extensions."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | float | str | bytes):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else msgpack.ExtType(BIG_INTEGER, _integer_bytes(int(value)))
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array would send what its mask hides; fill it first")
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(ARRAY, _array_bytes(value))
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        if bad := [type(k).__name__ for k in value if not isinstance(k, str)]:
            raise TypeError(f"its keys must be text, not {bad[0]}")
        return {str(k): _plain(v) for k, v in value.items()}
    raise TypeError(f"{type(value).__module__}.{type(value).__name__} has no encoding")


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise TypeError(f"an array of dtype {array.dtype} has no encoding; send numbers, or a list of text")
    header: bytes = msgpack.packb([little.dtype.str, list(little.shape)])
    return header + np.ascontiguousarray(little).tobytes()


def _integer_bytes(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)


def _with_text_keys(mapping: dict[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(k, str) for k in mapping):
        raise WireError("keys must be text")
    return mapping


def _from_extension(code: int, data: bytes) -> Any:
    if code == BIG_INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code != ARRAY:
        raise WireError(f"extension {code} is unknown")
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=0)
    unpacker.feed(data[:HEADER_BYTES])
    dtype, shape = unpacker.unpack()
    body = memoryview(data)[unpacker.tell() :]
    if dtype not in DTYPES or len(shape) > MAX_DIMENSIONS or any(not isinstance(n, int) or n < 0 for n in shape):
        raise WireError("an array has an unknown dtype or shape")
    if math.prod(shape) * np.dtype(dtype).itemsize != len(body):
        raise WireError(f"an array of shape {tuple(shape)} does not have {len(body)} bytes")
    return np.frombuffer(body, dtype=dtype).reshape(shape)
