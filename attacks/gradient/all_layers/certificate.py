"""The certificate of known atoms: the gradient of every layer follows from the rows, and no others would do.

A whole batch is proven where its rows, with their labels, leave no more of any layer than rounding does; where the
joint least squares over all layers gives each row the output errors of exactly one occurrence with one label; and where
the rows' columns in the first layer are so independent that no row could have another code in any feature, nor does
what they leave of that layer ask for one. Its numbers have the standard errors of the fit to all layers. Rows that
depend on each other there have no finite errors, and no certificate.

A part of a batch is proven where its rows lie in the spaces of all layers, lower the rank of the gradient by one each,
and would not lie there with the next code in any feature. A row that occurs several times is claimed as often and never
proven: rows that a network sees nearly alike look like copies of their mean. Nor is a part of a batch that has fewer
independent rows than rows, where the activation is linear between kinks, so that mixtures of rows may be rows to it.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from leakledger.attacks.gradient.all_layers.batch import FoundRows, Remaining
from leakledger.attacks.gradient.all_layers.gram import Problem, coefficients
from leakledger.attacks.gradient.all_layers.labels import decided, errors_of
from leakledger.attacks.gradient.all_layers.layers import TINY
from leakledger.attacks.gradient.all_layers.polish import LEFT, LINES, PIECEWISE_LINEAR, Explained, polished, priced
from leakledger.attacks.gradient.all_layers.roots import residuals
from leakledger.attacks.gradient.all_layers.spaces import MISSED
from leakledger.attacks.gradient.all_layers.tangents import columns_of
from leakledger.attacks.gradient.exact.certificate import SURE, resolved
from leakledger.attacks.gradient.exact.deflation import norm
from leakledger.attacks.gradient.exact.network import forward
from leakledger.attacks.gradient.exact.polish import LARGEST, Fit
from leakledger.attacks.gradient.exact.rows import SAME, EncodedRows, Mask, with_codes
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import CategoricalBlock

# The same as `LEFT` outside the spans of rows' points and columns, where the arithmetic of single rows leaves nothing.
OUTSIDE = 8.0
# The same where noise is known that is more than rounding, which hides what a client's arithmetic leaves. Too small:
# uneven noise refutes true rows, which leave up to 3.5; too large: wrong rows pass, which leave from 2 on.
NOISED = 4.0
STRAIN = 16.0  # how far output errors may be off those of labels, as `polish` has it: the same trade
APART = 10.0  # times MISSED by which a row with the next code must miss: less leaves the code to chance


def certified(whole: Remaining, found: FoundRows, left: Remaining) -> tuple[EncodedRows, Array, Mask, Mask]:
    """The rows (n,), polished, the relative residual behind each, whether it proves the row, and whether its numbers
    are exact.
    """
    if left.rank == 0 and found.counts.sum() == whole.update.rows:
        return of_all(whole, found)[:4]
    return of_some(whole, found)


def of_all(whole: Remaining, found: FoundRows) -> tuple[EncodedRows, Array, Mask, Mask, bool]:
    """The same for a whole batch, and whether its rows leave no more of any layer than rounding, or noise, does."""
    update, spaces = whole.update, whole.spaces
    problem = Problem(spaces.weights, whole.gradient, spaces.activation, spaces.layers)
    problem = priced(problem, found.rows.encoded, found.counts, update.rows)
    encoded, error, held = polished(problem, update.layout, found.rows.encoded, found.counts, update.rows)
    rows = EncodedRows(found.rows.categories, encoded)
    explained = follows(update, held) and float(held.outside.max()) <= OUTSIDE and held.strain <= STRAIN
    proven = labelled(problem, encoded, found, update.rows, held) & isolated(problem, whole, rows, found, held)
    proven &= explained & (found.counts.sum(1) == 1)
    if error.size > LARGEST:  # the polish left them as they were
        error = LINES * number_errors(whole, encoded)
    return rows, np.full(len(rows), held.residual), proven, resolved(update.layout, encoded, error), explained


def follows(update: ObservedUpdate, held: Explained) -> bool:
    """Whether a batch leaves no more of any layer than a client's arithmetic does; of an update with noise, than that
    or the noise.
    """
    if not update.noise:
        return held.left <= LEFT
    return bool(((held.missed <= NOISED) | (np.array(held.relative) <= LEFT * update.roundoff)).all())


def labelled(problem: Problem, encoded: Array, found: FoundRows, batch: int, held: Explained) -> Mask:
    """(n,) whether the joint least squares over all layers give each row the errors of its labels alone."""
    errors, off = coefficients(problem, encoded)
    probabilities = forward(problem.weights, encoded, problem.activation).probabilities
    relative = max(1.0, held.left) * off / np.maximum(norm(errors), TINY)
    counts, clear = decided(probabilities, errors, relative, batch, problem.layers[0].roundoff)
    return np.asarray(clear & (counts == found.counts).all(1))


def isolated(problem: Problem, whole: Remaining, rows: EncodedRows, found: FoundRows, held: Explained) -> Mask:
    """(n,) whether the first layer leaves no row another code: its gradient determines the row, given the columns D of
    all, up to a standard error of |D^+| in each column. What rows leave of it may be of a single one, whose share is
    faint: by how much D^+ of that would move a row to another code counts as well.
    """
    passed = forward(problem.weights, rows.encoded, problem.activation)
    errors = errors_of(passed.probabilities, found.counts, whole.update.rows)
    columns = problem.columns(columns_of(problem.weights, passed, errors))[0]  # (n, o)
    if len(columns) > columns.shape[1]:
        return np.zeros(len(rows), bool)
    scale = norm(columns).clip(TINY)
    u, values, v = np.linalg.svd(columns / scale[:, None], full_matrices=False)
    inverse = u / values.clip(TINY) / scale[:, None]
    error = max(1.0, held.left) * norm(inverse)
    left = problem.seen()[0] - columns.T @ problem.points(passed.points)[0]
    moved = inverse @ (v @ left)  # (n, d + 1)
    sure, inputs = np.ones(len(rows), bool), problem.layers[0].inputs
    for block, chosen in zip(whole.update.layout.categorical, rows.categories.T, strict=True):
        distance = to_other_codes(block, chosen, inputs)
        codes = block.codebook() / inputs[block.start : block.start + block.width]
        own = moved[:, block.start : block.start + block.width]
        towards = (own @ codes.T - (own * codes[chosen]).sum(1)[:, None]) / distance
        sure &= (distance - 2 * towards.clip(0)).min(1) > 2 * SURE * error
    return sure


def to_other_codes(block: CategoricalBlock, chosen: NDArray[np.int64], inputs: Array) -> Array:
    """(n, candidates) how far the codes `chosen` (n,) are from all others, in the units `inputs` of the columns;
    infinite where a candidate has the same code.
    """
    codes, units = block.codebook(), inputs[block.start : block.start + block.width]
    own = codes[chosen]
    return np.where(cdist(own, codes) > SAME, cdist(own / units, codes / units), np.inf)


def of_some(whole: Remaining, found: FoundRows) -> tuple[EncodedRows, Array, Mask, Mask]:
    """The same for a part of a batch."""
    update, encoded = whole.update, found.rows.encoded
    missed, (errors, off) = whole.spaces.missed(encoded), whole.spaces.errors(encoded)
    probabilities = whole.spaces.passed(encoded).probabilities
    counts, clear = decided(probabilities, errors, off, update.rows, update.roundoff)
    proven = (missed < MISSED) & clear & (counts == found.counts).all(1)
    proven &= (found.counts.sum(1) == 1) & no_other_code(whole, found.rows)
    if whole.rank < update.rows and update.model.activation in PIECEWISE_LINEAR:
        proven &= False
    error = LINES * number_errors(whole, encoded) * np.maximum(1.0, missed)[:, None]
    exact = resolved(update.layout, encoded, error)
    return found.rows, update.roundoff * np.maximum(1.0, missed), proven, exact


def no_other_code(whole: Remaining, rows: EncodedRows) -> Mask:
    """(n,) whether rows with the code next to theirs in some feature would be out of the spaces."""
    sure, inputs = np.ones(len(rows), bool), whole.spaces.layers[0].inputs
    for k, block in enumerate(whole.update.layout.categorical):
        distance = to_other_codes(block, rows.categories[:, k], inputs)
        other = rows.categories.copy()
        other[:, k] = distance.argmin(1)
        missed = whole.spaces.missed(with_codes(whole.update.layout, other, rows.encoded).encoded)
        sure &= np.isinf(distance.min(1)) | (missed > APART * MISSED)
    return sure


def number_errors(whole: Remaining, encoded: Array) -> Array:
    """Standard errors (n, L) of the numbers of rows (n, d), by the spaces of all layers; infinite where none tells."""
    numeric = [b.start for b in whole.update.layout.numeric]
    if not numeric or not len(encoded):
        return np.zeros((len(encoded), len(numeric)))
    if not whole.spaces.sides:
        return np.full((len(encoded), len(numeric)), np.inf)
    _, slopes = residuals(whole.spaces, encoded, np.eye(encoded.shape[1])[numeric])
    return np.sqrt([Fit(0.0, s @ s.T, np.zeros(len(numeric))).solved(0.0)[1] for s in slopes])
