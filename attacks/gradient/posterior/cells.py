"""What a cell of a row may hold, and how likely that is before the update is seen.

Every cell is discrete: a categorical feature has its candidates, a number the whole numbers between its bounds, or a
fine grid of them. The prior of a candidate is the granted share of its value, else its public frequency where scaled
one-hot columns show it, else even. Of a number it is the distribution of greatest entropy with what is public: that of
mean 0 and deviation 1 between the bounds where numbers are standardised (Jaynes 1957: a normal distribution where
bounds are far, an exponential one where a skewed column begins at its bound), else the even one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.labels import public_frequencies
from leakledger.attacks.observed.tabular import encoded_bounds
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Array = NDArray[np.float64]
# Values of a number without whole raw values: steps of 0.001 deviations over the eight of an unknown range, which is
# what makes a recovered number identical.
GRID = 8193
MOST_VALUES = 2**20  # whole numbers in a range; a wider one has a grid
# Of a candidate that is never met: such a share of one row more than there is keeps every candidate possible.
UNSEEN = 1e-5
LARGEST_CHOICE = 64  # candidates that are all weighed at each visit; of more, some


@dataclass(frozen=True, eq=False)
class Cell:
    """One feature of a row: `codes` (n, width) in the columns from `start` on, `log_prior` (n,), of each of n values.

    `raw` (n,): the numbers in the units of a claim; None of a categorical feature. `ordered`: neighbours are alike.
    """

    feature: str
    start: int
    codes: Tensor
    log_prior: Tensor
    raw: Array | None

    @property
    def size(self) -> int:
        return len(self.codes)

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.codes.shape[1])

    @property
    def small(self) -> bool:
        return self.size <= LARGEST_CHOICE


def cells_of(layout: FeatureLayout, knowledge: AuxiliaryKnowledge, device: str) -> tuple[list[Cell], list[Cell]]:
    """The categorical and the numeric cells of a row. Raises ValueError, naming the feature, where facts contradict."""
    categorical = [_categorical(b, knowledge, device) for b in layout.categorical]
    return categorical, [_numeric(b, knowledge, device) for b in layout.numeric]


def _categorical(block: CategoricalBlock, knowledge: AuxiliaryKnowledge, device: str) -> Cell:
    shares = _granted(block, knowledge)
    shares = public_frequencies(block) if shares is None else shares
    shares = np.full(block.size, 1 / block.size) if shares is None else shares
    return _cell(
        block.feature, block.start, block.codebook(), np.log((shares + UNSEEN) / (shares + UNSEEN).sum()), None, device
    )


def _granted(block: CategoricalBlock, knowledge: AuxiliaryKnowledge) -> Array | None:
    """(candidates,) the granted shares of named candidates; None where none are granted."""
    if block.values is None or block.feature not in knowledge.marginals:
        return None
    values, shares = knowledge.marginals[block.feature]
    known: Mapping[str, float] = dict(zip(values, shares, strict=True))
    return np.array([known.get(v, 0.0) for v in block.values])


def _numeric(block: NumericBlock, knowledge: AuxiliaryKnowledge, device: str) -> Cell:
    low, high = encoded_bounds(block, knowledge.bounds.get(block.feature))
    encoded = _values(block, low, high)
    raw = encoded * (block.scale or 1.0) + (block.shift or 0.0) if block.scaled else encoded
    raw = np.round(raw) if block.integer and block.scaled else raw
    standardised = block.scaled and low < 0 < high
    log_prior = most_uncertain(encoded) if standardised else np.full(len(encoded), -np.log(len(encoded)))
    return _cell(block.feature, block.start, encoded[:, None], log_prior, raw, device)


def _values(block: NumericBlock, low: float, high: float) -> Array:
    """(n,) the encoded values that a number may have, ascending."""
    if high <= low:
        return np.array([low])
    if block.integer and block.scale is not None and block.shift is not None:
        first, last = (np.round(v * block.scale + block.shift) for v in (low, high))
        if 0 <= last - first < MOST_VALUES:
            return np.asarray((np.arange(first, last + 1) - block.shift) / block.scale)
    return np.linspace(low, high, GRID)


def most_uncertain(values: Array) -> Array:
    """(n,) log probabilities of greatest entropy with mean 0 and variance 1 on `values` (n,): exp(a v + b v²).

    By Newton's method on the dual, which is convex; where no distribution on these values has these moments, the
    nearest that it comes to. Damped steps, so that it ends in any case.
    """
    moments = np.stack([values, values**2], 1)
    slope = np.array([0.0, -0.5])
    for _ in range(200):
        log_p = _normalised(moments @ slope)
        p = np.exp(log_p)
        mean = p @ moments
        off = np.array([0.0, 1.0]) - mean
        if np.abs(off).max() < 1e-9:
            break
        spread = (moments - mean).T @ ((moments - mean) * p[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(spread, off)
        slope = slope + step * min(1.0, 0.5 / np.abs(step).max())
    return _normalised(moments @ slope)


def _normalised(log_weights: Array) -> Array:
    top = log_weights.max()
    return np.asarray(log_weights - top - np.log(np.exp(log_weights - top).sum()))


def _cell(feature: str, start: int, codes: Array, log_prior: Array, raw: Array | None, device: str) -> Cell:
    return Cell(
        feature,
        start,
        torch.tensor(codes, dtype=torch.float32, device=device),
        torch.tensor(log_prior, dtype=torch.float32, device=device),
        raw,
    )
