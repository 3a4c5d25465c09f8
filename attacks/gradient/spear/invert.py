"""From what a layer of a ReLU network takes in back to the row: exact, layer by layer.

Where h > 0, h is the pre-activation of a known affine map: an overdetermined linear system for the inputs of the layer
below. Where the positive entries are too few for that, the inputs are sought in the row space of the layer's own
gradient, which holds every row whose column of D is independent of the others.
"""

import numpy as np

from leakledger.attacks.gradient.exact.deflation import IN_ROW_SPACE
from leakledger.attacks.gradient.exact.kernels import RIDGE
from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array, Weights, affine, with_ones

# Equations per unknown that make a system trustworthy. Too small: rounding is fitted; too large: rows are sought in the
# row space though their own equations suffice.
SURPLUS = 1.4
# Relative to the largest entry, h below this is taken for zero. Too small: an inactive neuron enters as an equation;
# too large: equations are lost.
ZERO = 3e-3


def inverted(weights: Weights, gradient: Weights, points: Array, layer: int, tolerance: float) -> tuple[Array, Mask]:
    """The rows (n, d) behind `points` (n, in + 1) of `layer`, and whether each explains its point within `tolerance`.

    The tolerance is relative to the largest entry of a point.
    """
    good: Mask = np.asarray(np.isfinite(points).all(1))
    points = np.where(good[:, None], points, 0.0)
    for below in range(layer - 1, -1, -1):
        hidden = points[:, :-1]
        size = np.abs(hidden).max(1, initial=0)
        good &= (hidden > -tolerance * size[:, None]).all(1) & (size > 0)
        points, fits = below_relu(affine(weights, below), affine(gradient, below), hidden, good, tolerance)
        good &= fits
    return points[:, :-1], good


def below_relu(weight: Array, gradient: Array, hidden: Array, chosen: Mask, tolerance: float) -> tuple[Array, Mask]:
    """The inputs [x | 1] (n, in + 1) that `weight` (out, in + 1) and ReLU take to `hidden` (n, out), where `chosen`.

    And whether they do so within `tolerance`.
    """
    size = np.abs(hidden).max(1, keepdims=True, initial=0)
    positive = hidden > ZERO * size
    inputs, fits = np.zeros((len(hidden), weight.shape[1])), np.zeros(len(hidden), bool)
    basis = input_basis(gradient, positive[chosen].sum(1), weight.shape[1])
    plane = weight @ basis.T  # (out, r)
    where = np.flatnonzero(chosen & (positive.sum(1) >= basis.shape[0]))
    if not len(where):
        return inputs, fits
    squares = np.concatenate([(plane[:, :, None] * plane[:, None, :]).reshape(len(plane), -1), plane], 1)
    kept = positive[where].astype(np.float64)
    rank = basis.shape[0]
    gram = (kept @ squares[:, : rank * rank]).reshape(-1, rank, rank)
    ones = basis[:, -1]  # the last input is 1, a strong equation
    gram += np.outer(ones, ones)
    right = (kept * hidden[where]) @ plane + ones
    gram += RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(rank)
    inputs[where] = with_ones((np.linalg.solve(gram, right[..., None])[..., 0] @ basis)[:, :-1])
    error = np.abs((inputs[where] @ weight.T).clip(0) - hidden[where]).max(1)
    fits[where] = error < tolerance * size[where, 0]
    return inputs, fits


def input_basis(gradient: Array, equations: Array, width: int) -> Array:
    """(r, in + 1): the whole space where the equations suffice for it, else the row space of the gradient."""
    if len(equations) and np.median(equations) >= SURPLUS * width:
        return np.eye(width)
    _, values, right = np.linalg.svd(gradient, full_matrices=False)
    return np.asarray(right[values > IN_ROW_SPACE * values[0]])
