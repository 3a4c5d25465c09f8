"""The numbers of single rows, with the standard errors that rounding and noise leave them.

A row whose categories are known is a point [x | 1] of the row space that the kernels of all other rows annihilate.
Both are linear in its numbers. The space is known up to the errors of the gradient: at coordinates c, with G = left @
right, a point of it is off by E^T w, w = left (left^T left)^-1 c; and a kernel q of the neurons A sees c off by
c left[A]^+ (E right^T q)[A]. The numbers are the weighted least squares of both, their covariance is the inverse of the
normal equations: infinite along what neither determines. A row that is farther from the space than its errors allow is
no row of it, and determines nothing.
"""

import numpy as np

from leakledger.attacks.gradient.exact.neurons import LIVE, Mask
from leakledger.attacks.gradient.exact.polish import Fit
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import TINY, RowSpace
from leakledger.preprocess.views import FeatureLayout

# Relative to its size, what a neuron shows of a kernel that it is silent for. Too small: rounding is a signal, and the
# kernel looks less sure than it is; too large: faint signals are left out of its error.
SILENT = 2e-5
# Standard errors, root mean square, by which a row may miss the row space. Too small: a misjudged rounding refutes true
# rows; too large: mixtures of rows pass.
MISSED = 5.0
# Of the length of a point, what its own arithmetic in float64 leaves. Too small: rows behind gradients in float64 are
# refuted; too large: it hides the rounding of the gradient.
ARITHMETIC = 1e-14
FLOOR = 1e-6  # of the largest error of a column: smaller divides columns of zeros by nothing, larger hides faint ones


def determined(
    space: RowSpace, layout: FeatureLayout, encoded: Array, kernels: Array, others: Mask
) -> tuple[Array, Array]:
    """The rows (n, d) with the numbers that the space and the `kernels` (k, r) determine, as far as they do, and their
    standard errors (n, L) in encoded units. `others` (n, k): which kernels are of other rows than each.
    """
    columns = [b.start for b in layout.numeric]
    rows, errors = encoded.copy(), np.zeros((len(encoded), len(columns)))
    seen = [kernel_error(space, q) for q in kernels]
    for i, point in enumerate(with_ones(encoded)):
        annihilated = [(q, error) for q, error, other in zip(kernels, seen, others[i], strict=True) if other]
        step, errors[i] = _numbers(space, columns, point, annihilated)
        rows[i, columns] += step
    return rows, errors


def kernel_error(space: RowSpace, kernel: Array) -> Array:
    """(r, A): what the errors E right^T q of the neurons that a unit `kernel` q is silent for make of its direction;
    the norm of c @ this is the standard error of q . c.
    """
    size = np.linalg.norm(space.left, axis=1)
    live = size > LIVE * size.max(initial=0)
    silent = live & (np.abs(space.left @ kernel) < SILENT * size)
    left, size = space.left[silent], size[silent, None]
    error = np.sqrt((space.entry_errors[silent] * (space.right.T @ kernel)) ** 2 @ np.ones(space.right.shape[1]))
    u, values, vectors = np.linalg.svd(left / size, full_matrices=False)
    kept = slice(space.rank - 1)  # the last is the kernel itself
    inverse = vectors[kept].T / np.maximum(values[kept], TINY) @ u[:, kept].T
    return np.asarray(inverse * (error / size[:, 0]))


def _numbers(
    space: RowSpace, columns: list[int], point: Array, annihilated: list[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """The step (L,) of the numbers in `columns` of a `point` (d+1,), and their standard errors (L,)."""
    at = space.right @ point
    weights = space.left @ (at / (space.left**2).sum(0))  # (H,): of the neurons' errors in that of the point
    error = np.hypot(np.sqrt(weights**2 @ space.entry_errors**2), ARITHMETIC * np.linalg.norm(point))  # (d+1,)
    error = error.clip(max(FLOOR * float(error.max()), TINY))
    basis = np.linalg.qr((space.right / error).T)[0]  # (d+1, r)
    moves = np.zeros((len(point), len(columns)))
    moves[columns, range(len(columns))] = 1 / error[columns]
    moves -= basis @ (basis.T @ moves)
    missed = point / error
    missed -= basis @ (basis.T @ missed)
    slopes = [moves, *(in_errors(space.right[:, columns].T @ q, at, e)[None] for q, e in annihilated)]
    values = [missed, *(np.atleast_1d(in_errors(q @ at, at, e)) for q, e in annihilated)]
    design, goal = np.concatenate(slopes), -np.concatenate(values)
    step, variance = Fit(float(goal @ goal), design.T @ design, design.T @ goal).solved(0.0)
    freedom = max(1, len(goal) - space.rank - len(columns))
    left = goal - design @ step
    if left @ left > MISSED**2 * freedom:
        return np.zeros(len(columns)), np.full(len(columns), np.inf)
    return step, np.sqrt(variance)


def in_errors(value: Array, at: Array, error: Array) -> Array:
    """A kernel's `value` at coordinates `at` (r,), in units of its standard error there."""
    size = np.hypot(np.linalg.norm(at @ error), ARITHMETIC * np.linalg.norm(at))
    return np.asarray(value / max(float(size), TINY))
