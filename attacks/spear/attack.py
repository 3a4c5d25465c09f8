"""Spear: whole rows of a client's training batch, exactly, each with a certificate, from the zeros that ReLU leaves.

After Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024. The gradient of a
layer is D^T [H | 1]; its rank shows the batch size, and ReLU's zeros in D betray its factors. The paper works on the
first layer, by draws of neurons on which a row is inactive. This attack departs from it: it works on the last hidden
layer, where H has full rank even if one-hot columns make the rows dependent, and gets the rows by inverting ReLU. There
it reads rows off pairs of neurons, looks for rows whose points lie in the gradient's row space (`points`), and only
then draws; with two classes, draws use equal neurons as well as inactive ones (`masks`).

The adversary is honest but curious. It holds the gradient in the clear, the model and the public layout of the encoded
columns; it needs no labels, and no categorical columns either. Exact while the batch is well below the layer's width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_device,
    check_least,
    check_positive,
    concluded,
    counter,
)
from attacks.candidates import by_candidates
from attacks.span.claim import claim
from attacks.span.row_space import Array
from attacks.spear.certificate import certified
from attacks.spear.network import affine
from attacks.spear.rest import numerical_rank
from attacks.spear.search import Budget, Problem, solve
from attacks.tableak.targets import GRADIENT, MODEL, Target, find_targets
from preprocess.views import FeatureLayout, View


@dataclass(frozen=True)
class Spear(Attack):
    """Exact recovery of rows; a claim may hold fewer than the batch has.

    `starts` bounds the starts of the search for points of one batch, `draws` the draws of that for masks.
    `rank_tolerance` is how many roundings of the gradient's precision count as zero; `residual` the largest relative
    residual that certifies. `rounds` and `victims` restrict what is attacked. `progress(done, total)` hears of starts
    and draws. Rows that occur twice are claimed once and never verified; nor are rows with a code that several
    candidates have.
    Raises ValueError for settings out of range.
    """

    technique = "spear"
    reference = "Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024"
    asset = ("records",)
    topics = frozenset({GRADIENT, MODEL})
    assumes = "honest but curious; the gradient of one batch in the clear; a multilayer perceptron with ReLU"

    starts: int = 3_000
    draws: int = 20_000
    rank_tolerance: float = 64.0
    residual: float = 1e-5
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_least(self, {"starts": 0, "draws": 0, "seed": 0})
        check_positive(self, "rank_tolerance", "residual")
        check_device(self.device)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        spec = view.public.model
        if spec is not None and (spec.activation != "relu" or not spec.hidden):
            return NotApplicable(f"a hidden layer must be followed by ReLU, not {spec.activation} on {spec.hidden}")
        targets = find_targets(view, knowledge, rounds=self.rounds, victims=self.victims, labels_needed=False)
        if not isinstance(targets, list):
            return targets
        advance = counter(self.progress, (self.starts + self.draws) * len(targets))

        def each(posed: View, own: Sequence[Target]) -> list[RecordsClaim | Abstained]:
            assert posed.public.layout is not None
            return [self.attack(posed.public.layout, target, advance=advance) for target in own]

        return concluded(by_candidates(view, knowledge, targets, each))

    def attack(
        self,
        layout: FeatureLayout,
        target: Target,
        known: Array | None = None,
        advance: Callable[[int], None] = lambda draws: None,
    ) -> RecordsClaim | Abstained:
        """The rows of one target. `known` (n, d), encoded: rows that may be in the batch, to start from."""
        source = f"the gradient of {target.victim} in round {target.round}"
        problem = posed(layout, target, self.rank_tolerance)
        if isinstance(problem, str):
            return Abstained(f"{source}: {problem}")
        coins = np.random.default_rng([self.seed, target.round, *target.victim.encode()])
        start = np.zeros((0, layout.width)) if known is None else np.asarray(known, np.float64)
        found = solve(problem, start, Budget(self.starts, self.draws, self.device, advance), coins)
        if not len(found):
            return Abstained(
                f"{source}: no row of {target.rows} was found from {self.starts} starts and {self.draws} draws"
            )
        rows, residual, verified = certified(problem, found, self.residual)
        if not verified.any():
            return Abstained(f"{source}: none of the {len(rows)} rows found explains its part of it")
        return claim(layout, target, rows, residual, verified, np.ones(len(rows), bool))


def posed(layout: FeatureLayout, target: Target, tolerance: float) -> Problem | str:
    """The problem that a target poses, or why it cannot be solved."""
    last = len(target.weights) // 2 - 2
    gradient = affine(target.gradient, last)
    if target.rows >= min(gradient.shape):
        return f"a batch of {target.rows} rows does not leave a gap in the spectrum of a {gradient.shape} gradient"
    rank = numerical_rank(gradient, tolerance)
    if rank > target.rows:
        return f"its numerical rank is {rank} and the batch has {target.rows} rows: noise hides their subspace"
    return Problem(layout, target.weights, target.gradient, target.rows, rank)
