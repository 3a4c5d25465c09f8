"""Turns values into bytes and back, safely: the only form in which anything crosses from one party to another.

The format is MessagePack with two extensions: arrays (dtype, shape, raw bytes) and integers beyond 64 bits. Decoding
builds plain data only; no byte of a message can name a class, a function or a path. What arrives is what plain data can
express: a tuple arrives as a list, a torch tensor must be turned into an array by its sender, and every array arrives
read-only.

Decoding takes at most `MEMORY_FACTOR` bytes for each byte of the message (and `MEMORY_BASE` in any case), whatever the
bytes are: the containers of a message may not take more than `CONTAINER_FACTOR` times its size, no list is made room
for that the message has no items for, and nothing is nested deeper than MessagePack's own stack of 1,024. (Keys go
through the interpreter's one table of names, whose growth is not a message's.)
"""

import math
import struct
from collections.abc import Iterator, Mapping
from io import BytesIO
from sys import getsizeof
from typing import Any

import msgpack
import numpy as np

ARRAY, BIG_INTEGER = 1, 2
DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])
MAX_DIMENSIONS = 32
HEADER_BYTES = 512  # no header of an array is longer

MEMORY_FACTOR, MEMORY_BASE = 48, 2**21
CONTAINER_FACTOR, CONTAINER_BASE = 16, 2**20  # an empty list takes 64 bytes of memory, and one byte of a message
# The unpacker makes room for a list before its items. Of lists that long or shorter, 1,024 nested ones without items
# get no more than 4 times the message; where a list is longer, the message is checked to be whole first. From `LARGE`
# on that is not needed: the unpacker makes room for 10,000 items at most, so 1,024 lists get 4 times the message too.
LONG_LIST, LONG_LIST_SHARE, LARGE = 64, 2048, 20 * 2**20
CHUNK = 2**18
FEW, MUCH = 15, 2**20  # items of a container with a header of one byte; bytes, more than either kind of header counts


class WireError(ValueError):
    """A value that cannot be sent, or bytes that are not the encoding of a value."""


def encode(value: Any) -> bytes:
    """The bytes of `value`: None, bool, int, float, str, bytes, numeric arrays, and lists and dicts of these.

    Equal values in equal order give equal bytes. Raises WireError with the type of the first part that has no encoding.
    """
    try:
        return b"".join(_parts(value))
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise WireError(f"a value of type {type(value).__name__} cannot be sent: {error}") from None


def decode(data: bytes) -> Any:
    """The value that `data` encodes. Raises WireError for anything truncated, extended, malformed or oversized, and for
    containers that would take more memory than a message of that size may.
    """
    try:
        try:
            return _unpack(data, len(data) if len(data) >= LARGE else max(LONG_LIST, len(data) // LONG_LIST_SHARE))
        except WireError:
            raise
        except ValueError:  # a longer list, or no message at all
            _check_whole(data)
            return _unpack(data, len(data))
    except WireError:
        raise
    except msgpack.StackError:
        raise WireError(f"{len(data)} bytes are not a message: nested too deeply") from None
    except Exception as error:  # msgpack raises many unrelated types on malformed input
        raise WireError(f"{len(data)} bytes are not a message: {type(error).__name__}") from None


def _unpack(data: bytes, longest: int) -> Any:
    """The value, if no list of it has more than `longest` items. Raises whatever msgpack does, and WireError."""
    count = _Containers(len(data))
    return msgpack.unpackb(
        data,
        raw=False,
        timestamp=1,  # which `encode` never writes; they arrive as plain numbers
        list_hook=count.one,
        object_hook=lambda mapping: count.one(_with_text_keys(mapping)),
        ext_hook=lambda code, body: count.one(_from_extension(code, body)),
        max_array_len=longest,
    )


def _check_whole(data: bytes) -> None:
    """Raises what msgpack does unless `data` has all items that its lists and maps announce. Builds none of them."""
    msgpack.Unpacker(BytesIO(data), read_size=CHUNK, max_buffer_size=max(CHUNK, len(data))).skip()


class _Containers:
    """What the containers of one message of `size` bytes take, counted as they are made."""

    def __init__(self, size: int) -> None:
        self.size, self.left = size, CONTAINER_BASE + CONTAINER_FACTOR * size

    def one(self, value: Any) -> Any:
        self.left -= getsizeof(value)
        if self.left < 0:
            raise WireError(
                f"{self.size} bytes hold too many lists, maps and arrays: more than {CONTAINER_FACTOR} times their size"
            )
        return value


def _parts(value: Any) -> Iterator[bytes | memoryview]:
    """The encoding in pieces. What is much of it, as key shares are, is not copied before the pieces are joined."""
    if isinstance(value, list | tuple) and len(value) <= FEW and any(map(_holds_much, value)):
        yield bytes([0x90 | len(value)])
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping) and len(value) <= FEW and any(map(_holds_much, value.values())):
        yield bytes([0x80 | len(_texts(value))])
        for key, item in value.items():
            yield _packed(key)
            yield from _parts(item)
    elif isinstance(value, bytes) and len(value) >= MUCH:
        yield struct.pack(">BI", 0xC6, len(value))
        yield value
    elif type(value) is np.ndarray and value.nbytes >= MUCH:
        header, content = _array_parts(value)
        yield struct.pack(">BIb", 0xC9, len(header) + content.nbytes, ARRAY) + header
        yield content
    else:
        yield _packed(value)


def _holds_much(value: Any) -> bool:
    if isinstance(value, bytes):
        return len(value) >= MUCH
    if isinstance(value, np.ndarray):
        return value.nbytes >= MUCH
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return isinstance(value, list | tuple) and len(value) <= FEW and any(map(_holds_much, value))


def _packed(value: Any) -> bytes:
    return bytes(msgpack.packb(_plain(value), use_bin_type=True, strict_types=True))


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
        return {str(k): _plain(v) for k, v in _texts(value).items()}
    raise TypeError(f"{type(value).__module__}.{type(value).__name__} has no encoding")


def _texts(value: Mapping[Any, Any]) -> Mapping[str, Any]:
    if bad := [type(k).__name__ for k in value if not isinstance(k, str)]:
        raise TypeError(f"its keys must be text, not {bad[0]}")
    return value


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    return b"".join(_array_parts(array))


def _array_parts(array: np.ndarray[Any, Any]) -> tuple[bytes, memoryview]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise TypeError(f"an array of dtype {array.dtype} has no encoding; send numbers, or a list of text")
    header: bytes = msgpack.packb([little.dtype.str, list(little.shape)])
    return header, np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


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
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=HEADER_BYTES)
    unpacker.feed(data[:HEADER_BYTES])
    dtype, shape = unpacker.unpack()
    size = len(data) - unpacker.tell()
    if dtype not in DTYPES or len(shape) > MAX_DIMENSIONS or any(not isinstance(n, int) or n < 0 for n in shape):
        raise WireError("an array has an unknown dtype or shape")
    if math.prod(shape) * np.dtype(dtype).itemsize != size:
        raise WireError(f"an array of shape {tuple(shape)} does not have {size} bytes")
    return np.frombuffer(data, dtype=dtype, offset=unpacker.tell()).reshape(shape)
