"""Linear layer: reads a row off one neuron of the first layer, x = (dL/dW_j) / (dL/db_j).

Exact for a batch of one row, and for every neuron that a single row of the batch activates (Geiping et al., Inverting
Gradients, NeurIPS 2020, proposition 3.1; Boenisch et al., EuroS&P 2023). Other neurons give a weighted mean of rows,
which seldom has valid categories. The same holds of a sum of gradients, that is of the weights after local training
(FedAvg): a neuron that a single row ever activates shows it, however many steps there were.

Behind layer, group or instance norm every row of a batch reaches every neuron, so only the row of a batch of one is
read off. Behind batch norm nothing is: it subtracts the mean, the bias has no effect, and its gradient is 0.

The adversary is honest but curious. It holds an update in the clear and the public layout; it needs no labels, and
neither loss nor dropout changes the quotient: regressions and networks with dropout are attacked alike, those with
dropout without a proof for batches of several rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
)
from leakledger.attacks.gradient.exact.certificate import RESIDUAL, determined_rows, granted, resolved, singled_out
from leakledger.attacks.gradient.exact.claim import claim
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask, clear, numbers, raw_range, snapped
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.row_space import RANK_TOLERANCE, row_space
from leakledger.attacks.observed.tabular import Bounds
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.attacks.observed.updates import TOLD, find_of_any_loss
from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import FeatureLayout, ModelSpec

# A bias gradient below this share of the largest says nothing reliable. Too small: quotients of rounding give rows that
# are none; too large: neurons that show a row alone are left out.
FAINT = 1e-4
LOUD = 1e3  # nor does one below so many standard deviations of noise; the same trade
# Rows nearer than this in every encoded numeric column are one row. Too small: neurons that show one row do not agree;
# too large: two rows are averaged.
SAME = 1e-3
# How far beyond its bounds a rounded number may lie, as a share of their distance. Too small: rounding refutes rows at
# the bounds; too large: mixtures pass.
SLACK = 1e-3


@dataclass(frozen=True)
class LinearLayer(Inversion):
    """Analytic recovery, at most as many rows as the batch has, those first on which most neurons agree.

    A row is verified when two neurons agree on it and either it is the batch's only row and explains the gradient, or
    it alone shows nothing on its inactive neurons (which takes ReLU and independent rows). Neurons that agree are not
    enough: two rows with equal masks behind the first layer mix in one ratio on many neurons. Nor is a row verified
    with a code that several candidates have.
    `residual` is the largest relative residual that verifies. Raises ValueError unless it is positive.
    """

    technique = "linear_layer"
    reference = "Geiping, Bauermeister, Dröge, Moeller: Inverting Gradients, NeurIPS 2020, proposition 3.1"
    asset = ("records",)
    reads = (ClientGradient, ClientWeights, *TOLD)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; a gradient, or the weights after local training, in the clear; a perceptron"
    find = staticmethod(find_of_any_loss)

    residual: float = option(RESIDUAL, above=0, help="largest relative residual that certifies a row")
    rank_tolerance: float = option(
        RANK_TOLERANCE, above=0, help="roundings of the gradient's precision that count as zero"
    )
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        if spec.norm != "batch":
            return ""
        return (
            "batch norm takes the mean off every unit of the first layer: its bias has the gradient 0, and there is "
            "nothing to divide by"
        )

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        """The rows that neurons of the first layer show; they are proven only where ReLU follows it."""
        if not update.model.hidden and update.rows > 1:
            return NotApplicable("the network has no hidden layer: every row reaches every neuron of the only one")
        if reason := self.unfit_for(update.model, update.schedule is not None):
            return NotApplicable(reason)
        layout, bias = update.layout, update.gradient["0.bias"]
        loud = np.abs(bias) > max(FAINT * np.abs(bias).max(), LOUD * update.noise)
        points = affine(update.gradient, 0)[loud]
        rows, valid = snapped(layout, points)
        valid &= within_bounds(layout, rows, knowledge.bounds)
        if update.noise:
            valid &= clear(layout, points, rows)
        rows, votes, weights = distinct(layout, rows.where(valid), bias[loud][valid])
        first = np.arange(len(rows)) < update.rows
        rows, votes, weights = rows.where(first), votes[first], weights[first]
        if not len(rows):
            return Abstained(f"no neuron of {update.whose} in round {update.round} shows a valid row")
        if update.rows == 1:
            residual, alone = self._check_one(update, rows)
            error = read_errors(update, layout, rows, weights)
        else:
            rows, residual, alone, error = self._check(update, rows)
            alone &= first_of_each(layout, rows)
        return claim(update, rows, residual, alone & (votes > 1), resolved(layout, rows.encoded, error))

    def _check_one(self, update: ObservedUpdate, rows: EncodedRows) -> tuple[Array, Mask]:
        """The residual that the only row leaves of the gradient (1,), and whether it proves the row."""
        both = affine(update.gradient, 0)
        error = np.linalg.norm(both[:, :-1] - np.outer(both[:, -1], rows.encoded[0]))
        residual = np.array([error / np.linalg.norm(both)])
        return residual, residual <= granted(both, update.noise, self.residual)

    def _check(self, update: ObservedUpdate, rows: EncodedRows) -> tuple[EncodedRows, Array, Mask, Array]:
        """Rows with the numbers that the row space leaves them, the residual behind each, whether it proves the row,
        and standard errors (n, L) of its numbers: nan, False and infinite where nothing is checked.
        """
        layout, weight, bias = update.layout, update.weights["0.weight"], update.weights["0.bias"]
        space = row_space(update, self.rank_tolerance)
        if isinstance(space, str) or not update.relu or update.model.dropout:  # which silences neurons, too
            open = np.full((len(rows), len(layout.numeric)), np.inf)
            return rows, np.full(len(rows), np.nan), np.zeros(len(rows), bool), open
        encoded, error = determined_rows(space, layout, weight, bias, rows.encoded)
        alone, residual = singled_out(space, weight, bias, encoded)
        proven = alone & (residual <= granted(space.gradient, update.noise, self.residual))
        return EncodedRows(rows.categories, encoded), residual, proven, error


def read_errors(update: ObservedUpdate, layout: FeatureLayout, rows: EncodedRows, weights: Array) -> Array:
    """Standard errors (n, L) of numbers that are quotients of entries, of which `weights` (n,) is the sum of squares of
    the lower ones: what noise and rounding make of them.
    """
    values = rows.encoded[:, [b.start for b in layout.numeric]]
    return np.asarray(
        np.hypot(update.noise * np.hypot(1, values) / np.sqrt(weights)[:, None], update.roundoff * values)
    )


def within_bounds(layout: FeatureLayout, rows: EncodedRows, bounds: Bounds) -> Mask:
    """Whether every number of each row is possible, where its bounds are public or granted."""
    inside = np.ones(len(rows), bool)
    for block, values in zip(layout.numeric, numbers(layout, rows.encoded).T, strict=True):
        low, high = raw_range(block, bounds)
        if low is not None and high is not None:
            slack = SLACK * (high - low)
            inside &= (values >= low - slack) & (values <= high + slack)
    return inside


def first_of_each(layout: FeatureLayout, rows: EncodedRows) -> Mask:
    """(n,) which rows no row before them is. Neurons that show a row with a faint share of another are a row of their
    own to `distinct`, until the row space gives them the numbers of the first.
    """
    return np.asarray(~np.tril(same(layout, rows, rows), -1).any(1))


def same(layout: FeatureLayout, rows: EncodedRows, others: EncodedRows) -> Mask:
    """(n, m) which of the rows are one with which of the others: numbers nearer than `SAME`, equal categories."""
    columns = [b.start for b in layout.numeric]
    near = (np.abs(rows.encoded[:, None, columns] - others.encoded[:, columns]) < SAME).all(2)
    return np.asarray(near & (rows.categories[:, None] == others.categories).all(2))


def distinct(layout: FeatureLayout, rows: EncodedRows, bias: Array) -> tuple[EncodedRows, NDArray[np.int64], Array]:
    """Each row once, the mean over the neurons that show it; how many these are (n,), the most first; and the sum of
    squares (n,) of their entries of the gradient's `bias`, by which the mean weighs them.
    """
    order = np.argsort(-np.abs(bias), kind="stable")
    first: list[int] = []
    shown: list[list[int]] = []
    for i in order.tolist():
        [near] = same(layout, rows.where(np.array([i])), rows.where(np.array(first, np.int64)))
        if near.any():
            shown[int(near.argmax())].append(i)
        else:
            first.append(i)
            shown.append([i])
    shown.sort(key=len, reverse=True)
    means = [np.average(rows.encoded[own], axis=0, weights=bias[own] ** 2) for own in shown]
    encoded = np.array(means).reshape(len(shown), rows.encoded.shape[1])
    votes, weights = (
        np.array([len(own) for own in shown], np.int64),
        np.array([(bias[own] ** 2).sum() for own in shown]),
    )
    return EncodedRows(rows.categories[[own[0] for own in shown]], encoded), votes, weights
