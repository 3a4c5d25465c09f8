"""Rows of a layout: points of the encoded space snapped to the codes of the categories."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from attacks.span.row_space import Array
from attacks.tableak.prior import Bounds, raw_units
from preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Mask = NDArray[np.bool_]
SNAP = 0.05  # how far from a code the columns of a category may be, in the code's own units
SAME = 1e-9  # codes nearer than this are one
CLEAR = 10.0  # how many times farther the next code must be


@dataclass(frozen=True, eq=False)
class Rows:
    """`categories` (n, K) and `encoded` (n, d): rows with exactly these categories."""

    categories: NDArray[np.int64]
    encoded: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.encoded)

    def where(self, chosen: Mask | NDArray[np.int64]) -> "Rows":
        return Rows(self.categories[chosen], self.encoded[chosen])


def plain_columns(block: CategoricalBlock, points: Array) -> Array:
    """The columns of `block` in combinations (n, d+1) of rows [x | 1], with the block's public scaling undone."""
    columns = points[:, block.start : block.start + block.width]
    if block.shift is None or block.scale is None:
        return columns
    return np.asarray(columns * np.array(block.scale) + points[:, -1:] * np.array(block.shift))


def snapped(layout: FeatureLayout, points: Array) -> tuple[Rows, Mask]:
    """The rows nearest to multiples (n, d+1) of [x | 1], and whether all their categories were near (n,)."""
    points = points / points[:, -1:]
    encoded, valid = points[:, :-1].copy(), np.ones(len(points), bool)
    categories = np.zeros((len(points), len(layout.categorical)), np.int64)
    for k, block in enumerate(layout.categorical):
        distance = cdist(plain_columns(block, points), block.plain_codes())
        categories[:, k] = distance.argmin(1)
        valid &= distance.min(1) < SNAP
        encoded[:, block.start : block.start + block.width] = block.codebook()[categories[:, k]]
    return Rows(categories, encoded), valid


def clear(layout: FeatureLayout, points: Array, rows: Rows) -> Mask:
    """(n,) whether multiples (n, d+1) of [x | 1] are far nearer to the codes of their `rows` than to any others."""
    points, sure = points / points[:, -1:], np.ones(len(points), bool)
    for block, chosen in zip(layout.categorical, rows.categories.T, strict=True):
        if block.codes is not None:  # one-hot codes are far apart
            codes = block.plain_codes()
            distance = cdist(plain_columns(block, points), codes)
            others = np.where(cdist(codes[chosen], codes) > SAME, distance, np.inf).min(1)
            sure &= CLEAR * distance[np.arange(len(points)), chosen] < others
    return sure


def numbers(layout: FeatureLayout, encoded: Array) -> Array:
    """The numeric features (n, L) of encoded rows in the units of a `RecordsClaim`."""
    scale, shift = raw_units(layout.numeric)
    return np.asarray(encoded[:, [b.start for b in layout.numeric]] * scale + shift)


def raw_range(block: NumericBlock, bounds: Bounds) -> tuple[float | None, float | None]:
    """The least and the largest value, in those units, as far as they are known (`bounds`) or else public."""
    return bounds.get(block.feature, (block.low, block.high) if block.scaled else (None, None))
