"""Recovers how many rows of a batch have each label, from the gradient of the last layer's bias.

With mean cross-entropy, dL/db_c = mean(p_c) - n_c / B, so n_c = B (mean(p_c) - dL/db_c), where p_c is the probability
that the model gives class c. The gradient and B are observed; mean(p_c) over the batch is not, and is estimated over
rows drawn from what the layout makes public (`observed.labels.plausible`). At a fresh network p_c hardly depends on the
row, so the counts are nearly always exact; at a trained one they are an estimate. For B = 1 the class is the one whose
entry is negative, and that is exact for any network (iDLG, Zhao et al. 2020).
"""

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.attacks.observed.labels.counts import Named, labels_by_count
from leakledger.attacks.observed.labels.plausible import plausible_rows
from leakledger.preprocess.models import as_tensors, forward
from leakledger.preprocess.views import FeatureLayout, ModelSpec

DRAWS = 2_000  # rows over which mean(p_c) is estimated: fewer make counts of large batches uncertain, more cost time


def recover_labels(
    spec: ModelSpec,
    layout: FeatureLayout,
    weights: Named,
    gradient: Named,
    rows: int,
    seed: int = 0,
) -> NDArray[np.int64]:
    """(rows,) labels in ascending order, with the recovered counts. Raises ValueError unless the model classifies."""

    def count() -> NDArray[np.int64]:
        return whole_counts(counts_from_bias(spec, layout, weights, gradient, rows, seed), rows)

    return labels_by_count(spec, gradient, rows, count)


def counts_from_bias(
    spec: ModelSpec,
    layout: FeatureLayout,
    weights: Named,
    gradient: Named,
    rows: int,
    seed: int = 0,
) -> NDArray[np.float64]:
    """(classes,) estimated counts, not yet whole: rows * (mean(p) - dL/db)."""
    bias = np.asarray(gradient[f"{len(spec.hidden)}.bias"], np.float64)
    drawn = plausible_rows(layout, DRAWS, np.random.default_rng(seed))
    with torch.inference_mode():
        outputs = forward(spec, as_tensors(weights, dtype=torch.float64), torch.from_numpy(drawn))
        expected = torch.softmax(outputs, -1).mean(0).numpy()
    counts: NDArray[np.float64] = rows * (expected - bias)
    return counts


def whole_counts(estimates: NDArray[np.float64], rows: int) -> NDArray[np.int64]:
    """Non-negative whole numbers that sum to `rows`, nearest to the estimates (largest remainders)."""
    shares = np.maximum(estimates, 0)
    shares = shares * rows / shares.sum() if shares.sum() > 0 else np.full(len(shares), rows / len(shares))
    counts: NDArray[np.int64] = np.floor(shares).astype(np.int64)
    largest = np.argsort(counts - shares, kind="stable")[: rows - counts.sum()]
    counts[largest] += 1
    return counts
