"""Secret bytes, numbers and orders of one party, from its key stream.

A party's secrets follow from its own secret alone, so that both ways to run a protocol give the same bytes and a view
holds what regenerates its observers' secrets, and nobody else's. Numpy's generators are no source for keys.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.secret import KeyStream  # exempt: the type of what `key_stream` gives


@dataclass(frozen=True)
class Randomness:
    """One party's source of secrets."""

    stream: KeyStream = field(repr=False)

    def bytes(self, count: int) -> bytes:
        return self.stream.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """(count,) uniform 64-bit numbers."""
        return np.frombuffer(self.bytes(8 * count), "<u8").astype(np.uint64)

    def below(self, bound: int, count: int) -> NDArray[np.uint64]:
        """(count,) uniform numbers in [0, bound), bound at most 2^63; rejects, so they are exactly uniform."""
        limit = np.uint64(2**64 - 2**64 % bound - 1)
        drawn = self.words(count)
        while (bad := drawn > limit).any():
            drawn[bad] = self.words(int(bad.sum()))
        return drawn % np.uint64(bound)

    def order(self, count: int) -> NDArray[np.int64]:
        """A uniform permutation of range(count), but for equal 64-bit keys."""
        return np.argsort(self.words(count), kind="stable").astype(np.int64)


def randomness(fed: Federation, party: str) -> At[Randomness]:
    """The source of `party`."""
    return fed.local(party, Randomness, fed.key_stream(party))
