"""The structural prior: free variables stand for rows that a table can hold (TabLeak, section 3.1).

An optimiser moves variables z, one per candidate of a categorical feature and one per numeric feature. `units` are what
they stand for: a distribution over the candidates, softmax(spread * z + centre), and a position between the bounds,
sigmoid(z). The encoded columns are linear in the units: a distribution times the codebook, a position times the range.

`spread` and `centre` are the public scale and shift of a scaled one-hot column, else 1 and 0. They decide how far one
step moves a candidate: a rare one hardly at all, which amounts to a prior by frequency. Bounds come from what the
adversary knows, else from the layout; where neither has any, a numeric column is taken to lie within 4 of its scales
around its shift.

With `softmax=False` (the ablation of section 4) a categorical feature has one free variable per column instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Array = NDArray[np.float64]
Bounds = Mapping[str, tuple[float, float]]
UNKNOWN_RANGE = (-4.0, 4.0)  # in encoded units


@dataclass(frozen=True)
class Rows:
    """Projected rows: `categories` (..., K) candidate numbers, `numbers` (..., L) in the units of a claim."""

    categories: NDArray[np.int64]
    numbers: Array


class StructuralPrior:
    """What the layout and known bounds say about rows. Raises ValueError, naming the feature, where they contradict.

    `size` variables, in the order of the blocks, stand for `width` encoded columns: units @ matrix + offset. Per
    numeric feature (L,) in the units of a claim: `low`, `high`, and `deviation`, the standard deviation that the
    adversary assumes: the public scale, or that of a uniform distribution over the bounds where this is less (columns
    scaled by their range).
    """

    def __init__(self, layout: FeatureLayout, bounds: Bounds, *, softmax: bool = True) -> None:
        _check_columns(layout)
        self.softmax, self.width = softmax, layout.width
        self.numeric, self.categorical = layout.numeric, layout.categorical
        self._place_variables(layout)
        ranges = np.array([encoded_bounds(b, bounds.get(b.feature)) for b in self.numeric]).reshape(-1, 2)
        self.shift = np.array([b.shift if b.scaled else 0.0 for b in self.numeric], np.float64)
        self.scale = np.array([b.scale if b.scaled else 1.0 for b in self.numeric], np.float64)
        self.low, self.high = ranges.T * self.scale + self.shift
        self.range = ranges[:, 1] - ranges[:, 0]  # in encoded units
        self.deviation = np.minimum(1.0, self.range / np.sqrt(12)) * self.scale
        self.whole = np.array([b.integer and b.scaled for b in self.numeric], bool)
        self._describe_columns(ranges[:, 0])

    def _place_variables(self, layout: FeatureLayout) -> None:
        counts = [b.size if self.softmax and isinstance(b, CategoricalBlock) else b.width for b in layout.blocks]
        places = [slice(a, b) for a, b in pairwise(accumulate(counts, initial=0))]
        numeric = [isinstance(b, NumericBlock) for b in layout.blocks]
        self.size = sum(counts)
        self.positions = np.array([s.start for s, n in zip(places, numeric, strict=True) if n], np.int64)  # (L,)
        self.choices = [s for s, n in zip(places, numeric, strict=True) if not n]  # K slices

    def _describe_columns(self, low: Array) -> None:
        self.matrix, self.offset = np.zeros((self.size, self.width)), np.zeros(self.width)
        self.spread, self.centre = np.ones(self.size), np.zeros(self.size)
        starts = [b.start for b in self.numeric]
        self.matrix[self.positions, starts] = self.range
        np.add.at(self.offset, starts, low)
        for block, place in zip(self.categorical, self.choices, strict=True):
            columns = slice(block.start, block.start + block.width)
            if not self.softmax:
                self.matrix[place, columns] = np.eye(block.width)
                continue
            codes, shift, scale = _codes(block)
            self.matrix[place, columns] = codes / scale
            self.offset[columns] -= shift / scale  # because a distribution sums to one
            if block.codes is None:
                self.spread[place], self.centre[place] = scale, shift

    def project(self, units: Array) -> Rows:
        """The rows that units (..., size) come down to: likeliest candidates, numbers whole where raw values are.

        Without softmax, the candidate whose code is nearest before scaling.
        """
        numbers = self.low + units[..., self.positions] * (self.high - self.low)
        numbers = np.clip(numbers, self.low, self.high)
        numbers = np.where(self.whole, np.floor(numbers + 0.5), numbers)
        scores = [self._scores(units[..., p], b) for b, p in zip(self.categorical, self.choices, strict=True)]
        categories = [s.argmax(-1) for s in scores]
        return Rows(np.stack(categories, -1) if categories else np.zeros((*units.shape[:-1], 0), np.int64), numbers)

    def encode(self, rows: Rows) -> Array:
        """The encoded columns (..., width) of projected rows."""
        columns = np.zeros((*rows.numbers.shape[:-1], self.width))
        encoded = (rows.numbers - self.shift) / self.scale
        for i, number in enumerate(self.numeric):
            columns[..., number.start] += encoded[..., i]
        for i, choice in enumerate(self.categorical):
            columns[..., choice.start : choice.start + choice.width] += choice.codebook()[rows.categories[..., i]]
        return columns

    def beliefs(self, units: Array) -> list[Array]:
        """Distributions over the candidates (..., candidates) per categorical feature: certain ones without softmax."""
        if self.softmax:
            return [units[..., place] for place in self.choices]
        categories = self.project(units).categories
        return [np.eye(b.size)[categories[..., i]] for i, b in enumerate(self.categorical)]

    def _scores(self, units: Array, block: CategoricalBlock) -> Array:
        """(..., candidates): the highest is the one to choose."""
        if self.softmax:
            return units
        codes, shift, scale = _codes(block)
        scores: Array = (units * scale + shift) @ codes.T - (codes**2).sum(1) / 2
        return scores


def encoded_bounds(block: NumericBlock, known: tuple[float, float] | None) -> tuple[float, float]:
    """Bounds of a numeric column in encoded units. `known` is in the units of a claim."""
    low, high = UNKNOWN_RANGE
    if block.shift is not None and block.scale is not None:
        if not (0 < block.scale < np.inf and np.isfinite(block.shift)):
            raise ValueError(f"{block.feature}: shift {block.shift} and scale {block.scale} cannot be inverted")
        shift, scale = block.shift, block.scale
        low = low if block.low is None else (block.low - shift) / scale
        high = high if block.high is None else (block.high - shift) / scale
        known = known and ((known[0] - shift) / scale, (known[1] - shift) / scale)
    low, high = known or (low, high)
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"{block.feature}: encoded bounds ({low}, {high}) are not a finite interval")
    return low, high


def _codes(block: CategoricalBlock) -> tuple[Array, Array, Array]:
    """The codebook (candidates, width) before scaling, shift and scale (width,)."""
    codes = np.eye(block.size) if block.codes is None else np.asarray(block.codes, np.float64)
    shift, scale = np.zeros(block.width), np.ones(block.width)
    if block.shift is not None and block.scale is not None:
        shift, scale = np.asarray(block.shift, np.float64), np.asarray(block.scale, np.float64)
    if not (np.isfinite(codes).all() and np.isfinite(shift).all() and (scale > 0).all() and np.isfinite(scale).all()):
        raise ValueError(f"{block.feature}: its codes, shift or scale cannot be inverted")
    return codes, shift, scale


def _check_columns(layout: FeatureLayout) -> None:
    covered = {c for b in layout.blocks for c in range(b.start, b.start + b.width)}
    if missing := sorted(set(range(layout.width)) - covered):
        raise ValueError(f"no block of the layout describes the columns {missing}")
