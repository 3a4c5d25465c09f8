"""Rows behind a first layer that an activation norm follows: told apart, and proven, by computing the gradient again.

A norm that goes row by row (layer, group, instance norm) leaves the first layer what it is: its gradient is still
D^T [X | 1], and the rows lie in its row space. But every unit of a row hears of all others, so D has no zeros where
ReLU silences a unit, and no row is alone on any (`kernels` has nothing to work with). What is left is enough:

1. given a candidate row, its column of D is known up to the error of its outputs, C - 1 numbers in the basis of
   `exact.network`. It must lie in the column space of the gradient, r of H dimensions. False candidates do not;
2. the label of each row is read off the gradient of the last layer, given the inputs of that layer;
3. with rows and labels the numbers are X = lstsq(D^T, gradient), and D follows from X: repeated, both converge;
4. the gradient of all layers, computed again in float64, is the observed one or it is not: all rows are
   proven, or none. Of a gradient with noise beyond its rounding (a sum over clients) none is.

Batch norm mixes the rows of a batch: no column of D belongs to one row, and the first layer's gradient is that of rows
less their mean, whose bias has the gradient zero. Nothing of this applies there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.exact.certificate import granted
from leakledger.attacks.gradient.exact.network import error_basis
from leakledger.attacks.gradient.exact.polish import with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import as_tensors, gradient, layers

# How far, relative to its length, the column of a row may lie outside the column space of the gradient. Too small: the
# rounding of a row's numbers rules it out; too large: false candidates pass, and no batch of them is right.
OUTSIDE = 1e-2
MOST = 2**14  # candidates whose columns are computed; more, and the categories say too little
FITS = 4  # of numbers and columns to each other; two reach the precision of the gradient


@dataclass(frozen=True, eq=False)
class Recomputed:
    """As many rows as the batch has, the relative `residual` of the gradient computed from them, and standard errors
    (n, L) of their numbers.
    """

    rows: EncodedRows
    residual: float
    error: Array = field(repr=False)


def unfit(update: ObservedUpdate) -> str:
    """Why an update behind a norm cannot be read this way; "" where it can."""
    if update.model.norm == "batch":
        return "batch norm takes the mean over rows off the first layer's gradient: no row lies in its row space"
    if update.schedule is not None:
        return f"local steps move the scales of {update.model.norm} norm, and no column of a sum of them is known"
    return ""


def recomputed(update: ObservedUpdate, space: RowSpace, candidates: EncodedRows, limit: float) -> Recomputed | str:
    """The batch among candidate rows, or why there is none: rows that leave a residual above `limit`, or above what
    noise leaves, are refused.
    """
    if len(candidates) > MOST:
        return f"{len(candidates)} candidate rows are more than the {MOST} that are tried behind a norm"
    weights = as_tensors(update.weights, dtype=torch.float64)
    inside = outside(update, weights, space, candidates.encoded) < OUTSIDE
    rows = candidates.where(inside)
    if len(rows) != update.rows:
        return f"{len(rows)} of {len(candidates)} candidate rows fit the gradient behind the norm, not {update.rows}"
    labels = labels_of(update, weights, rows.encoded)
    rows, error = fitted(update, weights, space, rows, labels)
    again = gradient(update.model, weights, torch.from_numpy(rows.encoded), torch.from_numpy(labels))
    own, seen = (np.concatenate([np.ravel(g[n]) for n in update.gradient]) for g in (again, update.gradient))
    residual = float(np.linalg.norm(own - seen) / np.linalg.norm(seen))
    if residual > granted(seen, update.noise, limit):
        return f"the gradient computed again is off by {residual:.1e} of it"
    return Recomputed(rows, residual, error)


def outside(update: ObservedUpdate, weights: Mapping[str, Tensor], space: RowSpace, encoded: Array) -> Array:
    """(n,) how far, at best, the column of each row lies outside the column space of the gradient, as a share."""
    columns = first_columns(update, weights, encoded, error_basis(update.model.outputs))  # (n, C - 1, H)
    basis = np.linalg.qr(columns.transpose(0, 2, 1))[0]
    left = np.linalg.qr(space.left)[0]
    beyond = basis - left @ (left.T @ basis)
    return np.asarray(np.linalg.svd(beyond, compute_uv=False)[:, -1])


def first_columns(update: ObservedUpdate, weights: Mapping[str, Tensor], encoded: Array, errors: Array) -> Array:
    """(n, k, H) the gradients of the first layer's sums of rows (n, d) whose outputs have each of `errors` (k, C)."""
    rows = torch.from_numpy(encoded).requires_grad_()
    passed = layers(update.model, weights, rows)
    sums, outputs = passed[0][1], passed[-1][1]
    told = [torch.from_numpy(e).expand_as(outputs) for e in errors]
    found = [torch.autograd.grad(outputs, sums, e, retain_graph=True)[0] for e in told]
    return np.asarray(torch.stack(found, 1).numpy())


def labels_of(update: ObservedUpdate, weights: Mapping[str, Tensor], encoded: Array) -> NDArray[np.int64]:
    """(n,) the label of each row: its own output is the one with a negative error."""
    last = len(update.model.hidden)
    with torch.no_grad():
        inputs = with_ones(layers(update.model, weights, torch.from_numpy(encoded))[last][0].numpy())
    errors = np.linalg.lstsq(inputs.T, affine(update.gradient, last).T, rcond=None)[0]  # (n, C)
    found: NDArray[np.int64] = errors.argmin(1)
    return found


def fitted(
    update: ObservedUpdate,
    weights: Mapping[str, Tensor],
    space: RowSpace,
    rows: EncodedRows,
    labels: NDArray[np.int64],
) -> tuple[EncodedRows, Array]:
    """The rows with the numbers that fit the first layer best, and standard errors (n, L) of these."""
    layout, encoded = update.layout, rows.encoded.copy()
    columns = [b.start for b in layout.numeric]
    own = columns_of_batch(update, weights, encoded, labels)  # (n, H)
    for _ in range(FITS if columns else 0):
        encoded[:, columns] = np.linalg.lstsq(own.T, space.gradient[:, columns], rcond=None)[0]
        own = columns_of_batch(update, weights, encoded, labels)
    entry = float(np.sqrt((space.entry_errors**2).mean()))
    error = entry * np.sqrt(np.diag(np.linalg.pinv(own @ own.T)))
    whole = with_integers(layout.numeric, encoded)
    return EncodedRows(rows.categories, whole), np.repeat(error[:, None], len(columns), 1)


def columns_of_batch(
    update: ObservedUpdate, weights: Mapping[str, Tensor], encoded: Array, labels: NDArray[np.int64]
) -> Array:
    """(n, H) D: the gradients of the first layer's sums in the mean loss of rows (n, d) with these labels."""
    rows = torch.from_numpy(encoded)
    passed = layers(update.model, weights, rows.requires_grad_())
    loss = torch.nn.functional.cross_entropy(passed[-1][1], torch.from_numpy(labels))
    return np.asarray(torch.autograd.grad(loss, passed[0][1])[0].numpy())


def distinct(rows: EncodedRows, valid: Mask) -> EncodedRows:
    """The valid rows, those of equal categories and nearly equal numbers once."""
    rows = rows.where(valid)
    _, first = np.unique(rows.encoded.round(4), axis=0, return_index=True)
    return rows.where(np.sort(first))
