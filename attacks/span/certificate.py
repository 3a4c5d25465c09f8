"""The check of rows on the gradient that they came from.

Rows are real when the gradient follows from them: with D zero wherever a row is inactive, D^T [X | 1] is the observed
gradient up to rounding, and nothing else would do: each row is alone in its activation pattern. Where the gradient
carries noise, its numbers must be beyond it (`resolved`).
"""

import numpy as np

from attacks.span.kernels import HEARD, verified_kernels
from attacks.span.neurons import Mask, live_neurons
from attacks.span.polish import ROUND, excess
from attacks.span.row_space import Array, RowSpace
from attacks.tableak.prior import raw_units
from preprocess.views import FeatureLayout

SURE = 4.0  # standard errors
LEFT = 2.0  # times the noise: a residual above that is no noise
MOST = 2.5  # times the square of the noise: what a right batch leaves in the row space at most
EXACT = 1e-3  # how far off, in encoded units, a number of a proven row may be


def granted(gradient: Array, noise: float, limit: float) -> float:
    """The relative residual up to which rows explain a gradient (H, d+1): `limit`, or what its `noise` alone leaves."""
    return max(limit, LEFT * noise * float(gradient.size**0.5 / np.linalg.norm(gradient)))


def explained(space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array) -> bool:
    """Whether rows (r, d) explain the gradient as well as its noise allows; one without noise is not asked."""
    return not space.noise or excess(space, layout, weight, bias, encoded) <= MOST


def resolved(layout: FeatureLayout, error: Array) -> Mask:
    """(n,) whether a standard error (n,) of the encoded entries leaves no number another value, rounded where it is a
    whole one.
    """
    error = SURE * error[:, None]
    scale, _ = raw_units(layout.numeric)
    whole = np.array([b.integer and b.scaled for b in layout.numeric], bool)
    return np.asarray(((error <= EXACT) | (whole & (error * scale < ROUND))).all(1))


def singled_out(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Mask, Array]:
    """Whether each row (n, d) is alone in showing nothing on its inactive neurons, and something on all others.

    With what it does show on its inactive neurons relative to all (n,), beyond the noise: how far the gradient is from
    having this row.
    """
    neurons = live_neurons(space, weight, bias)
    signs = neurons.signs(np.column_stack([encoded, np.ones(len(encoded))]) @ space.right.T)
    kernels = verified_kernels(neurons, np.arange(len(encoded)), signs)
    signals = kernels.directions @ neurons.left.T
    silent = signs.values < -signs.drift
    beyond = (np.abs(signals) - HEARD * neurons.noise).clip(0) if space.noise else signals
    residual = np.linalg.norm(beyond * silent, axis=1) / np.linalg.norm(signals, axis=1)
    return kernels.agreement == 1, residual
