"""A whole batch that was found in any way, held against the gradient of all layers: only the true rows explain it.

Searches that allow for errors, as chains of a posterior do, end at rows of roughly right numbers; whether these are the
batch is open where nothing was done to the gradient, since wrong rows may leave as little as the errors allow. Fitted
to all layers (`polish`), the numbers of the true rows leave nothing but rounding, and those of others leave many
thousand times that. Then each row is proven as `certificate` has it.

A gradient of rank r in a layer (o, i) tells r (o + i - r) numbers. Where that is hardly more than there is to choose,
other rows might explain it too, and none is taken for the batch; nor where nothing of any row reaches the first layer.
"""

import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.all_layers.batch import FoundRows, Remaining, remaining
from leakledger.attacks.gradient.all_layers.certificate import of_all
from leakledger.attacks.gradient.all_layers.gram import Problem, coefficients
from leakledger.attacks.gradient.all_layers.labels import Counts
from leakledger.attacks.gradient.exact.claim import claim
from leakledger.attacks.gradient.exact.deflation import norm
from leakledger.attacks.gradient.exact.network import error_basis, error_of_labels, forward
from leakledger.attacks.gradient.exact.polish import LARGEST
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.update import ObservedUpdate

# Bits that one number of a gradient tells, in single precision and beside others, and how many more numbers than
# unknown ones it must tell. Fewer leave chance a say; more leave small networks out.
BITS, SPARE = 12.0, 8


def held(update: ObservedUpdate, rows: EncodedRows) -> RecordsClaim | None:
    """The rows (n,) as a claim, their numbers fitted and each row proven or not; None where they are not the whole
    batch, do not explain its gradient, or others might explain it as well.
    """
    numeric = len(update.layout.numeric)
    if len(rows) != update.rows or update.open_size or len(rows) * numeric > LARGEST:
        return None
    whole = remaining(update, update.gradient, update.rows, [update.rows] * (len(update.model.hidden) + 1))
    if isinstance(whole, str) or not determined(whole, numeric):
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # wrong rows may have no finite fit
        try:
            found = FoundRows(rows, nearest_labels(whole, rows.encoded))
            encoded, residual, proven, exact, explained = of_all(whole, found)
        except np.linalg.LinAlgError:
            return None
    return claim(update, encoded, residual, proven, exact) if explained else None


def determined(whole: Remaining, numeric: int) -> bool:
    """Whether the gradient tells more than there is to choose in rows with so many numbers."""
    update, classes = whole.update, whole.update.model.outputs
    seen = [(layer.rank, len(layer.out), len(layer.inputs)) for layer in whole.spaces.layers]
    seen[-1] = (seen[-1][0], classes - 1, seen[-1][2])  # output errors sum to zero
    one_hot = sum(b.codes is None for b in update.layout.categorical)  # whose columns sum to that of the bias
    seen[0] = (seen[0][0], seen[0][1], seen[0][2] - one_hot)
    told = sum(rank * (out + inputs - rank) for rank, out, inputs in seen)
    chosen = sum(math.log2(b.size) for b in update.layout.categorical) + math.log2(classes)
    return seen[0][0] > 0 and told - update.rows * (numeric + chosen / BITS) >= SPARE


def nearest_labels(whole: Remaining, encoded: Array) -> Counts:
    """(n, C) the label of each encoded row (n, d) that comes nearest to what all layers say of its output errors; as
    often as the batch has it, where that is known.
    """
    update, spaces = whole.update, whole.spaces
    problem = Problem(spaces.weights, whole.gradient, spaces.activation, spaces.layers)
    errors, _ = coefficients(problem, encoded)
    once: Counts = np.eye(errors.shape[1], dtype=np.int64)
    probabilities = forward(spaces.weights, encoded, spaces.activation).probabilities
    off = norm(error_of_labels(probabilities, update.rows) - (errors @ error_basis(errors.shape[1]).T)[:, None])
    if not len(update.labels):
        return np.asarray(once[off.argmin(1)])
    return np.asarray(once[update.labels[linear_sum_assignment(off[:, update.labels])[1]]])
