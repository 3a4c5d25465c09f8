"""TabLeak: reconstructs a client's training batch from its gradient (Vero et al., ICML 2023, algorithm 1).

Many restarts look for rows whose gradient points in the direction of the observed one. A structural prior keeps them
rows of a table, the restarts are matched row by row and pooled by the median, and where they disagree a cell is unsure.

Three things go beyond the paper, at its cost. Restarts are crossed a few times on their way (`crossover`), the last
iterations settle the categories and let the numbers come to rest (`finish`), and only the best restarts are pooled, as
many as fit the gradient best (`members`). With `crossovers=0, finish="constant", members="all"` it is the paper's. In
batches too large for the loss to tell good rows from bad ones (`crossover.crowded`), restarts are neither crossed nor
chosen.

The adversary is honest but curious. It holds a client's FedSGD gradient in the clear, the model it was computed on, the
public layout of the encoded columns, and the batch's labels or their counts; it may know bounds of numeric features.
The network is a multilayer perceptron with cross-entropy loss. Approximate: near exact for batches far below the width
of the layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
from attacks.candidates.problem import Inverted
from attacks.labels import RECOVERIES
from attacks.tableak.crossover import coins_of, crossed, crowded, stretches
from attacks.tableak.ensemble import POOLINGS, diverged, matching_order, pool, pooled_claim
from attacks.tableak.finish import FINISHES, finish, last_temperature
from attacks.tableak.losses import LOSSES
from attacks.tableak.members import MEMBERS, pooled_rows
from attacks.tableak.objective import Objective, matching_objective
from attacks.tableak.optimiser import OPTIMISERS
from attacks.tableak.prior import Array, Rows, StructuralPrior
from attacks.tableak.relaxation import Relaxation
from attacks.tableak.start import INITIALISATIONS, Draw, initialisation, start, uniform
from attacks.tableak.targets import GRADIENT, MODEL, Target, find_targets
from attacks.tableak.temperature import schedule
from preprocess.models import layer_shapes
from preprocess.views import FeatureLayout, ModelSpec, View

__all__ = ["TabLeak", "bytes_per_restart", "start"]

REPORT_EVERY = 50  # iterations
DTYPES = {"float32": torch.float32, "float64": torch.float64}
Advance = Callable[[int], None]
AS_PUBLISHED: Mapping[str, Any] = {"crossovers": 0, "finish": "constant", "members": "all"}
LEAST = {"restarts": 1, "iterations": 1, "seed": 0, "memory": 1, "tolerance": 0, "max_rows": 1}
CHOICES = {
    "pooling": POOLINGS,
    "members": MEMBERS,
    "loss": LOSSES,
    "initialisation": INITIALISATIONS,
    "optimiser": OPTIMISERS,
    "finish": FINISHES,
    "label_recovery": RECOVERIES,
    "dtype": DTYPES,
}


@dataclass(frozen=True)
class Problem:
    """Batches of as many rows each that are attacked together, `capacity` of their restarts at a time."""

    spec: ModelSpec
    prior: StructuralPrior
    targets: Sequence[Target]
    capacity: int


@dataclass(frozen=True)
class TabLeak(Attack):
    """Gradient inversion for tabular FedSGD. The defaults are the paper's but for `crossovers`, `finish` and `members`.

    `crossovers` is how many times restarts are crossed; the iterations are the same in number. `finish` (`FINISHES`)
    is how these end. `members` (`MEMBERS`) says which restarts are pooled; all count in a cell's entropy.

    `pooling=False` and `softmax=False` are the paper's ablations: the best restart alone, free categorical columns;
    `sigmoid=False` frees the numeric ones too, as in the cosine baseline. `pooling` (`POOLINGS`; True is "median",
    False "none"), `loss` (`LOSSES`), `initialisation` (`INITIALISATIONS`), `optimiser` (`OPTIMISERS`) and `temperature`
    (`TEMPERATURES`, or a first value and a factor per iteration) name the variants.
    `tolerance` is how many standard deviations apart two numbers count as different when restarts are matched.
    `recover_labels` takes labels that are not granted from the gradient, by the technique `label_recovery`
    (`attacks.labels.RECOVERIES`); without it such a batch is not attacked. Batches of more than `max_rows` rows are
    left alone. `rounds` and `victims` restrict what is attacked. `memory` bounds the bytes in use at a time: victims
    with batches of the same size run together as far as it goes. How they are grouped changes nothing but rounding
    errors: every restart starts from a point of its own. `progress(done, total)` hears of the iterations of all
    restarts.
    Raises ValueError for settings out of range.
    """

    technique = "tableak"
    reference = "Vero, Balunović, Dimitrov, Vechev: TabLeak: Tabular Data Leakage in Federated Learning, ICML 2023"
    asset = ("records",)
    topics = frozenset({GRADIENT, MODEL})
    assumes = "honest but curious; the gradient of one batch in the clear; its labels known; a multilayer perceptron"

    restarts: int = 30
    iterations: int = 1500
    learning_rate: float = 0.06
    crossovers: int = 8
    pooling: bool | str = "median"
    members: str = "fitting"
    softmax: bool = True
    sigmoid: bool = True
    loss: str = "cosine"
    initialisation: str = "uniform"
    optimiser: str = "sign-adam"
    temperature: str | tuple[float, float] = "constant"
    finish: str = "cool"
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    tolerance: float = 0.319
    recover_labels: bool = False
    label_recovery: str = "bias"
    max_rows: int = 512
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    memory: int = 2**28
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.pooling, bool):
            object.__setattr__(self, "pooling", "median" if self.pooling else "none")
        check_least(self, {**LEAST, "crossovers": 0})
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)!r} is not one of {sorted(known)}")
        schedule(self.temperature)
        if not self.softmax and self.temperature != "constant":
            raise ValueError(f"temperature {self.temperature!r} is that of a softmax, and softmax is off")
        check_positive(self, "learning_rate")
        check_device(self.device)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        needed = not self.recover_labels
        found = find_targets(view, knowledge, rounds=self.rounds, victims=self.victims, labels_needed=needed)
        if not isinstance(found, list):
            return found
        return concluded(by_candidates(view, knowledge, found, lambda posed, own: self.invert(posed, knowledge, own)))

    def invert(self, view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]) -> list[Inverted]:
        """The outcome for each of `targets`: those that `view` offers, or what is left of them."""
        layout, spec = view.public.layout, view.public.model
        assert layout is not None  # find_targets refuses a view without
        assert spec is not None
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax, sigmoid=self.sigmoid)
        except ValueError as error:
            return [NotApplicable(str(error))] * len(targets)
        outcomes: dict[int, Inverted] = {i: no for i, t in enumerate(targets) if (no := self._refusal(t))}
        ready = {self._labelled(spec, layout, t): i for i, t in enumerate(targets) if i not in outcomes}
        draw = initialisation(self.initialisation, prior, layout)
        for target, *ends in self._reconstruct(spec, prior, list(ready), draw):
            outcomes[ready[target]] = self._suited(spec, target.rows)._conclude(spec, prior, target, *ends)
        return [outcomes[i] for i in range(len(targets))]

    def _refusal(self, target: Target) -> NotApplicable | None:
        batch = f"{target.victim} in round {target.round}"
        if target.rows > self.max_rows:
            return NotApplicable(f"the batch of {batch} has {target.rows} rows, more than max_rows = {self.max_rows}")
        if not len(target.labels) and not self.recover_labels:
            return NotApplicable(f"labels of {batch} are not known")
        return None

    def _labelled(self, spec: ModelSpec, layout: FeatureLayout, target: Target) -> Target:
        """The target with labels from its gradient where none were granted."""
        if len(target.labels):
            return target
        recover = RECOVERIES[self.label_recovery]
        return replace(target, labels=recover(spec, layout, target.weights, target.gradient, target.rows))

    def _reconstruct(
        self, spec: ModelSpec, prior: StructuralPrior, targets: Sequence[Target], draw: Draw = uniform
    ) -> Iterator[tuple[Target, Array, Array, Array]]:
        """Every target, units and logits (R, B, size) that its restarts ended at, losses (R,) as projected rows."""
        advance = counter(self.progress, len(targets) * self.restarts * self.iterations)
        for rows in sorted({t.rows for t in targets}):
            alike = [t for t in targets if t.rows == rows]
            capacity = max(1, self.memory // bytes_per_restart(spec, prior, rows, DTYPES[self.dtype].itemsize))
            together = max(1, capacity // self.restarts)
            for i in range(0, len(alike), together):
                chunk = alike[i : i + together]
                ends = self._suited(spec, rows)._search(Problem(spec, prior, chunk, capacity), draw, advance)
                yield from zip(chunk, *ends, strict=True)

    def _suited(self, spec: ModelSpec, rows: int) -> "TabLeak":
        """This attack as it treats batches of so many rows."""
        return replace(self, crossovers=0, members="all") if crowded(spec.hidden, rows) else self

    def _search(self, problem: Problem, draw: Draw, advance: Advance) -> tuple[Array, Array, Array]:
        """All restarts: units, logits (V, R, B, size), losses (V, R) as projected rows."""
        prior, targets = problem.prior, problem.targets
        shape, tolerance = (self.restarts, targets[0].rows, prior.size), self.tolerance * prior.deviation
        starts = [start(self.seed, t, prior.size, range(self.restarts), draw) for t in targets]
        variables = np.stack([s.T.reshape(shape) for s in starts])
        first, *others = stretches(self.iterations, self.crossovers, self.restarts)
        units, variables, losses = self._stretch(problem, variables, first, advance)
        for number, steps in enumerate(others):
            coins = [coins_of(self.seed, t, number) for t in targets]
            ends = zip(coins, units, variables, losses, targets, strict=True)
            variables = np.stack([crossed(c, prior, u, v, own, t.labels, tolerance) for c, u, v, own, t in ends])
            units, variables, losses = self._stretch(problem, variables, steps, advance)
        return units, prior.centre + prior.spread * variables, losses

    def _stretch(
        self, problem: Problem, variables: Array, steps: range, advance: Advance
    ) -> tuple[Array, Array, Array]:
        """Moves variables (V, R, B, size) by some iterations: units, variables, losses as projected rows."""
        together = range(0, self.restarts, problem.capacity)
        chunks = (variables[:, j : j + problem.capacity] for j in together)
        parts = [self._optimise(problem, c, steps, advance) for c in chunks]
        units, moved, losses = (np.concatenate(p, 1) for p in zip(*parts, strict=True))
        return units, moved, losses

    @torch.no_grad()
    def _optimise(
        self, problem: Problem, variables: Array, steps: range, advance: Advance
    ) -> tuple[Array, Array, Array]:
        """The same for restarts that fit into memory together."""
        prior, shape = problem.prior, variables.shape[:3]
        objective = self._objective(problem.spec, problem.targets, shape[1])
        relaxation = Relaxation(prior, shape, self.device, DTYPES[self.dtype])
        moved = self._tensor(variables.reshape(shape[0], -1, prior.size).swapaxes(1, 2).copy())
        optimiser = OPTIMISERS[self.optimiser](moved, self.learning_rate)
        temperatures = islice(schedule(self.temperature), steps.start, steps.stop)
        endings = finish(self.finish, self.iterations, steps)
        for step, temperature, (cold, slow) in zip(steps, temperatures, endings, strict=True):
            optimiser.learning_rate = self.learning_rate * slow
            _, gradient = objective(relaxation.columns(moved, temperature * cold))
            optimiser.step(relaxation.pull(gradient))
            if (step + 1) % REPORT_EVERY == 0 or step + 1 == self.iterations:
                advance((step % REPORT_EVERY + 1) * shape[0] * shape[1])
        relaxation.columns(moved, last_temperature(self.finish, self.iterations, steps))
        units, ends = (
            t.mT.reshape(*shape, prior.size).cpu().numpy().astype(np.float64) for t in (relaxation.units, moved)
        )
        return units, ends, self._losses(objective, prior, prior.project(units))

    def _objective(self, spec: ModelSpec, targets: Sequence[Target], restarts: int) -> Objective:
        return matching_objective(
            spec,
            {name: self._tensor(np.stack([t.weights[name] for t in targets])) for name in targets[0].weights},
            {name: self._tensor(np.stack([t.gradient[name] for t in targets])) for name in targets[0].gradient},
            torch.tensor(np.stack([t.labels for t in targets]), device=self.device),
            restarts,
            self.loss,
        )

    def _losses(self, objective: Objective, prior: StructuralPrior, rows: Rows) -> Array:
        losses: Array = objective(self._tensor(prior.encode(rows)))[0].cpu().numpy().astype(np.float64)
        return losses

    def _conclude(
        self, spec: ModelSpec, prior: StructuralPrior, target: Target, units: Array, logits: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one target support."""
        if refusal := diverged(target, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units, logits = (np.take_along_axis(a, order[..., None], axis=1) for a in (units, logits))
        return pooled_claim(prior, target, units, self._pooled(spec, prior, target, units, logits, losses))

    def _pooled(
        self, spec: ModelSpec, prior: StructuralPrior, target: Target, units: Array, logits: Array, losses: Array
    ) -> Rows:
        """The rows that matched restarts are pooled to."""
        how = str(self.pooling)
        if how == "none":
            return prior.project(units[losses.argmin()])
        if self.members == "all":
            return prior.project(pool(how, units, logits, prior))
        rows = pooled_rows(how, prior, units, logits, losses)
        objective = self._objective(spec, [target], len(rows.numbers))
        best = self._losses(objective, prior, Rows(rows.categories[None], rows.numbers[None])).argmin()
        return Rows(rows.categories[best], rows.numbers[best])

    def _tensor(self, array: Array) -> Tensor:
        return torch.tensor(array, dtype=DTYPES[self.dtype], device=self.device)


def bytes_per_restart(spec: ModelSpec, prior: StructuralPrior, rows: int, itemsize: int) -> int:
    """About what one restart occupies."""
    shapes = layer_shapes(spec)
    per_row = 9 * prior.size + prior.width + sum(4 * outputs + inputs for outputs, inputs in shapes)
    per_layer = sum(2 * max(rows * rows, outputs * inputs) for outputs, inputs in shapes)
    return itemsize * (rows * per_row + per_layer)
