"""Span: whole rows of a client's training data, exactly, each with a certificate, from one update.

Encoded categories give the rows away: a row of the batch lies in the row space of the first layer's gradient, and few
combinations of categories do. Each candidate predicts where ReLU silences it, and there its own direction can be read
off (the kernels of SPEAR, Dimitrov et al., NeurIPS 2024, without the blind search). The rows found must give back the
observed gradient.

The update is a FedSGD gradient, or the weights after a local training (FedAvg). The rows of a training lie in the row
space of all its steps together, whatever their batches, order and number; only on neurons that change sides on the way
a candidate predicts nothing (`neurons`). So local steps hide nothing from this attack.

The adversary is honest but curious. It holds the update in the clear, the model that it began from and the public
layout of the encoded columns; it needs no labels. Dependencies between features help where they are known (`choices`).
Exact while the rows are well below the width of the layer in number, and independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    Dependencies,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_least,
    check_positive,
    concluded,
)
from attacks.candidates import by_candidates
from attacks.fedavg.targets import WEIGHTS
from attacks.span.candidates import find_candidates
from attacks.span.certificate import explained, granted, resolved, singled_out
from attacks.span.claim import claim, decided
from attacks.span.neurons import live_neurons
from attacks.span.polish import polished
from attacks.span.row_space import Array, RowSpace, row_space
from attacks.span.rows import Mask, Rows, clear, snapped
from attacks.span.search import search, settled_coordinates
from attacks.tableak.prior import Bounds
from attacks.tableak.targets import GRADIENT, MODEL, Target
from attacks.updates import find_updates
from preprocess.views import FeatureLayout, View


@dataclass(frozen=True)
class Span(Attack):
    """Exact recovery of rows; a claim may hold fewer than the batch has.

    `budget` bounds the combinations of categories compared (pairs of half combinations) and `candidates` those kept, at
    about 1 kB each; `attempts` bounds the search, in chunks of candidates. `rank_tolerance` is how many roundings of
    the gradient's precision count as zero; `match_tolerance` how far from the row space a combination of categories
    may be, `residual` the largest relative residual that certifies; more is granted where an update carries rounding.
    `rounds` and `victims` restrict what is attacked.
    Rows that are linearly dependent, equal ones among them, lower the rank: the attack abstains. Rows with a code that
    several candidates have are claimed and not verified, unless known dependencies decide between those.
    Raises ValueError for settings out of range.
    """

    technique = "span"
    reference = "after Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024"
    asset = ("records",)
    topics = frozenset({GRADIENT, WEIGHTS, MODEL})
    assumes = "honest but curious; a gradient, or the weights after local training, in the clear; a ReLU perceptron"

    budget: int = 2 * 10**8
    candidates: int = 2**20
    attempts: int = 30
    rank_tolerance: float = 64.0
    match_tolerance: float = 2e-3
    residual: float = 1e-5
    seed: int = 0
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_least(self, {"budget": 1, "candidates": 1, "attempts": 1, "seed": 0})
        check_positive(self, "rank_tolerance", "match_tolerance", "residual")

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        spec = view.public.model
        if spec is not None and (spec.activation != "relu" or not spec.hidden):
            return NotApplicable(f"the first layer must be followed by ReLU, not {spec.activation} on {spec.hidden}")
        targets = find_updates(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(targets, list):
            return targets

        def each(posed: View, own: Sequence[Target]) -> list[RecordsClaim | Abstained]:
            assert posed.public.layout is not None
            return [self.attack(posed.public.layout, t, knowledge.bounds, knowledge.dependencies) for t in own]

        return concluded(by_candidates(view, knowledge, targets, each))

    def attack(
        self, layout: FeatureLayout, target: Target, bounds: Bounds, dependencies: Dependencies | None = None
    ) -> RecordsClaim | Abstained:
        """The rows of one target, of a network whose first layer is followed by ReLU."""
        source = f"the update of {target.victim} in round {target.round}"
        gradients, weight, bias = target.gradient, target.weights["0.weight"], target.weights["0.bias"]
        space = row_space(
            gradients["0.weight"], gradients["0.bias"], target.rows, self.rank_tolerance, target.noise, target.rate
        )
        if isinstance(space, str):
            return Abstained(f"{source}: {space}")
        found = find_candidates(
            layout,
            space.right,
            max(self.match_tolerance, space.precision * layout.width**0.5),
            self.budget,
            self.candidates,
            bounds,
            dependencies,
            space.precision,
        )
        if isinstance(found, str):
            return Abstained(f"{source}: {found}")
        neurons = live_neurons(space, weight, bias)
        kernels = search(neurons, found, self.attempts, self.seed)
        coordinates = settled_coordinates(neurons, found, kernels)
        rows, residual, proven, exact = self._certify(space, layout, weight, bias, coordinates)
        if not proven.any():
            return Abstained(f"{source}: none of {len(found.categories)} candidate rows explains its part of it")
        rows, open = decided(layout, rows, space.right, found.choices)
        return claim(layout, target, rows, residual, proven, exact, open)

    def _certify(
        self, space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, coordinates: Array
    ) -> tuple[Rows, Array, Mask, Mask]:
        """The rows at `coordinates` (n, r) that fit the layout, the residual behind each, whether it proves them, and
        whether their numbers are exact.

        All rows are held against the whole gradient, a part of them only against what their inactive neurons show. How
        far noise turns the numbers of a part is not known.
        """
        points = coordinates @ space.right
        rows, valid = snapped(layout, points)
        rows, points = rows.where(valid), points[valid]
        if len(rows) == space.rank:
            encoded, whole, error = polished(space, layout, weight, bias, rows.encoded)
            rows = Rows(rows.categories, encoded)
            single, _ = singled_out(space, weight, bias, encoded)
            residual = np.full(len(rows), whole)
            exact = resolved(layout, error) & explained(space, layout, weight, bias, encoded)
        else:
            single, residual = singled_out(space, weight, bias, rows.encoded)
            exact = np.full(len(rows), not space.noise)
        proven = single & (residual <= granted(space.gradient, space.noise, self.residual))
        return rows, residual, proven & clear(layout, points, rows) if space.noise else proven, exact
