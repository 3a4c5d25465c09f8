"""Linear layer: reads a row off one neuron of the first layer, x = (dL/dW_j) / (dL/db_j).

Exact for a batch of one row, and for every neuron that a single row of the batch activates (Geiping et al., Inverting
Gradients, NeurIPS 2020, proposition 3.1; Boenisch et al., EuroS&P 2023). Other neurons give a weighted mean of rows,
which seldom has valid categories. The same holds of a sum of gradients, that is of the weights after local training
(FedAvg): a neuron that a single row ever activates shows it, however many steps there were.

The adversary is honest but curious. It holds an update in the clear and the public layout; it needs no labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_positive,
    concluded,
)
from attacks.candidates import by_candidates
from attacks.fedavg.targets import WEIGHTS
from attacks.span.certificate import granted, resolved, singled_out
from attacks.span.claim import claim
from attacks.span.row_space import Array, row_space
from attacks.span.rows import Mask, Rows, clear, numbers, raw_range, snapped
from attacks.spear.network import affine
from attacks.tableak.prior import Bounds
from attacks.tableak.targets import GRADIENT, MODEL, Target
from attacks.updates import find_updates
from preprocess.views import FeatureLayout, View

FAINT = 1e-4  # a bias gradient below this share of the largest says nothing reliable
LOUD = 1e3  # nor does one below so many standard deviations of noise
SAME = 1e-3  # rows nearer than this in every encoded numeric column are one row
SLACK = 1e-3  # how far beyond its bounds a rounded number may lie, as a share of their distance


@dataclass(frozen=True)
class LinearLayer(Attack):
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
    topics = frozenset({GRADIENT, WEIGHTS, MODEL})
    assumes = "honest but curious; a gradient, or the weights after local training, in the clear; a perceptron"

    residual: float = 1e-5
    rank_tolerance: float = 64.0
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_positive(self, "residual", "rank_tolerance")

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        targets = find_updates(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(targets, list):
            return targets
        spec = view.public.model
        assert spec is not None  # find_targets refuses a view without
        if not spec.hidden:
            return NotApplicable("the network has no hidden layer: every row reaches every neuron of the only one")
        relu = spec.activation == "relu"

        def each(posed: View, own: Sequence[Target]) -> list[RecordsClaim | Abstained]:
            assert posed.public.layout is not None
            return [self.attack(posed.public.layout, target, knowledge.bounds, relu) for target in own]

        return concluded(by_candidates(view, knowledge, targets, each))

    def attack(self, layout: FeatureLayout, target: Target, bounds: Bounds, relu: bool) -> RecordsClaim | Abstained:
        """The rows of one target. `relu`: whether the first layer is followed by ReLU, which proof takes."""
        bias = target.gradient["0.bias"]
        loud = np.abs(bias) > max(FAINT * np.abs(bias).max(), LOUD * target.noise)
        points = affine(target.gradient, 0)[loud]
        rows, valid = snapped(layout, points)
        valid &= within_bounds(layout, rows, bounds)
        if target.noise:
            valid &= clear(layout, points, rows)
        rows, votes, weights = distinct(layout, rows.where(valid), bias[loud][valid])
        first = np.arange(len(rows)) < target.rows
        rows, votes, weights = rows.where(first), votes[first], weights[first]
        if not len(rows):
            return Abstained(f"no neuron of {target.victim} in round {target.round} shows a valid row")
        residual, alone = self._check(target, rows, relu)
        error = target.noise * np.hypot(1, np.abs(rows.encoded).max(1)) / np.sqrt(weights)
        return claim(layout, target, rows, residual, alone & (votes > 1), resolved(layout, error))

    def _check(self, target: Target, rows: Rows, relu: bool) -> tuple[Array, Mask]:
        """The residual behind each row, and whether it proves the row: nan and False where nothing is checked."""
        weight, bias = target.gradient["0.weight"], target.gradient["0.bias"]
        both = affine(target.gradient, 0)
        limit = granted(both, target.noise, self.residual)
        if target.rows == 1:
            error = np.linalg.norm(weight - np.outer(bias, rows.encoded[0]))
            residual = np.array([error / np.linalg.norm(both)])
            return residual, residual <= limit
        space = row_space(weight, bias, target.rows, self.rank_tolerance, target.noise, target.rate)
        if isinstance(space, str) or not relu:
            return np.full(len(rows), np.nan), np.zeros(len(rows), bool)
        alone, residual = singled_out(space, target.weights["0.weight"], target.weights["0.bias"], rows.encoded)
        return residual, alone & (residual <= limit)


def within_bounds(layout: FeatureLayout, rows: Rows, bounds: Bounds) -> Mask:
    """Whether every number of each row is possible, where its bounds are public or granted."""
    inside = np.ones(len(rows), bool)
    for block, values in zip(layout.numeric, numbers(layout, rows.encoded).T, strict=True):
        low, high = raw_range(block, bounds)
        if low is not None and high is not None:
            slack = SLACK * (high - low)
            inside &= (values >= low - slack) & (values <= high + slack)
    return inside


def distinct(layout: FeatureLayout, rows: Rows, bias: Array) -> tuple[Rows, NDArray[np.int64], Array]:
    """Each row once, the mean over the neurons that show it; how many these are (n,), the most first; and the sum of
    squares (n,) of their entries of the gradient's `bias`, by which the mean weighs them.
    """
    columns = [b.start for b in layout.numeric]
    order = np.argsort(-np.abs(bias), kind="stable")
    first: list[int] = []
    shown: list[list[int]] = []
    for i in order.tolist():
        near = (np.abs(rows.encoded[first][:, columns] - rows.encoded[i, columns]) < SAME).all(1)
        near &= (rows.categories[first] == rows.categories[i]).all(1)
        if near.any():
            shown[int(near.argmax())].append(i)
        else:
            first.append(i)
            shown.append([i])
    shown.sort(key=len, reverse=True)
    means = [np.average(rows.encoded[own], axis=0, weights=bias[own] ** 2) for own in shown]
    encoded = np.array(means).reshape(-1, rows.encoded.shape[1])
    votes, weights = (
        np.array([len(own) for own in shown], np.int64),
        np.array([(bias[own] ** 2).sum() for own in shown]),
    )
    return Rows(rows.categories[[own[0] for own in shown]], encoded), votes, weights
