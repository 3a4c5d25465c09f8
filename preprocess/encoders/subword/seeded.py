"""A subword model without training: every bucket's vector follows from a seed.

It has the architecture of fastText (Bojanowski et al. 2017): the vector of a word is the mean of the vectors of its
character n-grams (3 to 6), hashed to 2,000,000 buckets. It has no vocabulary, and it has learned nothing: words that
share letters are near each other, words that share a meaning are not. fastText starts from uniform vectors too; here
they are uniform on (-1, 1), so that means of some fifty have about the size of trained ones. A vector is made when it
is needed, from SHAKE-128 of seed and bucket, and is the same on every machine.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.encoders.subword.hashing import Subwords

MAX_DIMENSION = 10_000


@dataclass(frozen=True)
class SeededVectors:
    """Vectors of `dimension` numbers in (-1, 1); zeros for a word without n-grams, which only the empty one is."""

    dimension: int = 300
    seed: int = 0
    subwords: Subwords = field(default_factory=Subwords)

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension {self.dimension} is outside 1 to {MAX_DIMENSION}")

    @property
    def bounds(self) -> tuple[float, float]:
        """What no entry of a vector exceeds."""
        return -1.0, 1.0

    def vector(self, word: str) -> NDArray[np.float64]:
        """(dimension,) the mean of the word's n-grams."""
        rows = [bucket_vector(self.seed, self.dimension, b) for b in self.subwords.of(word)]
        mean: NDArray[np.float64] = np.mean(rows, axis=0) if rows else np.zeros(self.dimension)
        return mean


@lru_cache(maxsize=2**14)
def bucket_vector(seed: int, dimension: int, bucket: int) -> NDArray[np.float64]:
    """(dimension,) odd multiples of 2^-16 between -1 and 1."""
    words = np.frombuffer(shake_128(f"{seed} {bucket}".encode()).digest(2 * dimension), "<u2")
    return (2.0 * words - 65535) / 65536
