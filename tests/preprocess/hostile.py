"""Messages that were made to take memory, and what decoding them takes: `python -m tests.preprocess.hostile BYTES`."""

import json
import sys
import tracemalloc
from itertools import islice, product
from typing import Any

import msgpack

from leakledger.preprocess.wire import ARRAY, LARGE, WireError, decode


def array_extension(header: Any, body: bytes) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(ARRAY, msgpack.packb(header) + body)))


def announced(items: int) -> bytes:
    """The header of a list."""
    return b"\xdd" + items.to_bytes(4, "big")


def wide(item: bytes, size: int) -> bytes:
    """A list of as many equal items as fit."""
    return announced(size // len(item)) + item * (size // len(item))


def keys(count: int) -> list[bytes]:
    """Encoded texts of three characters, all different."""
    return [b"\xa3" + bytes(k) for k in islice(product(range(32, 127), repeat=3), count)]


def large_map(size: int) -> bytes:
    entries = keys(min(size // 5, 95**3))
    return b"\xdf" + len(entries).to_bytes(4, "big") + b"".join(k + b"\xc0" for k in entries)


def small_maps(size: int, each: int) -> bytes:
    """Maps of `each` keys with texts of two bytes to the character, which take most memory for their size."""
    parts = [k + b"\xa2\xc4\x80" for k in keys(size // 7)]
    maps = [bytes([0x80 + each]) + b"".join(parts[i : i + each]) for i in range(0, len(parts) - each, each)]
    return announced(len(maps)) + b"".join(maps)


HOSTILE = {
    "nested lists": lambda size: b"\x91" * size + b"\x90",
    "a list of nested lists": lambda size: wide(b"\x91" * 499 + b"\xc0", size),
    "a list of empty lists": lambda size: wide(b"\x90", size),
    "a list of empty maps": lambda size: wide(b"\x80", size),
    "a list of maps of one": lambda size: wide(b"\x81\xa0\xc0", size),
    "a list of empty arrays": lambda size: wide(array_extension(["<f8", [0]], b""), size),
    "a list of empty big integers": lambda size: wide(b"\xc7\x00\x02", size),
    "a list of empty texts": lambda size: wide(b"\xa0", size),
    "a list of texts of one wide character": lambda size: wide(b"\xa2\xc4\x80", size),
    "pairs of such texts": lambda size: wide(b"\x92" + b"\xa2\xc4\x80" * 2, size),
    "a map of many keys": large_map,
    "many maps of two keys": lambda size: small_maps(size, 2),
    "many maps of five keys": lambda size: small_maps(size, 5),
    "nested lists that are announced only": lambda size: announced(size // 9) * 1000 + b"\xc0" * size,
    "nested shorter lists that are announced only": lambda size: announced(size // 550) * 1000 + b"\xc0" * size,
}


def decoded(data: bytes) -> tuple[int, str]:
    """What decoding takes at its peak, in bytes, and the refusal, if any."""
    tracemalloc.start()
    try:
        decode(data)
        refusal = ""
    except WireError as error:
        refusal = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, refusal


def measured(size: int) -> dict[str, tuple[int, int, str]]:
    """Of each, its length, what decoding it takes, and the refusal; of large ones, of those that only announce much."""
    chosen = HOSTILE if size < LARGE else {n: make for n, make in HOSTILE.items() if n.startswith("nested")}
    return {name: (len(data := make(size)), *decoded(data)) for name, make in chosen.items()}


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
