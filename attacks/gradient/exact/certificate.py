"""The check of rows on the gradient that they came from.

Rows are real when the gradient follows from them: with D zero wherever a row is inactive, D^T [X | 1] is the observed
gradient up to rounding, and nothing else would do: each row is alone in its activation pattern. Where the gradient
carries noise, its numbers must be beyond it (`resolved`).
"""

import numpy as np

from leakledger.attacks.gradient.exact.kernels import HEARD, Kernels, agreeing, verified_kernels
from leakledger.attacks.gradient.exact.neurons import Mask, Neurons, Signs, live_neurons
from leakledger.attacks.gradient.exact.numbers import determined
from leakledger.attacks.gradient.exact.polish import excess, with_integers
from leakledger.attacks.gradient.exact.rows import NEAR_WHOLE, numbers
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.attacks.observed.tabular import slopes
from leakledger.preprocess.views import FeatureLayout, NumericBlock

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
# How far off, in standard deviations, a number of a proven row may be that is not known to the last whole number. Too
# small: none behind weights is exact; too large: numbers are called exact that a table tells apart.
EXACT = 1e-3
# Less than this share of a number, or of an encoded unit, is what float32 leaves of a sum. A column scaled by its range
# has a deviation of at least a thousandth of that in tables of up to half a million rows.
FLOAT = 1e-6
OUTER = 8  # one row in so many is left out of a deviation; fewer, and rare large numbers excuse any error


def granted(gradient: Array, noise: float, limit: float) -> float:
    """The relative residual up to which rows explain a gradient (H, d+1): `limit`, or what its `noise` alone leaves."""
    return max(limit, LEFT * noise * float(gradient.size**0.5 / np.linalg.norm(gradient)))


def explained(space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array) -> bool:
    """Whether rows (r, d) explain the gradient as well as its noise allows; one without noise is not asked."""
    return not space.noise or excess(space, layout, weight, bias, encoded) <= MOST


def resolved(layout: FeatureLayout, encoded: Array, error: Array) -> Mask:
    """(n,) whether standard errors (n, L) leave no number of rows (n, d) another value: none at all where it is a whole
    one, otherwise none beyond a thousandth of a deviation (`deviations`) or beyond the precision of floats.

    Where the encoding is no affine map, an error counts in raw units, by the slope at the row's own number. A scale of
    1, or one that is not public, may stand in for a deviation of 0, in which rounding left nothing of a narrow column:
    where rows can be told apart in it, it is no constant, and they tell its deviation. A column that is divided by
    nobody knows what may be as narrow beside it as floats are precise; one that public bounds hold within less than a
    unit is.
    """
    columns = encoded[:, [b.start for b in layout.numeric]]
    error = SURE * error
    raw_error = error * slopes(layout.numeric, columns)
    whole = np.array([b.integer and b.scaled for b in layout.numeric], bool) & (raw_error < NEAR_WHOLE)
    constant = np.array([b.scaled and b.low is not None and b.low == b.high for b in layout.numeric], bool)
    floats = np.array([FLOAT if b.unit or b.scale in (1, None) else 0.0 for b in layout.numeric])
    units = np.maximum(np.abs(columns), [_widest(b) for b in layout.numeric])
    near = error <= np.maximum(EXACT * deviations(layout, columns), floats * units)
    spread = columns.std(axis=0) if len(columns) else np.zeros(columns.shape[1])
    stand_in = np.array([b.scale in (1, None) and b.unit == "deviation" for b in layout.numeric], bool)
    near &= ~(stand_in & (spread > error)) | (error <= EXACT * spread)
    raw = numbers(layout, encoded)
    affine = np.array([b.affine for b in layout.numeric], bool)
    near = np.where(affine, near, raw_error <= EXACT * of_most(raw))
    possible = ~whole | (np.abs(raw - raw.round()) < NEAR_WHOLE)
    return np.asarray(((constant | near | whole) & possible).all(1))


def _widest(block: NumericBlock) -> float:
    """The width of a column between its public bounds, in encoded units: 1 where it is more, or nobody says."""
    if block.scale is None or block.low is None or block.high is None or not block.affine:
        return 1.0
    return min(1.0, (block.high - block.low) / block.scale)


def deviations(layout: FeatureLayout, columns: Array) -> Array:
    """(L,) at most the standard deviation of each numeric feature, in encoded units, as far as `columns` (n, L) tell.

    It is 1 where columns are in units of it. Of a range or a distance of quartiles it may be a third or less, of a
    noised one, or of what nobody says, anything: there the rows tell.
    """
    standard = np.array([b.unit == "deviation" for b in layout.numeric], bool)
    return np.where(standard, 1.0, np.minimum(of_most(columns), 1.0))


def of_most(columns: Array) -> Array:
    """(L,) the deviation of columns (n, L) without the rows farthest out: of skewed ones few rows make it."""
    kept = len(columns) - int(np.ceil(len(columns) / OUTER))
    if kept <= 1:
        return np.zeros(columns.shape[1])
    near = np.argsort(np.abs(columns - np.median(columns, axis=0)), axis=0, kind="stable")[:kept]
    return np.asarray(np.take_along_axis(columns, near, axis=0).std(axis=0))


def singled_out(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Mask, Array]:
    """Whether each row (n, d) is alone in showing nothing on its inactive neurons, and something on all others.

    With what it does show on its inactive neurons relative to all (n,), beyond the noise: how far the gradient is from
    having this row.
    """
    neurons, signs, kernels = own_kernels(space, weight, bias, encoded)
    signals = kernels.directions @ neurons.left.T
    silent = signs.values < -signs.drift
    beyond = (np.abs(signals) - HEARD * neurons.noise).clip(0) if space.noise else signals
    residual = np.linalg.norm(beyond * silent, axis=1) / np.linalg.norm(signals, axis=1)
    return kernels.agreement == 1, residual


def own_kernels(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> tuple[Neurons, Signs, Kernels]:
    """The live neurons, the signs that rows (n, d) have on them, and the kernels that these give."""
    neurons = live_neurons(space, weight, bias)
    signs = neurons.signs(with_ones(encoded) @ space.right.T)
    return neurons, signs, verified_kernels(neurons, np.arange(len(encoded)), signs)


def determined_rows(
    space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, encoded: Array
) -> tuple[Array, Array]:
    """Some rows (n, d) of a batch with the numbers that they have by the row space and the kernels of one another, and
    the standard errors (n, L) of these, in encoded units: infinite for rows that these leave open.

    A kernel counts where a row that is itself determined has it: others may be of a mixture of rows, and make mixtures
    of those that they settle.
    """
    rows, errors = encoded.copy(), np.full((len(encoded), len(layout.numeric)), np.inf)
    neurons, signs, own = own_kernels(space, weight, bias, encoded)
    proven = own.agreement == 1
    while proven.any():
        kernels = own.directions[proven]
        theirs = [agreeing(np.abs(q @ neurons.left.T)[None], signs, neurons.noise) == 1 for q in kernels]
        others = ~np.array(theirs, bool).T
        rows[proven], errors[proven] = determined(space, layout, encoded[proven], kernels, others[proven])
        certain = proven.copy()
        certain[proven] = np.isfinite(errors[proven]).all(1)
        if (certain == proven).all():
            break
        errors[proven & ~certain] = np.inf
        proven = certain
    return with_integers(layout.numeric, rows), errors
