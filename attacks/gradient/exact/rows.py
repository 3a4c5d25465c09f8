"""Rows of a layout: points of the encoded space snapped to the codes of the categories."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.tabular import Bounds, raw_numbers
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Mask = NDArray[np.bool_]
# How far from a code the columns of a category may be, in the code's own units. Too small: a kernel that is slightly
# turned loses its row; too large: mixtures of rows are snapped to valid ones.
SNAP = 0.05
SAME = 1e-9  # codes nearer than this are one; too large, and codes that differ are not held against each other
# How many times farther the next code must be. Too small: noise decides between codes; too large: no narrow code is
# clear.
CLEAR = 10.0
# How far from a whole number, in raw units, a number that the layout promises to be whole may be. Too small: numbers
# with rounding or noise are not recognised; too large: wrong numbers are rounded to right-looking ones.
NEAR_WHOLE = 0.1


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """`categories` (n, K) and `encoded` (n, d): rows with exactly these categories."""

    categories: NDArray[np.int64]
    encoded: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.encoded)

    def where(self, chosen: Mask | NDArray[np.int64]) -> "EncodedRows":
        return EncodedRows(self.categories[chosen], self.encoded[chosen])

    def plus(self, other: "EncodedRows") -> "EncodedRows":
        return EncodedRows(
            np.concatenate([self.categories, other.categories]), np.concatenate([self.encoded, other.encoded])
        )


def no_rows(layout: FeatureLayout) -> EncodedRows:
    return EncodedRows(np.zeros((0, len(layout.categorical)), np.int64), np.zeros((0, layout.width)))


def plain_columns(block: CategoricalBlock, points: Array) -> Array:
    """The columns of `block` in combinations (n, d+1) of rows [x | 1], with the block's public scaling undone."""
    columns = points[:, block.start : block.start + block.width]
    if block.shift is None or block.scale is None:
        return columns
    return np.asarray(columns * np.array(block.scale) + points[:, -1:] * np.array(block.shift))


def snapped(layout: FeatureLayout, points: Array) -> tuple[EncodedRows, Mask]:
    """The rows nearest to multiples (n, d+1) of [x | 1], and whether all their categories were near (n,)."""
    points = points / points[:, -1:]
    valid = np.ones(len(points), bool)
    categories = np.zeros((len(points), len(layout.categorical)), np.int64)
    for k, block in enumerate(layout.categorical):
        distance = cdist(plain_columns(block, points), block.plain_codes())
        categories[:, k] = distance.argmin(1)
        valid &= distance.min(1) < SNAP
    return with_codes(layout, categories, points[:, :-1]), valid


def with_codes(layout: FeatureLayout, categories: NDArray[np.int64], encoded: Array) -> EncodedRows:
    """The rows with exactly the codes of their categories."""
    encoded = encoded.copy()
    for k, block in enumerate(layout.categorical):
        encoded[:, block.start : block.start + block.width] = block.codebook()[categories[:, k]]
    return EncodedRows(categories, encoded)


def clear(layout: FeatureLayout, points: Array, rows: EncodedRows) -> Mask:
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
    return raw_numbers(layout.numeric, encoded[:, [b.start for b in layout.numeric]])


def raw_range(block: NumericBlock, bounds: Bounds) -> tuple[float | None, float | None]:
    """The least and the largest value, in those units, as far as they are known (`bounds`) or else public."""
    return bounds.get(block.feature, (block.low, block.high) if block.scaled else (None, None))
