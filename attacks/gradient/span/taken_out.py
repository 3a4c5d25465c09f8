"""What is left of a batch behind an activation norm without the rows that are known already: a smaller batch.

Candidates of a small row space are few, and those of a large one are searched in vain for the last rows of a batch. So
rows that are found leave it. Of a row p = [x | 1] the column d of D is known for each label, and with G = D^T P of
independent rows P G^+ D^T is the identity (Wedderburn's rank reduction, as in `exact.deflation`): p G^+ d is 1 for the
label that the row has and for nothing else, and 0 for the d of any other row. A row that fits no label, or is there
twice, stays, and of two attempts at one row one leaves. What is left is searched like any batch. Nothing is proven by
this: all rows together are, by the gradient of all layers (`recomputed`), or none.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.exact.network import error_basis, error_of_labels
from leakledger.attacks.gradient.exact.polish import with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.gradient.span.recomputed import first_columns
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import as_tensors, forward, gradient

# How far p G^+ d may be from 1, or 0. Too small: the rounding of a row's numbers keeps it in; too large: a row that is
# none leaves with the label that is nearest.
ONE = 1e-2


def taken_out(update: ObservedUpdate, space: RowSpace, rows: EncodedRows) -> tuple[EncodedRows, ObservedUpdate | None]:
    """Those of the rows that are surely in the batch once, with the update of all others: None where none is left, or
    no row is sure.
    """
    weights = as_tensors(update.weights, dtype=torch.float64)
    rows = EncodedRows(rows.categories, with_integers(update.layout.numeric, rows.encoded))
    points, columns = coordinates(update, weights, space, rows.encoded)
    own = np.einsum("nr,ncr->nc", points, columns)
    labels = np.abs(own - 1).argmin(1)
    single = _apart(points, columns[np.arange(len(rows)), labels], np.abs(own - 1).min(1))
    left = update.rows - int(single.sum())
    if not single.any() or left < 1:
        return rows.where(single), None
    known = rows.where(single)
    own_labels = torch.from_numpy(labels[single])
    share = gradient(update.model, weights, torch.from_numpy(known.encoded), own_labels)
    rest = {n: (g * update.rows - share[n].numpy() * len(known)) / left for n, g in update.gradient.items()}
    # Errors of what was sent and of the rows taken out stay, while what is left may be far less: to that they are
    # noise. It shows outside the dimensions that so many rows have, and is taken for as much in each entry as it is in
    # the worst direction altogether: coordinates of outlying rows are off by many times more than those of others.
    noise = float(np.linalg.svd(affine(rest, 0), compute_uv=False)[left])
    nobody = update.labels[:0]  # which labels are left is not asked here
    return known, replace(update, rows=left, gradient=rest, labels=nobody, noise=noise)


def _apart(points: Array, columns: Array, off: Array) -> NDArray[np.bool_]:
    """(n,) which rows leave the batch, the least `off` (n,) first: `points` and `columns` (n, r) of these are dual."""
    leaving = np.zeros(len(off), bool)
    for i in np.flatnonzero(off < ONE)[off[off < ONE].argsort(kind="stable")].tolist():
        across = np.concatenate([columns[leaving] @ points[i], points[leaving] @ columns[i]])
        leaving[i] = np.abs(across).max(initial=0) < ONE
    return leaving


def coordinates(
    update: ObservedUpdate, weights: Mapping[str, Tensor], space: RowSpace, encoded: Array
) -> tuple[Array, Array]:
    """Rows (n, d) in terms of a batch: p_i (n, r), and G^+ d_j with each label (n, C, r). Products of both are those of
    rows that are in the batch once the identity, where labels are theirs.
    """
    columns = first_columns(update, weights, encoded, error_basis(update.model.outputs))  # (n, C - 1, H)
    with torch.no_grad():
        outputs = forward(update.model, weights, torch.from_numpy(encoded))
    errors = error_of_labels(torch.softmax(outputs, -1).numpy(), update.rows)  # (n, C, C - 1)
    along = with_ones(encoded) @ space.right.T  # (n, r)
    across = np.einsum("ncb,nbh->nch", errors, columns) @ np.linalg.pinv(space.left).T
    return along, across
