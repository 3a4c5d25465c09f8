"""The check of rows on the gradient that they came from, after a polish that fits their numbers to it.

Rows are real when the gradient follows from them: with D zero wherever a row is inactive, D^T [X | 1] is the observed
gradient up to rounding, and nothing else would do: each row is alone in its activation pattern.
"""

import numpy as np
from numpy.typing import NDArray

from attacks.span.kernels import live_neurons, verified_kernels
from attacks.span.row_space import Array, RowSpace
from preprocess.views import FeatureLayout, NumericBlock

ROUND = 0.1  # how far from a whole number an integer may be
ROUNDS = 20  # of alternating least squares


def polished(space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array) -> tuple[Array, float]:
    """A whole batch (r, d) with its numeric columns fitted to the gradient, and the relative residual that is left."""
    columns = [b.start for b in layout.numeric]
    best, least = encoded, np.inf
    for _ in range(ROUNDS):
        signals, residual = fitted(space, weight, bias, encoded)
        if residual >= 0.9 * least:
            break
        best, least = encoded, residual
        encoded = encoded.copy()
        encoded[:, columns] = np.linalg.lstsq(signals.T, space.gradient[:, columns], rcond=None)[0]
    whole = with_integers(layout.numeric, best)
    residual = fitted(space, weight, bias, whole)[1]
    return (whole, residual) if residual < 2 * least else (best, least)


def fitted(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Array, float]:
    """The signals D (n, H) of active rows that best explain the gradient, and the relative residual."""
    points = np.column_stack([encoded, np.ones(len(encoded))])
    active = encoded @ weight.T + bias > 0  # (n, H)
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
        if block.integer and block.shift is not None and block.scale is not None:
            raw = encoded[:, block.start] * block.scale + block.shift
            near = np.abs(raw - raw.round()) < ROUND
            encoded[near, block.start] = (raw[near].round() - block.shift) / block.scale
    return encoded


def singled_out(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[NDArray[np.bool_], Array]:
    """Whether each row (n, d) is alone in showing nothing on its inactive neurons, and something on all others.

    With what it does show on its inactive neurons relative to all (n,): how far the gradient is from having this row.
    """
    neurons = live_neurons(space, weight, bias)
    signs = np.column_stack([encoded, np.ones(len(encoded))]) @ space.right.T @ neurons.planes
    kernels = verified_kernels(neurons, np.arange(len(encoded)), signs)
    signals = kernels.directions @ neurons.left.T
    residual = np.linalg.norm(signals * (signs < 0), axis=1) / np.linalg.norm(signals, axis=1)
    return kernels.agreement == 1, residual
