"""What remains of a batch without rows that are proven: a smaller batch, its gradient and its labels.

A proven row's share of the gradient is known up to its label, and one label fits (`exact.deflation`). The share is
subtracted in every layer, and the remainder scaled to the mean over the rows that are left.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.deflation import fit, norm, without
from leakledger.attacks.gradient.exact.network import error_of_labels, forward
from leakledger.attacks.gradient.spear.batch import unsolved
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.row_space import RANK_TOLERANCE
from leakledger.attacks.observed.update import ObservedUpdate


def remainder(update: ObservedUpdate, known: Array) -> ObservedUpdate | None:
    """`update` without the encoded rows `known` (k, d); None where their shares cannot be told from the others'.

    Where the labels of the batch are known those of the remainder are what the known rows leave.
    """
    if not len(known):
        return update
    if update.model.norm != "none":  # shares are those of a network without norms
        return None
    batch, left = unsolved(update, RANK_TOLERANCE), update.rows - len(known)
    if isinstance(batch, str) or not left:
        return None
    fits = fit(update.weights, batch.space, known, update.rows, update.model.activation)
    labels = labels_left(update.labels, labels_of(update, known, fits.error))
    if labels is None or not fits.single.all():
        return None
    gradient = without(update.weights, update.gradient, known, fits.error, update.model.activation)
    scaled = {name: g * update.rows / left for name, g in gradient.items()}
    return replace(update, rows=left, labels=labels, gradient=scaled)


def labels_of(update: ObservedUpdate, rows: Array, error: Array) -> NDArray[np.int64]:
    """The label (n,) with which each row has its output error (n, C - 1)."""
    passed = forward(update.weights, rows, update.model.activation)
    possible = error_of_labels(passed.probabilities, update.rows)  # (n, C, C - 1)
    labels: NDArray[np.int64] = norm(possible - error[:, None]).argmin(1)
    return labels


def labels_left(labels: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """`labels` without those `taken`, or None where they are not among them; no labels stay no labels."""
    if not len(labels):
        return labels
    classes = int(max(labels.max(), taken.max())) + 1
    counts = np.bincount(labels, minlength=classes) - np.bincount(taken, minlength=classes)
    return None if counts.min() < 0 else np.repeat(np.arange(classes), counts)
