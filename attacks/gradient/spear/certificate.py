"""The check of the rows found on the gradient of every layer, after a polish that fits their numbers to it.

The rows of a whole batch leave only their output errors open: C - 1 numbers per row, against thousands of equations.
They are proven where the gradient follows from them and each is alone in its activation patterns. A row of an
incomplete batch is proven where its point and its column of D both lie in the spaces of the layer, and the error that
goes with them is that of one row with some label: rows that all neurons see alike would add up to another.
"""

import numpy as np

from leakledger.attacks.gradient.exact.certificate import resolved
from leakledger.attacks.gradient.exact.deflation import fit, norm
from leakledger.attacks.gradient.exact.network import depth, forward, signals
from leakledger.attacks.gradient.exact.polish import STALLED, WHOLE_COSTS, with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask
from leakledger.attacks.gradient.spear.batch import UnsolvedBatch
from leakledger.attacks.gradient.spear.errors import settled, whole_errors
from leakledger.attacks.gradient.spear.search import FINE, RecoveredRows
from leakledger.attacks.observed.affine import Array, affine

ROUNDS = 10  # of alternating least squares: fewer leave a residual that refutes true rows, more cost time
TINY = 1e-300  # keeps a quotient by a gradient of zero finite


def certified(batch: UnsolvedBatch, recovered: RecoveredRows, limit: float) -> tuple[EncodedRows, Array, Mask, Mask]:
    """The rows, polished, the relative residual behind each (n,), whether it proves the row (up to `limit`), and
    whether its numbers are exact.
    """
    rows, layout = recovered.rows, batch.layout
    if len(rows) == batch.rows:
        encoded, residual = polished(batch, rows.encoded)
        exact = resolved(layout, encoded, whole_errors(batch, encoded, explained(batch, encoded)[1]))
        return EncodedRows(rows.categories, encoded), residual, alone(batch, encoded) & (residual <= limit), exact
    found, error = settled(batch, rows.encoded)
    encoded = with_integers(layout.numeric, found)
    before, after = (fit(batch.weights, batch.space, e, batch.rows) for e in (found, encoded))
    better = after.residual <= WHOLE_COSTS * before.residual
    encoded = np.where(better[:, None], encoded, found)
    fits = fit(batch.weights, batch.space, encoded, batch.rows)
    proven = fits.single & (fits.off < FINE) & (fits.residual <= limit)
    return EncodedRows(rows.categories, encoded), fits.residual, proven, resolved(layout, encoded, error)


def polished(batch: UnsolvedBatch, encoded: Array) -> tuple[Array, Array]:
    """A whole batch (n, d) with its numeric columns fitted to the first layer's gradient; what is left (n,) of each."""
    columns = [b.start for b in batch.layout.numeric]
    best, least = encoded, np.full(len(encoded), np.inf)
    for _ in range(ROUNDS):
        residual, first = explained(batch, encoded)
        if residual.max(initial=0) >= STALLED * least.max(initial=0):
            break
        best, least = encoded, residual
        encoded = encoded.copy()
        encoded[:, columns] = np.linalg.lstsq(first.T, batch.gradient["0.weight"][:, columns], rcond=None)[0]
    whole = with_integers(batch.layout.numeric, best)
    residual, _ = explained(batch, whole)
    return (whole, residual) if residual.max(initial=0) < WHOLE_COSTS * least.max(initial=0) else (best, least)


def explained(batch: UnsolvedBatch, encoded: Array) -> tuple[Array, Array]:
    """What the rows leave of the gradient in the worst layer, relative to the share of each (n,), and D of layer 0.

    The output errors are those that explain all layers best.
    """
    passed = forward(batch.weights, encoded)
    basis = signals(batch.weights, passed)
    seen = [affine(batch.gradient, layer) for layer in range(depth(batch.weights) + 1)]
    weight = [1 / max(float(np.linalg.norm(g)), TINY) for g in seen]
    design = np.concatenate(
        [
            w * np.einsum("nko,ni->nkoi", s, p).reshape(s.shape[0] * s.shape[1], -1)
            for w, s, p in zip(weight, basis, passed.points, strict=True)
        ],
        axis=1,
    )
    goal = np.concatenate([w * g.ravel() for w, g in zip(weight, seen, strict=True)])
    error = np.linalg.lstsq(design.T, goal, rcond=None)[0].reshape(len(encoded), -1)
    columns = [np.einsum("nk,nkw->nw", error, s) for s in basis]
    worst = np.zeros(len(encoded))
    for d, p, g in zip(columns, passed.points, seen, strict=True):
        share = norm(d) * norm(p)
        worst = np.maximum(worst, np.linalg.norm(g - d.T @ p) / share.clip(TINY))
    return worst, columns[0]


def alone(batch: UnsolvedBatch, encoded: Array) -> Mask:
    """Whether no other row (n, d) has the same activation patterns in every layer."""
    patterns = np.concatenate(forward(batch.weights, encoded).active, axis=1)
    return np.asarray((patterns[:, None] == patterns).all(2).sum(1) == 1)
