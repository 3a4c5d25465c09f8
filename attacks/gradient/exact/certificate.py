"""The check of rows on the gradient that they came from.

Rows are real when the gradient follows from them: with D zero wherever a row is inactive, D^T [X | 1] is the observed
gradient up to rounding, and nothing else would do: each row is alone in its activation pattern. Where the gradient
carries noise, its numbers must be beyond it (`resolved`).
"""

import numpy as np

from leakledger.attacks.gradient.exact.kernels import HEARD, verified_kernels
from leakledger.attacks.gradient.exact.neurons import Mask, live_neurons
from leakledger.attacks.gradient.exact.polish import excess
from leakledger.attacks.gradient.exact.rows import NEAR_WHOLE
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.attacks.observed.tabular import raw_units
from leakledger.preprocess.views import FeatureLayout

# The largest relative residual that certifies rows, by default. Too small: the rounding of float32 gradients refutes
# true rows; too large: rows that are nearly right pass. No false row among 6,800 of Adult and German was verified
# with it.
RESIDUAL = 1e-5
# Standard errors by which a number must be beyond doubt. Fewer: wrong numbers are called exact; more: fewer are.
SURE = 4.0
# Times the noise: a residual above that is no noise. Too small: noise refutes true rows; too large: wrong ones pass.
LEFT = 2.0
# Times the square of the noise: what a right batch leaves in the row space at most; it leaves about 1
# (`polish.excess`). Too small: chance refutes it; too large: a batch with a wrong row passes.
MOST = 2.5
# How far off, in encoded units, a number of a proven row may be. Too small: none behind weights is exact; too large:
# numbers are called exact that a table tells apart.
EXACT = 1e-3


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
    return np.asarray(((error <= EXACT) | (whole & (error * scale < NEAR_WHOLE))).all(1))


def singled_out(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Mask, Array]:
    """Whether each row (n, d) is alone in showing nothing on its inactive neurons, and something on all others.

    With what it does show on its inactive neurons relative to all (n,), beyond the noise: how far the gradient is from
    having this row.
    """
    neurons = live_neurons(space, weight, bias)
    signs = neurons.signs(with_ones(encoded) @ space.right.T)
    kernels = verified_kernels(neurons, np.arange(len(encoded)), signs)
    signals = kernels.directions @ neurons.left.T
    silent = signs.values < -signs.drift
    beyond = (np.abs(signals) - HEARD * neurons.noise).clip(0) if space.noise else signals
    residual = np.linalg.norm(beyond * silent, axis=1) / np.linalg.norm(signals, axis=1)
    return kernels.agreement == 1, residual
