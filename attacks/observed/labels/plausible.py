"""Rows that a table could hold, as far as its layout is public: each cell drawn on its own.

Candidates are drawn by their public frequency where scaled one-hot columns show it, else evenly; numbers normally about
the public mean, or evenly over a range that they are scaled by.
"""

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import CategoricalBlock, FeatureLayout


def plausible_cells(
    layout: FeatureLayout, number: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Candidate numbers (number, K) and numeric columns in encoded units (number, L)."""
    picks = [rng.choice(b.size, number, p=public_frequencies(b)) for b in layout.categorical]
    columns = []
    for column in layout.numeric:
        values = rng.normal(size=number)
        if column.scaled and column.low is not None and column.high is not None:
            low, high = (float(column.encoded(v)) for v in (column.low, column.high))
            values = np.clip(values, low, high) if low < 0 else low + (high - low) * rng.random(number)
        columns.append(values)
    categories = np.stack(picks, -1).astype(np.int64) if picks else np.zeros((number, 0), np.int64)
    return categories, np.stack(columns, -1) if columns else np.zeros((number, 0))


def plausible_rows(layout: FeatureLayout, number: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(number, width) encoded rows of plausible cells."""
    categories, numbers = plausible_cells(layout, number, rng)
    rows = np.zeros((number, layout.width))
    for i, block in enumerate(layout.categorical):
        rows[:, block.start : block.start + block.width] += block.codebook()[categories[:, i]]
    for i, column in enumerate(layout.numeric):
        rows[:, column.start] += numbers[:, i]
    return rows


def public_frequencies(block: CategoricalBlock) -> NDArray[np.float64] | None:
    """The frequency of each candidate, which the public mean of its one-hot column is; None where there is none."""
    if block.codes is not None or block.shift is None:
        return None
    shares = np.clip(np.asarray(block.shift, np.float64), 0, None)
    frequencies: NDArray[np.float64] = shares / shares.sum()
    return frequencies if np.isfinite(frequencies).all() else None
