"""Unbiased whole numbers below given bounds, from a party's key stream (ChaCha20) or from a numpy generator.

Noise that hides a record must be as hard to predict as a key; the generator of `numpy` is for simulations of a
mechanism, which take 10^5 draws and more.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Below = Callable[[Whole], Whole]
"""Uniform whole numbers from 0 to below each of the given bounds (k,), which are at least 1."""


class ByteStream(Protocol):
    """What a party's key stream is to this file."""

    def bytes(self, count: int) -> bytes: ...


def from_stream(stream: ByteStream) -> Below:
    """Eight bytes for each number, drawn again where the last, incomplete range of multiples was hit."""

    def below(bounds: Whole) -> Whole:
        sizes = np.asarray(bounds, np.uint64).ravel()
        found, left = np.zeros(len(sizes), np.uint64), np.arange(len(sizes))
        while len(left):
            raw: NDArray[Any] = np.frombuffer(stream.bytes(8 * len(left)), "<u8")
            rest = raw % sizes[left]
            whole = raw - rest <= np.uint64(2**64 - 1) - (sizes[left] - np.uint64(1))
            found[left[whole]] = rest[whole]
            left = left[~whole]
        return found.astype(np.int64).reshape(np.shape(bounds))

    return below


def from_generator(coins: np.random.Generator) -> Below:
    def below(bounds: Whole) -> Whole:
        if bounds.size and (bounds == bounds.flat[0]).all():  # the same numbers in half the time
            return coins.integers(0, bounds.flat[0], bounds.shape)
        return coins.integers(0, bounds)

    return below
