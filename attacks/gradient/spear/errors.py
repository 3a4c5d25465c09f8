"""How far rounding leaves the numbers of recovered rows: standard errors, with the categories and patterns as found.

A whole batch explains the first layer's gradient as D^T [X | 1], where D = e B has C - 1 unknown output errors e per
row. The normal equations of numbers and errors together are inverted by blocks, of which D D^T x 1 is that of the
numbers. A row of a part has its point in the row space of the last hidden layer, a point that moves with its numbers by
the network's own slope.
"""

import numpy as np

from leakledger.attacks.gradient.exact.network import depth, forward, signals
from leakledger.attacks.gradient.spear.batch import UnsolvedBatch
from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.row_space import rounding_errors

SINGULAR = 1e-12  # relative; equations with eigenvalues below are not solved: smaller is rounding, larger loses rows


def whole_errors(batch: UnsolvedBatch, encoded: Array, columns: Array) -> Array:
    """Standard errors (n, L) of the numbers of a whole batch (n, d), in encoded units; `columns` (n, out) is D."""
    numeric = [b.start for b in batch.layout.numeric]
    passed, gradient = forward(batch.weights, encoded), affine(batch.gradient, 0)
    points = passed.points[0]
    basis = signals(batch.weights, passed)[0]  # (n, C - 1, out)
    flat, owner = basis.reshape(-1, basis.shape[2]), np.repeat(np.arange(len(points)), basis.shape[1])
    inverse = inverted(columns @ columns.T)
    if inverse is None:
        return np.full((len(encoded), len(numeric)), np.inf)
    pull = inverse @ columns @ flat.T  # (n, n(C - 1))
    own = points[owner]
    shown = (flat @ columns.T @ pull) * (own[:, numeric] @ own[:, numeric].T)
    errors = inverted((flat @ flat.T) * (own @ own.T) - shown)
    if errors is None:
        return np.full((len(encoded), len(numeric)), np.inf)
    turned = pull[:, None] * own[:, numeric].T  # (n, L, n(C - 1))
    variance = np.diag(inverse)[:, None] + ((turned @ errors) * turned).sum(2)
    left = float(np.sqrt(((gradient - columns.T @ points) ** 2).mean()))
    rounding = float(np.sqrt((rounding_errors(gradient, batch.roundoff) ** 2).mean()))
    return np.asarray(max(left, rounding) * np.sqrt(variance.clip(0)))


def settled(batch: UnsolvedBatch, encoded: Array) -> tuple[Array, Array]:
    """Rows (n, d) of a part with the numbers that bring their points nearest to the row space, and the standard errors
    (n, L) of these, in encoded units.
    """
    numeric = [b.start for b in batch.layout.numeric]
    passed, space = forward(batch.weights, encoded), batch.space
    values = np.linalg.norm(space.right, axis=1)
    right = space.right / values[:, None]
    rows, errors = encoded.copy(), np.zeros((len(encoded), len(numeric)))
    left = space.gradient - space.left @ space.right
    entry = float(np.sqrt(max((rounding_errors(space.gradient, batch.roundoff) ** 2).mean(), (left**2).mean())))
    for i, point in enumerate(passed.points[-2]):
        slope = np.eye(encoded.shape[1])[:, numeric]
        for layer in range(depth(batch.weights) - 1):
            slope = passed.active[layer][i][:, None] * (batch.weights[f"{layer}.weight"] @ slope)
        slope = np.concatenate([slope, np.zeros((1, len(numeric)))])
        slope -= right.T @ (right @ slope)
        inverse = inverted(slope.T @ slope)
        if inverse is None:
            errors[i] = np.inf
            continue
        rows[i, numeric] -= inverse @ (slope.T @ point)
        errors[i] = entry * np.linalg.norm(right @ point / values) * np.sqrt(np.diag(inverse).clip(0))
    return rows, errors


def inverted(normal: Array) -> Array | None:
    """The inverse of normal equations (m, m), None where some direction is not determined."""
    scale = np.sqrt(np.diag(normal).clip(0))
    if not (scale > 0).all():
        return None
    values, vectors = np.linalg.eigh(normal / np.outer(scale, scale))
    if values.min(initial=1.0) <= SINGULAR:
        return None
    return np.asarray(vectors / values @ vectors.T / np.outer(scale, scale))
