"""Recovers how many rows of a batch have each label, from the gradient of the last layer's weights (Geng et al. 2021).

Summed over the inputs of the last layer, dL/dW_c = mean((p_c - [y = c]) O), where O is the sum of a row's last hidden
activations. Taking O for independent of the label, n_c = B (mean(p_c) - dW_c / mean(O)). Both means are estimated on
dummy rows: Geng et al. take random ones, the TabLeak paper's implementation 1,000 rows of standard normal columns, and
so does this. Counts become whole by handing out the rows one by one, each to the class with the most left.

It serves networks without biases too; where there is one, `observed.labels.bias` needs no estimate of O and is exact
far more often. For B = 1 the label is read from the bias, exactly.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.attacks.observed.labels.counts import Named, labels_by_count
from leakledger.preprocess.models import as_tensors, layers
from leakledger.preprocess.views import FeatureLayout, ModelSpec

DUMMIES = 1_000  # rows over which means are estimated, as many as in the published implementation


def recover_labels_from_weights(
    spec: ModelSpec,
    layout: FeatureLayout,
    weights: Named,
    gradient: Named,
    rows: int,
    seed: int = 0,
) -> NDArray[np.int64]:
    """(rows,) labels in ascending order, with the recovered counts. Raises ValueError unless the model classifies."""

    def count() -> NDArray[np.int64]:
        dummies = np.random.default_rng(seed).normal(size=(DUMMIES, layout.width))
        return handed_out(counts_from_weights(spec, weights, gradient, rows, dummies), rows)

    return labels_by_count(spec, gradient, rows, count)


def counts_from_weights(
    spec: ModelSpec,
    weights: Named,
    gradient: Named,
    rows: int,
    dummies: NDArray[np.float64],
) -> NDArray[np.float64]:
    """(classes,) estimated counts, not yet whole, with means over `dummies` (n, width)."""
    last, own = len(spec.hidden), as_tensors(weights, dtype=torch.float64)
    with torch.inference_mode():
        hidden, logits = layers(spec, own, torch.from_numpy(dummies))[-1]
        expected = torch.softmax(logits, -1).mean(0).numpy()
        total = float(hidden.sum(-1).mean())
    summed = np.asarray(gradient[f"{last}.weight"], np.float64).sum(1)
    if total == 0:  # every dummy is inactive: the weights' gradient says nothing
        return np.asarray(rows * expected, np.float64)
    counts: NDArray[np.float64] = rows * (expected - summed / total)
    return counts


def handed_out(estimates: NDArray[np.float64], rows: int) -> NDArray[np.int64]:
    """Whole numbers that sum to `rows`: each row in turn goes to the class that has the most left."""
    left, counts = estimates.copy(), np.zeros(len(estimates), np.int64)
    for _ in range(rows):
        most = int(left.argmax())
        counts[most] += 1
        left[most] -= 1
    return counts
