"""TabLeak: reconstructs a client's training batch from its gradient (Vero et al., ICML 2023, algorithm 1).

Many restarts look for rows whose gradient points in the direction of the observed one. A structural prior keeps them
rows of a table, the restarts are matched row by row and pooled by the median, and where they disagree a cell is unsure.

The adversary is honest but curious. It holds a client's FedSGD gradient in the clear, the model it was computed on, the
public layout of the encoded columns, and the batch's labels or their counts; it may know bounds of numeric features.
The network is a multilayer perceptron with cross-entropy loss. Approximate: near exact for batches far below the width
of the layers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

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
from attacks.labels import RECOVERIES
from attacks.tableak.ensemble import POOLINGS, diverged, matching_order, pool, pooled_claim
from attacks.tableak.losses import LOSSES
from attacks.tableak.objective import matching_objective
from attacks.tableak.optimiser import OPTIMISERS
from attacks.tableak.prior import Array, StructuralPrior
from attacks.tableak.relaxation import Relaxation
from attacks.tableak.start import INITIALISATIONS, Draw, initialisation, start, uniform
from attacks.tableak.targets import GRADIENT, MODEL, Target, find_targets
from attacks.tableak.temperature import schedule
from preprocess.models import layer_shapes
from preprocess.views import FeatureLayout, ModelSpec, View

__all__ = ["TabLeak", "bytes_per_restart", "start"]

REPORT_EVERY = 50  # iterations
DTYPES = {"float32": torch.float32, "float64": torch.float64}
Inverted = RecordsClaim | NotApplicable | Abstained
LEAST = {"restarts": 1, "iterations": 1, "seed": 0, "memory": 1, "tolerance": 0, "max_rows": 1}
CHOICES = {
    "pooling": POOLINGS,
    "loss": LOSSES,
    "initialisation": INITIALISATIONS,
    "optimiser": OPTIMISERS,
    "label_recovery": RECOVERIES,
    "dtype": DTYPES,
}


@dataclass(frozen=True)
class TabLeak(Attack):
    """Gradient inversion for tabular FedSGD, with the paper's settings by default.

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
    pooling: bool | str = "median"
    softmax: bool = True
    sigmoid: bool = True
    loss: str = "cosine"
    initialisation: str = "uniform"
    optimiser: str = "sign-adam"
    temperature: str | tuple[float, float] = "constant"
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
        check_least(self, LEAST)
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
        return concluded(self.invert(view, knowledge, found))

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
            outcomes[ready[target]] = self._conclude(prior, target, *ends)
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
                parts = [
                    self._optimise(spec, prior, chunk, range(j, min(j + capacity, self.restarts)), draw, advance)
                    for j in range(0, self.restarts, capacity)
                ]
                ends = (np.concatenate(p, 1) for p in zip(*parts, strict=True))
                yield from zip(chunk, *ends, strict=True)

    @torch.no_grad()
    def _optimise(
        self,
        spec: ModelSpec,
        prior: StructuralPrior,
        targets: Sequence[Target],
        restarts: range,
        draw: Draw,
        advance: Callable[[int], None],
    ) -> tuple[Array, Array, Array]:
        """Runs some restarts of targets with as many rows each: units, logits (V, R, B, size), losses (V, R)."""
        shape = (len(targets), len(restarts), targets[0].rows)
        objective = matching_objective(
            spec,
            {name: self._tensor(np.stack([t.weights[name] for t in targets])) for name in targets[0].weights},
            {name: self._tensor(np.stack([t.gradient[name] for t in targets])) for name in targets[0].gradient},
            torch.tensor(np.stack([t.labels for t in targets]), device=self.device),
            len(restarts),
            self.loss,
        )
        relaxation = Relaxation(prior, shape, self.device, DTYPES[self.dtype])
        variables = self._tensor(np.stack([start(self.seed, t, prior.size, restarts, draw) for t in targets]))
        optimiser = OPTIMISERS[self.optimiser](variables, self.learning_rate)
        for step, temperature in zip(range(1, self.iterations + 1), schedule(self.temperature), strict=False):
            _, gradient = objective(relaxation.columns(variables, temperature))
            optimiser.step(relaxation.pull(gradient))
            if step % REPORT_EVERY == 0 or step == self.iterations:
                advance((step % REPORT_EVERY or REPORT_EVERY) * shape[0] * shape[1])
        relaxation.columns(variables)
        units, ends = (
            t.mT.reshape(*shape, prior.size).cpu().numpy().astype(np.float64) for t in (relaxation.units, variables)
        )
        losses, _ = objective(self._tensor(prior.encode(prior.project(units))))
        return units, prior.centre + prior.spread * ends, losses.cpu().numpy().astype(np.float64)

    def _conclude(
        self, prior: StructuralPrior, target: Target, units: Array, logits: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one target support."""
        if refusal := diverged(target, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units, logits = (np.take_along_axis(a, order[..., None], axis=1) for a in (units, logits))
        how = str(self.pooling)
        rows = prior.project(units[best] if how == "none" else pool(how, units, logits, prior))
        return pooled_claim(prior, target, units, rows)

    def _tensor(self, array: Array) -> Tensor:
        return torch.tensor(array, dtype=DTYPES[self.dtype], device=self.device)


def bytes_per_restart(spec: ModelSpec, prior: StructuralPrior, rows: int, itemsize: int) -> int:
    """About what one restart occupies."""
    shapes = layer_shapes(spec)
    per_row = 9 * prior.size + prior.width + sum(4 * outputs + inputs for outputs, inputs in shapes)
    per_layer = sum(2 * max(rows * rows, outputs * inputs) for outputs, inputs in shapes)
    return itemsize * (rows * per_row + per_layer)
