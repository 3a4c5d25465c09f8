"""What remains of a batch without rows that are proven: a smaller batch, its gradient and its labels.

A proven row's share of the gradient is known up to its label, and one label fits (`exact.deflation`). The share is
subtracted in every layer, and the remainder scaled to the mean over the rows that are left.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.deflation import LayerFit, fit, norm, without
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
    fits = fit_of(update, known)
    return less(update, known, fits.error) if fits is not None and fits.single.all() else None


def fit_of(update: ObservedUpdate, rows: Array) -> LayerFit | None:
    """How encoded rows (n, d) fit the batch, each on its own; None where nothing can be told."""
    if update.model.norm != "none":  # shares are those of a network without norms
        return None
    batch = unsolved(update, RANK_TOLERANCE)
    if isinstance(batch, str):
        return None
    return fit(update.weights, batch.space, rows, update.rows, update.model.activation)


def less(update: ObservedUpdate, known: Array, error: Array) -> ObservedUpdate | None:
    """`update` without the rows `known` (k, d), of output errors (k, C - 1); None where no row is left, or the batch
    has not the labels of these.
    """
    left = update.rows - len(known)
    labels = labels_left(update.labels, labels_of(update, known, error))
    if not left or labels is None:
        return None
    gradient = without(update.weights, update.gradient, known, error, update.model.activation)
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
