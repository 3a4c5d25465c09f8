"""What techniques that count labels share: a classifier, a batch of one row, and labels from counts."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import ModelSpec

Named = Mapping[str, NDArray[np.floating]]


def labels_by_count(
    spec: ModelSpec, gradient: Named, rows: int, count: Callable[[], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """(rows,) labels in ascending order: read off for one row, else with the counts (classes,) of `count`.

    Raises ValueError unless the model classifies.
    """
    if spec.task == "regression" or spec.outputs < 2:
        raise ValueError(f"labels are recovered for classifiers only, not {spec.task} with {spec.outputs} output(s)")
    if rows == 1:
        return label_of_one_row(spec, gradient)
    labels: NDArray[np.int64] = np.repeat(np.arange(spec.outputs), count())
    return labels


def label_of_one_row(spec: ModelSpec, gradient: Named) -> NDArray[np.int64]:
    """(1,) the label of a batch of one row: the gradient of its logits is p - 1 for the label, p for the rest."""
    return np.array([int(np.asarray(gradient[f"{len(spec.hidden)}.bias"], np.float64).argmin())])
