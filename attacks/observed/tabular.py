"""The structural prior: free variables stand for rows that a table can hold (TabLeak, section 3.1).

An optimiser moves variables z, one per candidate of a categorical feature and one per numeric feature. `units` are what
they stand for: a distribution over the candidates, softmax(spread * z + centre), and a position between the bounds,
sigmoid(z). The encoded columns are linear in the units: a distribution times the codebook, a position times the range.

`spread` and `centre` are the public scale and shift of a scaled one-hot column, else 1 and 0. They decide how far one
step moves a candidate: a rare one hardly at all, which amounts to a prior by frequency. Bounds come from what the
adversary knows, else from the layout; where neither has any, a numeric column is taken to lie within 4 of its scales
around its shift.

With `softmax=False` (the ablation of section 4) a categorical feature has one free variable per column instead; with
`sigmoid=False` a numeric feature has its encoded column for a variable, and is clipped to the bounds in the end only.

A codebook may be of any kind: dense vectors, several bits of a row that features share, one number per candidate. Where
a mixture of candidates does not tell which ones were mixed (more candidates than columns to tell them by), only its
mean code means something: the candidate is then the one whose code is nearest to it, and restarts are pooled by it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Array = NDArray[np.float64]
Bounds = Mapping[str, tuple[float, float]]
# Of a number without bounds, in encoded units. Narrower: rows beyond it cannot be claimed; wider: restarts begin and
# wander far from where rows are.
UNKNOWN_RANGE = (-4.0, 4.0)


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

    def __init__(self, layout: FeatureLayout, bounds: Bounds, *, softmax: bool = True, sigmoid: bool = True) -> None:
        _check_columns(layout, softmax)
        self.layout, self.width, self.softmax, self.sigmoid = layout, layout.width, softmax, sigmoid
        self.numeric, self.categorical = layout.numeric, layout.categorical
        self.telling = [tells_candidates(b) for b in self.categorical]
        self._place_variables(layout)
        ranges = np.array([encoded_bounds(b, bounds.get(b.feature)) for b in self.numeric]).reshape(-1, 2)
        self.least = ranges[:, 0]  # in encoded units
        self.range = ranges[:, 1] - ranges[:, 0]
        self.low, self.high = (raw_numbers(self.numeric, ends) for ends in ranges.T)
        self.spread_of_columns = np.minimum(1.0, self.range / np.sqrt(12))
        self.deviation = self.spread_of_columns * slopes(self.numeric, np.clip(0.0, *ranges.T))
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
        if not self.sigmoid:
            span = np.where(self.range > 0, self.range, 1.0)
            self.spread[self.positions], self.centre[self.positions] = 1 / span, -low / span
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

        Without softmax, and where a mixture does not tell its candidates, the one whose code is nearest before scaling.
        """
        numbers = raw_numbers(self.numeric, self.least + units[..., self.positions] * self.range)
        numbers = np.clip(numbers, self.low, self.high)
        numbers = np.where(self.whole, np.floor(numbers + 0.5), numbers)
        categories = [self._chosen(i, units[..., place]) for i, place in enumerate(self.choices)]
        return Rows(np.stack(categories, -1) if categories else np.zeros((*units.shape[:-1], 0), np.int64), numbers)

    def encode(self, rows: Rows) -> Array:
        """The encoded columns (..., width) of projected rows."""
        columns = np.zeros((*rows.numbers.shape[:-1], self.width))
        encoded = encoded_numbers(self.numeric, rows.numbers)
        for i, number in enumerate(self.numeric):
            columns[..., number.start] += encoded[..., i]
        for i, choice in enumerate(self.categorical):
            columns[..., choice.start : choice.start + choice.width] += choice.codebook()[rows.categories[..., i]]
        return columns

    def certain(self, rows: Rows) -> Array:
        """The units (..., size) that stand for exactly these rows."""
        units = np.zeros((*rows.numbers.shape[:-1], self.size))
        span = np.where(self.range > 0, self.range, 1.0)
        units[..., self.positions] = (encoded_numbers(self.numeric, rows.numbers) - self.least) / span
        for i, (block, place) in enumerate(zip(self.categorical, self.choices, strict=True)):
            stands = np.eye(block.size) if self.softmax else block.codebook()
            units[..., place] = stands[rows.categories[..., i]]
        return units

    def beliefs(self, units: Array) -> list[Array]:
        """Distributions over the candidates (..., candidates) per categorical feature.

        Certain ones without softmax, and where a mixture does not tell its candidates; candidates with the same code
        share the certainty.
        """
        own = [units[..., place] for place in self.choices]
        by_softmax = [self.softmax and telling for telling in self.telling]
        return [u if by_softmax[i] else self._alike(i, self._chosen(i, u)) for i, u in enumerate(own)]

    def pooled(self, restarts: Array, pool: Callable[[Array], Array]) -> Array:
        """Units (..., size) of restarts (R, ..., size), pooled over R feature by feature as they are to be read."""
        units = pool(restarts)
        for i, (block, place) in enumerate(zip(self.categorical, self.choices, strict=True)):
            if self.softmax and not self.telling[i]:
                codes, _, _ = _codes(block)
                units[..., place] = np.eye(block.size)[_nearest(pool(restarts[..., place] @ codes), codes)]
        return units

    def _chosen(self, i: int, units: Array) -> NDArray[np.int64]:
        """(...) the candidates of categorical feature `i` that its units stand for."""
        if self.softmax and self.telling[i]:
            chosen: NDArray[np.int64] = units.argmax(-1)
            return chosen
        codes, shift, scale = _codes(self.categorical[i])
        return _nearest(units @ codes if self.softmax else units * scale + shift, codes)

    def _alike(self, i: int, chosen: NDArray[np.int64]) -> Array:
        """(..., candidates): evenly over the candidates of feature `i` with the code of the chosen one."""
        block = self.categorical[i]
        if block.codes is None:
            return np.eye(block.size)[chosen]
        _, group, sizes = np.unique(_codes(block)[0], axis=0, return_inverse=True, return_counts=True)
        group = group.reshape(-1)
        alike: Array = (group[chosen][..., None] == group) / sizes[group]
        return alike


def tells_candidates(block: CategoricalBlock) -> bool:
    """Whether the mean code of a mixture tells the mixture: no code is a weighted mean of others (weights sum to 1)."""
    if block.codes is None or block.size == 1:
        return True
    codes = _codes(block)[0]
    return block.size - 1 <= block.width and int(np.linalg.matrix_rank(codes[1:] - codes[0])) == block.size - 1


def encoded_bounds(block: NumericBlock, known: tuple[float, float] | None) -> tuple[float, float]:
    """Bounds of a numeric column in encoded units. `known` is in the units of a claim."""
    low, high = UNKNOWN_RANGE
    if block.shift is not None and block.scale is not None:
        if not (0 < block.scale < np.inf and np.isfinite(block.shift)):
            raise ValueError(f"{block.feature}: shift {block.shift} and scale {block.scale} cannot be inverted")
        low = low if block.low is None else float(block.encoded(block.low))
        high = high if block.high is None else float(block.encoded(block.high))
        known = known and (float(block.encoded(known[0])), float(block.encoded(known[1])))
    low, high = known or (low, high)
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"{block.feature}: encoded bounds ({low}, {high}) are not a finite interval")
    return low, high


def _codes(block: CategoricalBlock) -> tuple[Array, Array, Array]:
    """The codebook (candidates, width) before scaling, shift and scale (width,)."""
    codes = block.plain_codes()
    shift, scale = np.zeros(block.width), np.ones(block.width)
    if block.shift is not None and block.scale is not None:
        shift, scale = np.asarray(block.shift, np.float64), np.asarray(block.scale, np.float64)
    if not (np.isfinite(codes).all() and np.isfinite(shift).all() and (scale > 0).all() and np.isfinite(scale).all()):
        raise ValueError(f"{block.feature}: its codes, shift or scale cannot be inverted")
    return codes, shift, scale


def _nearest(points: Array, codes: Array) -> NDArray[np.int64]:
    """(...) which of the codes (candidates, width) is nearest to each of the points (..., width)."""
    nearest: NDArray[np.int64] = (points @ codes.T - (codes**2).sum(1) / 2).argmax(-1)
    return nearest


def _check_columns(layout: FeatureLayout, softmax: bool) -> None:
    described = Counter(c for b in layout.blocks for c in range(b.start, b.start + b.width))
    if missing := sorted(set(range(layout.width)) - described.keys()):
        raise ValueError(f"no block of the layout describes the columns {missing}")
    if not softmax and max(described.values(), default=1) > 1:
        shared = [b.feature for b in layout.blocks if any(described[b.start + i] > 1 for i in range(b.width))]
        raise ValueError(f"{', '.join(shared)} share columns, which only the softmax prior can take apart")


def raw_numbers(blocks: Sequence[NumericBlock], encoded: Array) -> Array:
    """(..., n) numbers of n blocks in the units of a `RecordsClaim`: raw where the scaling is public, else encoded."""
    return _each([b.raw for b in blocks], encoded)


def encoded_numbers(blocks: Sequence[NumericBlock], numbers: Array) -> Array:
    """(..., n) the columns of numbers in the units of a `RecordsClaim`."""
    return _each([b.encoded for b in blocks], numbers)


def slopes(blocks: Sequence[NumericBlock], encoded: Array) -> Array:
    """(..., n) by how much these units grow with the columns, at values of them."""
    return _each([b.slope for b in blocks], encoded)


def _each(maps: Sequence[Callable[[Array], Array]], values: Array) -> Array:
    mapped = np.array(values, np.float64)
    for i, of in enumerate(maps):
        mapped[..., i] = of(mapped[..., i])
    return mapped
