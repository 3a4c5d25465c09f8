"""Frames over a pipe, between a driver and the process of one party: eight bytes of length, then the wire encoding."""

from typing import Any, BinaryIO

from leakledger.preprocess.wire import decode

LENGTH_BYTES = 8


def write_frame(pipe: BinaryIO, encoded: bytes) -> None:
    """Writes one value, already encoded so that a value without encoding leaves the pipe untouched."""
    pipe.write(len(encoded).to_bytes(LENGTH_BYTES, "big"))
    pipe.write(encoded)
    pipe.flush()


def read_frame(pipe: BinaryIO) -> Any:
    """The next value. Raises EOFError where the pipe ends, inside a frame or before one."""
    length = int.from_bytes(_exactly(pipe, LENGTH_BYTES), "big")
    return decode(_exactly(pipe, length))


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError(f"the pipe ends after {len(data)} of {count} bytes")
    return data
