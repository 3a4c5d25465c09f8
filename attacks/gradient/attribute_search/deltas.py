"""A first guess at how the embedding of a record depends on its values: the sum of what each of them adds.

Every plausible value is encoded once, in a record that is otherwise the reference. The encoder is not additive, so a
sum of these is only a proposal: what is claimed has been encoded itself.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

CHUNK = 512  # records encoded together: memory


@dataclass(frozen=True, eq=False)
class Deltas:
    """`origin` (d + 1,): the reference record, [e | 1]. `added`: by feature (values, d + 1), what each value adds."""

    origin: Array = field(repr=False)
    added: tuple[Array, ...] = field(repr=False)

    def predicted(self, picks: Ints) -> Array:
        """(n, d + 1) of records with the values number `picks` (n, features)."""
        return np.asarray(self.origin + sum(own[picks[:, f]] for f, own in enumerate(self.added)))


class Encoder:
    """Encodes records, each once: descents come by the same ones again and again."""

    def __init__(self, records: TextRecords) -> None:
        self._records = records
        self._known = dict[tuple[int, ...], Array]()

    def __call__(self, picks: Ints) -> Array:
        """(n, d + 1) [embedding | 1] of records with the values number `picks` (n, features)."""
        wanted = [tuple(p) for p in picks.tolist()]
        if new := [p for p in dict.fromkeys(wanted) if p not in self._known]:
            self._known.update(zip(new, encode_all(self._records, np.array(new)), strict=True))
        return np.array([self._known[p] for p in wanted])


def encode_all(records: TextRecords, picks: Ints) -> Array:
    """(n, d + 1) [embedding | 1], in chunks."""
    return np.concatenate([records.embed(picks[i : i + CHUNK]) for i in range(0, len(picks), CHUNK)])


def measure(records: TextRecords) -> Deltas:
    """One encoding of each plausible value of each feature, in the record of the middle value of every feature."""
    sizes = [len(records.values[f]) for f in records.features]
    reference = np.array([n // 2 for n in sizes], np.int64)
    picks = np.repeat(reference[None], sum(sizes) + 1, axis=0)
    start = 1
    for f, size in enumerate(sizes):
        picks[start : start + size, f] = np.arange(size)
        start += size
    points = encode_all(records, picks)
    ends = np.cumsum([1, *sizes])
    return Deltas(points[0], tuple(points[i:j] - points[0] for i, j in pairwise(ends)))
