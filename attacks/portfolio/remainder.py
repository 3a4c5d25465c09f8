"""What remains of a batch without rows that are proven: a smaller batch, its gradient and its labels.

A proven row's share of the gradient is known up to its label, and one label fits (`attacks.spear.rest`). The share is
subtracted in every layer, and the remainder scaled to the mean over the rows that are left.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attacks.span.row_space import Array
from attacks.spear.attack import posed
from attacks.spear.network import error_of_labels, forward
from attacks.spear.rest import fit, norm, without
from attacks.tableak.targets import Target
from preprocess.views import FeatureLayout


def remainder(layout: FeatureLayout, target: Target, known: Array, tolerance: float = 64.0) -> Target | None:
    """`target` without the encoded rows `known` (k, d); None where their shares cannot be told from the others'.

    Where the labels of the batch are known those of the remainder are what the known rows leave.
    """
    if not len(known):
        return target
    problem = posed(layout, target, tolerance)
    left = target.rows - len(known)
    if isinstance(problem, str) or not left:
        return None
    found = fit(target.weights, problem.space, known, target.rows)
    labels = labels_left(target.labels, labels_of(target, known, found.error))
    if labels is None or not found.single.all():
        return None
    gradient = without(target.weights, target.gradient, known, found.error)
    scaled = {name: g * target.rows / left for name, g in gradient.items()}
    return replace(target, rows=left, labels=labels, gradient=scaled)


def labels_of(target: Target, rows: Array, error: Array) -> NDArray[np.int64]:
    """The label (n,) with which each row has its output error (n, C - 1)."""
    possible = error_of_labels(forward(target.weights, rows).probabilities, target.rows)  # (n, C, C - 1)
    labels: NDArray[np.int64] = norm(possible - error[:, None]).argmin(1)
    return labels


def labels_left(labels: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """`labels` without those `taken`, or None where they are not among them; no labels stay no labels."""
    if not len(labels):
        return labels
    classes = int(max(labels.max(), taken.max())) + 1
    counts = np.bincount(labels, minlength=classes) - np.bincount(taken, minlength=classes)
    return None if counts.min() < 0 else np.repeat(np.arange(classes), counts)
