"""Secret bytes, numbers and orders of one party: from its coins in a reproducible run, else from the operating system.

A federation with a seed is an audit: a party's secrets follow from its coins, so that both ways to run a protocol give
the same bytes and a view holds what regenerates its observers' secrets. Without a seed nothing here touches the coins:
numpy's generator is no source for keys.
"""

from dataclasses import dataclass, field
from secrets import token_bytes

import numpy as np
from numpy.typing import NDArray

from preprocess.federation import At, Federation


@dataclass(frozen=True)
class Randomness:
    """One party's source of secrets."""

    coins: np.random.Generator = field(repr=False)
    reproducible: bool

    def bytes(self, count: int) -> bytes:
        return self.coins.bytes(count) if self.reproducible else token_bytes(count)

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
    return fed.local(party, Randomness, fed.coins(party), fed.seed is not None)
