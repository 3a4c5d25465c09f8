"""The polish of a whole batch: its numbers fitted to the gradient, with the standard errors that noise leaves them.

A batch explains the gradient as D^T [X | 1], D zero where a row is inactive. Categories are known, D and the numeric
columns of X are not. For any X the best D solves a small linear problem per neuron; what is left is a problem in the
numbers alone (variable projection, Golub and Pereyra 1973), solved by Levenberg-Marquardt. With P_h the points [x | 1]
of the rows that neuron h may see, d_h their signals and r_h what they leave of its gradient, a step s solves

    M s = sum_h d_h x (1 - Pi_h) r_h,   M = sum_h d_h d_h^T x (1 - Pi_h),   Pi_h the projection on the rows of P_h,

in the numeric columns; x is the Kronecker product. The covariance of the numbers is e^2 M^-1, e the error of an entry
(noise, or rounding), as far as the fit is as good as noise allows (`excess`). Where M is too large for that (vectors in
place of categories), D and X are fitted in turn, and standard errors are not known.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import lstsq

from leakledger.attacks.gradient.exact.neurons import ever_active
from leakledger.attacks.gradient.exact.rows import NEAR_WHOLE
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.preprocess.views import FeatureLayout, NumericBlock

ROUNDS = 20  # of steps: fewer stop short of the fit, more cost time where nothing converges
LARGEST = 1500  # numbers of a batch that Levenberg-Marquardt takes: its normal equations grow with the square
# A step that promises less, in squares of the noise or else relative to what is left, is the last. Too small: steps
# go on in the noise; too large: numbers stop beside the best fit.
DONE = 0.1
# Eigenvalues of scaled normal equations below this are rounding. Too small: steps along undetermined directions; too
# large: numbers that are determined have no standard error.
SINGULAR = 1e-12
SHARE = 1e-6  # of an unknown in a direction that is not determined: below this it is none, but rounding
DAMPING = 1e-6  # of the first step after one that led astray: smaller repeats it, larger crawls
DAMPING_FACTOR = 10  # by which it falls after a good step and grows after a bad one
STALLED = 0.9  # a round of alternating fits that leaves more than this share of what was left is the last
# So many times the residual is what whole numbers may cost. Too small: rounding keeps numbers broken; too large: wrong
# whole numbers replace right broken ones.
WHOLE_COSTS = 2


@dataclass(frozen=True, eq=False)
class Fit:
    """Rows held against the gradient: the sum of squares that is `left`, and the normal equations of their numbers, M
    (n·L, n·L) and its right-hand side (n·L,).
    """

    left: float
    normal: Array = field(repr=False)
    goal: Array = field(repr=False)

    def solved(self, damping: float) -> tuple[Array, Array]:
        """The step (n·L,), and the diagonal (n·L,) of the inverse of M: infinite for numbers with a share in a
        direction that the gradient does not determine, along which there is no step.
        """
        scale, values, vectors = self._scaled
        seen = values > SINGULAR
        known = vectors[:, seen]
        step = known / (values[seen] + damping) @ (known.T @ (self.goal / scale)) / scale
        open = (vectors[:, ~seen] ** 2).sum(1) > SHARE
        return step, np.where(open, np.inf, (known**2 / values[seen]).sum(1) / scale**2)

    @cached_property
    def _scaled(self) -> tuple[Array, Array, Array]:
        """The scale of the unknowns, and the eigenvalues and eigenvectors of M in these units, whatever the damping."""
        scale = np.sqrt(np.maximum(np.diag(self.normal), np.finfo(float).tiny))
        return scale, *np.linalg.eigh(self.normal / np.outer(scale, scale))


def polished(
    space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array
) -> tuple[Array, float, Array]:
    """A whole batch (r, d) with its numbers fitted to the gradient, the relative residual that is left, and standard
    errors (r, L) of the numbers, infinite where they are not known.
    """
    columns = [b.start for b in layout.numeric]
    if not columns:
        return encoded, fitted(space, weight, bias, encoded)[1], np.zeros((len(encoded), 0))
    descend = least_squares if len(encoded) * len(columns) <= LARGEST else alternating
    best, error = descend(space, weight, bias, encoded, columns)
    whole = with_integers(layout.numeric, best)
    least, residual = (fitted(space, weight, bias, e)[1] for e in (best, whole))
    return (whole, residual, error) if residual < WHOLE_COSTS * least else (best, least, error)


def least_squares(
    space: RowSpace, weight: Array, bias: Array, encoded: Array, columns: list[int]
) -> tuple[Array, Array]:
    """The rows (n, d) with the numeric `columns` that fit the gradient best, and standard errors (n, L)."""
    best, fit, damping = encoded, held(space, weight, bias, encoded, columns), 0.0
    entry = float(np.sqrt((space.entry_errors**2).mean()))
    for _ in range(ROUNDS):
        step, _ = fit.solved(damping)
        if fit.goal @ step <= DONE * (entry**2 or fit.left):
            break
        trial = best.copy()
        trial[:, columns] += step.reshape(len(best), -1)
        tried = held(space, weight, bias, trial, columns)
        better = tried.left < fit.left
        damping = (
            (damping / DAMPING_FACTOR if damping > DAMPING else 0.0)
            if better
            else max(DAMPING_FACTOR * damping, DAMPING)
        )
        best, fit = (trial, tried) if better else (best, fit)
    return best, entry * np.sqrt(fit.solved(0.0)[1]).reshape(len(best), -1)


def held(space: RowSpace, weight: Array, bias: Array, encoded: Array, columns: list[int]) -> Fit:
    """The rows (n, d) against the gradient, with the normal equations of their numeric `columns`."""
    points = with_ones(encoded)
    active = ever_active(space, weight, bias, encoded)
    n, numbers = len(encoded), len(columns)
    normal, goal, left = np.zeros((n, n, numbers, numbers)), np.zeros((n, numbers)), 0.0
    for seen, gradient in zip(active.T, space.gradient, strict=True):
        rows = np.flatnonzero(seen)
        own = points[rows]
        basis = np.linalg.qr(own.T)[0]  # (d+1, a)
        residue = gradient - basis @ (basis.T @ gradient)
        left += float(residue @ residue)
        if len(rows):
            signals = lstsq(own.T, gradient)[0]
            free = np.eye(numbers) - basis[columns] @ basis[columns].T
            normal[np.ix_(rows, rows)] += np.multiply.outer(np.outer(signals, signals), free)
            goal[rows] += np.outer(signals, residue[columns])
    return Fit(left, normal.transpose(0, 2, 1, 3).reshape(n * numbers, -1), goal.ravel())


def alternating(space: RowSpace, weight: Array, bias: Array, encoded: Array, columns: list[int]) -> tuple[Array, Array]:
    """As `least_squares`, by the best numbers for the signals that are best for the old ones, and again."""
    best, least = encoded, np.inf
    for _ in range(ROUNDS):
        signals, residual = fitted(space, weight, bias, encoded)
        before = least
        if residual < least:
            best, least = encoded, residual
        if residual >= STALLED * before:
            break
        encoded = encoded.copy()
        encoded[:, columns] = np.linalg.lstsq(signals.T, space.gradient[:, columns], rcond=None)[0]
    return best, np.full((len(encoded), len(columns)), np.inf)


def excess(space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array) -> float:
    """By how much rows (r, d) miss the gradient within its row space, in squares of what noise leaves them: about 1
    where they are the right ones.
    """
    signals, _ = fitted(space, weight, bias, encoded)
    residue = space.left - signals.T @ (with_ones(encoded) @ space.right.T)
    open = (space.rank - ever_active(space, weight, bias, encoded).sum(0)).clip(0)
    moved = np.linalg.norm(space.left, axis=1) > 0
    freedom = max(1, int(open[moved].sum()) - len(encoded) * len(layout.numeric))
    return float((residue[open > 0] ** 2).sum() / (freedom * space.noise**2))


def fitted(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Array, float]:
    """The signals D (n, H) of active rows that best explain the gradient, and the relative residual."""
    points = with_ones(encoded)
    active = ever_active(space, weight, bias, encoded)  # (n, H)
    coordinates = points @ space.right.T
    signals = np.zeros(active.shape)
    for h in np.flatnonzero(active.any(0)):
        signals[active[:, h], h] = np.linalg.lstsq(coordinates[active[:, h]].T, space.left[h], rcond=None)[0]
    residual = np.linalg.norm(space.gradient - signals.T @ points) / np.linalg.norm(space.gradient)
    return signals, float(residual)


def with_integers(blocks: tuple[NumericBlock, ...], encoded: Array) -> Array:
    """`encoded` with whole numbers where the layout promises them and they are near."""
    encoded = encoded.copy()
    for block in blocks:
        if block.integer and block.scaled:
            raw = block.raw(encoded[:, block.start])
            near = np.abs(raw - raw.round()) < NEAR_WHOLE
            encoded[near, block.start] = block.encoded(raw[near].round())
    return encoded
