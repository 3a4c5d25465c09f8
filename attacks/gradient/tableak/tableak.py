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

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    RecordsClaim,
    check_device,
    check_seed,
    counter,
)
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.matching.ensemble import (
    POOLINGS,
    diverged,
    matching_order,
    pool,
    pooled_claim,
    pooling_name,
)
from leakledger.attacks.gradient.matching.initialisation import (
    INITIALISATIONS,
    Draw,
    initial_variables,
    initialisation,
    uniform,
)
from leakledger.attacks.gradient.matching.losses import LOSSES
from leakledger.attacks.gradient.matching.objective import Objective, matching_objective
from leakledger.attacks.gradient.matching.optimiser import OPTIMISERS
from leakledger.attacks.gradient.matching.relaxation import Relaxation
from leakledger.attacks.gradient.matching.restarts import DTYPES, REPORT_EVERY
from leakledger.attacks.gradient.matching.room import room
from leakledger.attacks.gradient.tableak.cooling import FINISHES, cooling_schedule, last_temperature
from leakledger.attacks.gradient.tableak.crossover import crossed, crossover_rng, crowded, stretches
from leakledger.attacks.gradient.tableak.selection import MEMBERS, pooled_rows
from leakledger.attacks.gradient.tableak.temperature import TEMPERATURES, read_temperature, schedule
from leakledger.attacks.observed.labels import RECOVERIES
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.attacks.observed.updates import TOLD, find_gradients
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.models import layer_shapes
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import ModelSpec

Advance = Callable[[int], None]
AS_PUBLISHED: Mapping[str, Any] = {"crossovers": 0, "finish": "constant", "members": "all"}


@dataclass(frozen=True)
class Group:
    """Batches of as many rows each that are attacked together, `capacity` of their restarts at a time."""

    prior: StructuralPrior
    updates: Sequence[ObservedUpdate]
    capacity: int


@dataclass(frozen=True)
class TabLeak(Inversion):
    """Gradient inversion for tabular FedSGD. The defaults are the paper's but for `crossovers`, `finish` and `members`.

    Crossing leaves the number of iterations as it is. Restarts that are not pooled count in a cell's entropy.

    `pooling=False` and `softmax=False` are the paper's ablations: the best restart alone, free categorical columns;
    `sigmoid=False` frees the numeric ones too, as in the cosine baseline.
    `recover_labels` takes labels that are not granted from the gradient, by the technique `label_recovery`
    (`observed.labels.RECOVERIES`); without it such a batch is not attacked. `rounds` and `victims` restrict what is
    attacked. Victims with batches of the same size run together as far as `memory` goes; that changes nothing but
    rounding errors: every restart starts from a point of its own. `progress(done, total)` hears of the iterations of
    all restarts.
    Raises ValueError for settings out of range.
    """

    technique = "tableak"
    reference = "Vero, Balunović, Dimitrov, Vechev: TabLeak: Tabular Data Leakage in Federated Learning, ICML 2023"
    asset = ("records",)
    reads = (ClientGradient, *TOLD)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; the gradient of one batch in the clear; its labels known; a multilayer perceptron"
    find = staticmethod(find_gradients)

    restarts: int = option(30, at_least=1, help="starting points per batch")
    iterations: int = option(1500, at_least=1, help="steps of the optimiser per restart")
    learning_rate: float = option(0.06, above=0, help="step of the optimiser")
    crossovers: int = option(8, at_least=0, help="times that restarts are crossed on their way; 0 as published")
    pooling: bool | str = option(
        "median", choices=POOLINGS, read=pooling_name, help="how restarts become one batch; false is none, true median"
    )
    members: str = option("fitting", choices=MEMBERS, help='restarts that are pooled; "all" as published')
    softmax: bool = option(True, help="categories as distributions; without, free columns")
    sigmoid: bool = option(True, help="numbers between their bounds throughout; without, clipped in the end")
    loss: str = option("cosine", choices=LOSSES, help="distance of two gradients")
    initialisation: str = option("uniform", choices=INITIALISATIONS, help="where restarts begin")
    optimiser: str = option("sign-adam", choices=OPTIMISERS, help="which steps restarts take")
    temperature: str | tuple[float, float] = option(
        "constant",
        choices=TEMPERATURES,
        read=read_temperature,
        help="of the softmax: a schedule, or its first value and its factor per iteration",
    )
    finish: str = option("cool", choices=FINISHES, help='how the iterations end; "constant" as published')
    dtype: str = option("float32", choices=DTYPES, help="precision of the restarts")
    tolerance: float = option(
        0.319, at_least=0, help="deviations between numbers that differ when restarts are matched"
    )
    max_rows: int = option(512, at_least=1, help="larger batches are left alone")
    memory: int | None = option(
        None, at_least=1, help="bytes in use at a time [default: 256 MiB, or half of what an accelerator has free]"
    )
    seed: int = 0
    device: str = "cpu"
    recover_labels: bool = False
    label_recovery: str = "bias"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pooling", pooling_name(self.pooling))
        check_options(self)
        check_seed(self.seed)
        if self.label_recovery not in RECOVERIES:
            raise ValueError(f"label_recovery {self.label_recovery!r} is not one of {sorted(RECOVERIES)}")
        schedule(self.temperature)
        if not self.softmax and self.temperature != "constant":
            raise ValueError(f"temperature {self.temperature!r} is that of a softmax, and softmax is off")
        check_device(self.device)

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        return self.invert_all([update], knowledge)[0]

    def invert_all(self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge) -> list[Inverted]:
        """The outcome for each of `updates`, which share layout and model; restarts of all run together."""
        layout = updates[0].layout
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax, sigmoid=self.sigmoid)
        except ValueError as error:
            return [NotApplicable(str(error))] * len(updates)
        outcomes: dict[int, Inverted] = {i: no for i, u in enumerate(updates) if (no := self._refusal(u))}
        ready = {self._labelled(u): i for i, u in enumerate(updates) if i not in outcomes}
        draw = initialisation(self.initialisation, prior, layout)
        for update, *ends in self._reconstruct(prior, list(ready), draw):
            outcomes[ready[update]] = self._suited(update)._conclude(prior, update, *ends)
        return [outcomes[i] for i in range(len(updates))]

    def _refusal(self, update: ObservedUpdate) -> NotApplicable | None:
        batch = f"{update.whose} in round {update.round}"
        if update.rows > self.max_rows:
            return NotApplicable(f"the batch of {batch} has {update.rows} rows, more than max_rows = {self.max_rows}")
        if not len(update.labels) and not self.recover_labels:
            return NotApplicable(f"labels of {batch} are not known")
        return None

    def _labelled(self, update: ObservedUpdate) -> ObservedUpdate:
        """The update with labels from its gradient where none were granted."""
        if len(update.labels):
            return update
        recover = RECOVERIES[self.label_recovery]
        labels = recover(update.model, update.layout, update.weights, update.gradient, update.rows)
        return replace(update, labels=labels)

    def _reconstruct(
        self, prior: StructuralPrior, updates: Sequence[ObservedUpdate], draw: Draw = uniform
    ) -> Iterator[tuple[ObservedUpdate, Array, Array, Array]]:
        """Every update, units and logits (R, B, size) that its restarts ended at, losses (R,) as projected rows."""
        advance = counter(self.progress, len(updates) * self.restarts * self.iterations)
        bytes_at_a_time = room(self.memory, self.device)
        for rows in sorted({u.rows for u in updates}):
            alike = [u for u in updates if u.rows == rows]
            capacity = max(
                1, bytes_at_a_time // bytes_per_restart(alike[0].model, prior, rows, DTYPES[self.dtype].itemsize)
            )
            together = max(1, capacity // self.restarts)
            for i in range(0, len(alike), together):
                chunk = alike[i : i + together]
                ends = self._suited(chunk[0])._search(Group(prior, chunk, capacity), draw, advance)
                yield from zip(chunk, *ends, strict=True)

    def _suited(self, update: ObservedUpdate) -> "TabLeak":
        """This attack as it treats batches of so many rows."""
        return replace(self, crossovers=0, members="all") if crowded(update.model.hidden, update.rows) else self

    def _search(self, group: Group, draw: Draw, advance: Advance) -> tuple[Array, Array, Array]:
        """All restarts: units, logits (V, R, B, size), losses (V, R) as projected rows."""
        prior, updates = group.prior, group.updates
        shape, tolerance = (self.restarts, updates[0].rows, prior.size), self.tolerance * prior.deviation
        starts = [initial_variables(self.seed, u, shape[1:], range(self.restarts), draw) for u in updates]
        variables = np.stack([s.T.reshape(shape) for s in starts])
        first, *others = stretches(self.iterations, self.crossovers, self.restarts)
        units, variables, losses = self._stretch(group, variables, first, advance)
        for number, steps in enumerate(others):
            rngs = [crossover_rng(self.seed, u, number) for u in updates]
            ends = zip(rngs, units, variables, losses, updates, strict=True)
            variables = np.stack([crossed(r, prior, u, v, own, o.labels, tolerance) for r, u, v, own, o in ends])
            units, variables, losses = self._stretch(group, variables, steps, advance)
        return units, prior.centre + prior.spread * variables, losses

    def _stretch(self, group: Group, variables: Array, steps: range, advance: Advance) -> tuple[Array, Array, Array]:
        """Moves variables (V, R, B, size) by some iterations: units, variables, losses as projected rows."""
        together = range(0, self.restarts, group.capacity)
        chunks = (variables[:, j : j + group.capacity] for j in together)
        parts = [self._optimise(group, c, steps, advance) for c in chunks]
        units, moved, losses = (np.concatenate(p, 1) for p in zip(*parts, strict=True))
        return units, moved, losses

    @torch.no_grad()
    def _optimise(self, group: Group, variables: Array, steps: range, advance: Advance) -> tuple[Array, Array, Array]:
        """The same for restarts that fit into memory together."""
        prior, shape = group.prior, variables.shape[:3]
        objective = self._objective(group.updates, shape[1])
        relaxation = Relaxation(prior, shape, self.device, DTYPES[self.dtype])
        moved = self._tensor(variables.reshape(shape[0], -1, prior.size).swapaxes(1, 2).copy())
        optimiser = OPTIMISERS[self.optimiser](moved, self.learning_rate)
        temperatures = islice(schedule(self.temperature), steps.start, steps.stop)
        endings = cooling_schedule(self.finish, self.iterations, steps)
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

    def _objective(self, updates: Sequence[ObservedUpdate], restarts: int) -> Objective:
        return matching_objective(
            updates[0].model,
            {name: self._tensor(np.stack([u.weights[name] for u in updates])) for name in updates[0].weights},
            {name: self._tensor(np.stack([u.gradient[name] for u in updates])) for name in updates[0].gradient},
            torch.tensor(np.stack([u.labels for u in updates]), device=self.device),
            restarts,
            self.loss,
        )

    def _losses(self, objective: Objective, prior: StructuralPrior, rows: Rows) -> Array:
        losses: Array = objective(self._tensor(prior.encode(rows)))[0].cpu().numpy().astype(np.float64)
        return losses

    def _conclude(
        self, prior: StructuralPrior, update: ObservedUpdate, units: Array, logits: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one update support."""
        if refusal := diverged(update, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units, logits = (np.take_along_axis(a, order[..., None], axis=1) for a in (units, logits))
        return pooled_claim(prior, update, units, self._pooled(prior, update, units, logits, losses))

    def _pooled(
        self, prior: StructuralPrior, update: ObservedUpdate, units: Array, logits: Array, losses: Array
    ) -> Rows:
        """The rows that matched restarts are pooled to."""
        how = str(self.pooling)
        if how == "none":
            return prior.project(units[losses.argmin()])
        if self.members == "all":
            return prior.project(pool(how, units, logits, prior))
        rows = pooled_rows(how, prior, units, logits, losses)
        objective = self._objective([update], len(rows.numbers))
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
