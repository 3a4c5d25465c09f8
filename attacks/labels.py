"""Recovers how many rows of a batch have each label, from the gradient of the last layer's bias.

With mean cross-entropy, dL/db_c = mean(p_c) - n_c / B, so n_c = B (mean(p_c) - dL/db_c), where p_c is the probability
that the model gives class c. The gradient and B are observed; mean(p_c) over the batch is not, and is estimated over
rows drawn from the layout: candidates by their public frequency where scaled one-hot columns show it, else evenly;
numbers normally about the public mean, or evenly over a range that they are scaled by. At a fresh network p_c hardly
depends on the row, so the counts are nearly always exact; at a trained one they are an estimate. For B = 1 the class is
the one whose entry is negative, and that is exact for any network (iDLG, Zhao et al. 2020).

Rows of a batch have no order, so counts are all that labels can tell an attack.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from preprocess.models import as_tensors, forward
from preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec

DRAWS = 2_000  # rows over which mean(p_c) is estimated


def recover_labels(
    spec: ModelSpec,
    layout: FeatureLayout,
    weights: Mapping[str, NDArray[np.floating]],
    gradient: Mapping[str, NDArray[np.floating]],
    rows: int,
    seed: int = 0,
) -> NDArray[np.int64]:
    """(rows,) labels in ascending order, with the recovered counts. Raises ValueError unless the model classifies."""
    if spec.task == "regression" or spec.outputs < 2:
        raise ValueError(f"labels are recovered for classifiers only, not {spec.task} with {spec.outputs} output(s)")
    bias = np.asarray(gradient[f"{len(spec.hidden)}.bias"], np.float64)
    if rows == 1:
        return np.array([int(bias.argmin())])
    drawn = plausible_rows(layout, DRAWS, np.random.default_rng(seed))
    with torch.inference_mode():
        outputs = forward(spec, as_tensors(weights, dtype=torch.float64), torch.from_numpy(drawn))
        expected = torch.softmax(outputs, -1).mean(0).numpy()
    labels: NDArray[np.int64] = np.repeat(np.arange(spec.outputs), whole_counts(rows * (expected - bias), rows))
    return labels


def whole_counts(estimates: NDArray[np.float64], rows: int) -> NDArray[np.int64]:
    """Non-negative whole numbers that sum to `rows`, nearest to the estimates (largest remainders)."""
    shares = np.maximum(estimates, 0)
    shares = shares * rows / shares.sum() if shares.sum() > 0 else np.full(len(shares), rows / len(shares))
    counts: NDArray[np.int64] = np.floor(shares).astype(np.int64)
    largest = np.argsort(counts - shares, kind="stable")[: rows - counts.sum()]
    counts[largest] += 1
    return counts


def plausible_rows(layout: FeatureLayout, number: int, coins: np.random.Generator) -> NDArray[np.float64]:
    """(number, width) encoded rows whose cells are drawn independently from what the layout makes public."""
    rows = np.zeros((number, layout.width))
    for block in layout.categorical:
        picks = coins.choice(block.size, number, p=public_frequencies(block))
        rows[:, block.start : block.start + block.width] += block.codebook()[picks]
    for column in layout.numeric:
        values = coins.normal(size=number)
        if column.scaled and column.low is not None and column.high is not None:
            low, high = ((v - (column.shift or 0)) / (column.scale or 1) for v in (column.low, column.high))
            values = np.clip(values, low, high) if low < 0 else low + (high - low) * coins.random(number)
        rows[:, column.start] = values
    return rows


def public_frequencies(block: CategoricalBlock) -> NDArray[np.float64] | None:
    """The frequency of each candidate, which the public mean of its one-hot column is; None where there is none."""
    if block.codes is not None or block.shift is None:
        return None
    shares = np.clip(np.asarray(block.shift, np.float64), 0, None)
    frequencies: NDArray[np.float64] = shares / shares.sum()
    return frequencies if np.isfinite(frequencies).all() else None
