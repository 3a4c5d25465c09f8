"""Frames over a pipe, between a driver and the process of one party: eight bytes of length, then the wire encoding.

Neither end trusts the other to go on: a length that is only announced takes no memory, and the driver writes to a
process that may have stopped reading.
"""

import os
import select
from time import monotonic
from typing import Any, BinaryIO

from leakledger.preprocess.wire import decode

LENGTH_BYTES = 8
CHUNK = 2**20


def frame(encoded: bytes) -> bytes:
    """One value, already encoded so that a value without encoding leaves the pipe untouched."""
    return len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded


def write_frame(pipe: BinaryIO, encoded: bytes) -> None:
    """Writes one encoded value, however long its reader takes."""
    pipe.write(frame(encoded))
    pipe.flush()


def write_frame_within(descriptor: int, encoded: bytes, seconds: float) -> None:
    """The same on the bare descriptor. Raises TimeoutError once its reader has taken nothing for `seconds`."""
    os.set_blocking(descriptor, False)
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    left = memoryview(frame(encoded))
    while left:
        deadline = monotonic() + seconds
        while not writable.poll(max(0.0, 1000 * (deadline - monotonic()))):
            if monotonic() >= deadline:
                raise TimeoutError(f"nothing was read for {seconds:g} s")
        left = left[os.write(descriptor, left[:CHUNK]) :]


def read_frame(pipe: BinaryIO) -> Any:
    """The next value. Raises EOFError where the pipe ends, inside a frame or before one."""
    length = int.from_bytes(_exactly(pipe, LENGTH_BYTES), "big")
    return decode(_exactly(pipe, length))


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    """So many bytes, room for which is made as they come."""
    data = bytearray()
    while len(data) < count:
        part = pipe.read(min(count - len(data), CHUNK))
        if not part:
            raise EOFError(f"the pipe ends after {len(data)} of {count} bytes")
        data += part
    return bytes(data)
