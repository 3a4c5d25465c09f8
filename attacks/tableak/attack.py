"""TabLeak: reconstructs a client's training batch from its gradient (Vero et al., ICML 2023, algorithm 1).

Many restarts look for rows whose gradient points in the direction of the observed one. A structural prior keeps them
rows of a table, the restarts are matched row by row and pooled by the median, and where they disagree a cell is unsure.

The adversary is honest but curious. It holds a client's FedSGD gradient in the clear, the model it was computed on, the
public layout of the encoded columns, and the batch's labels or their counts; it may know bounds of numeric features.
The network is a multilayer perceptron with cross-entropy loss. Approximate: near exact for batches far below the width
of the layers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from attacks.base import Abstained, Attack, AuxiliaryKnowledge, NotApplicable, Outcome, RecordsClaim
from attacks.tableak.ensemble import category_entropy, lower_median, matching_order, number_entropy
from attacks.tableak.objective import cosine_objective
from attacks.tableak.optimiser import SignAdam
from attacks.tableak.prior import Array, StructuralPrior
from attacks.tableak.relaxation import Relaxation
from attacks.tableak.targets import GRADIENT, MODEL, Target, find_targets
from preprocess.models import layer_shapes
from preprocess.views import ModelSpec, View

REPORT_EVERY = 50  # iterations
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TabLeak(Attack):
    """Gradient inversion for tabular FedSGD, with the paper's settings by default.

    `pooling=False` and `softmax=False` are the paper's ablations: the best restart alone, free categorical columns.
    `tolerance` is how many standard deviations apart two numbers count as different when restarts are matched.
    `recover_labels` takes labels that are not granted from the gradient; without it such a batch is not attacked.
    `rounds` and `victims` restrict what is attacked. `memory` bounds the bytes in use at a time: victims with batches
    of the same size run together as far as it goes. How they are grouped changes nothing but rounding errors: every
    restart starts from a point of its own. `progress(done, total)` hears of the iterations of all restarts.
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
    pooling: bool = True
    softmax: bool = True
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    tolerance: float = 0.319
    recover_labels: bool = False
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    memory: int = 2**28
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("restarts", 1), ("iterations", 1), ("seed", 0), ("memory", 1), ("tolerance", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not 0 < self.learning_rate < np.inf:
            raise ValueError(f"learning_rate is {self.learning_rate}; it must be positive")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {sorted(DTYPES)}")
        try:
            torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(f"device {self.device!r}: {error}") from None

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        targets = find_targets(view, knowledge, rounds=self.rounds, victims=self.victims, recover=self.recover_labels)
        if not isinstance(targets, list):
            return targets
        layout, spec = view.public.layout, view.public.model
        assert layout is not None  # find_targets refuses a view without
        assert spec is not None
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax)
        except ValueError as error:
            return NotApplicable(str(error))
        outcomes = [self._conclude(prior, *member) for member in self._reconstruct(spec, prior, targets)]
        claims = [o for o in outcomes if isinstance(o, RecordsClaim)]
        abstentions = [o for o in outcomes if isinstance(o, Abstained)]
        return claims or abstentions[0]

    def _reconstruct(
        self, spec: ModelSpec, prior: StructuralPrior, targets: Sequence[Target]
    ) -> Iterator[tuple[Target, Array, Array]]:
        """Every target, the units (R, B, size) that its restarts ended at, and their losses (R,) as projected rows."""
        advance = _counter(self.progress, len(targets) * self.restarts * self.iterations)
        for rows in sorted({t.rows for t in targets}):
            alike = [t for t in targets if t.rows == rows]
            capacity = max(1, self.memory // bytes_per_restart(spec, prior, rows, DTYPES[self.dtype].itemsize))
            together = max(1, capacity // self.restarts)
            for i in range(0, len(alike), together):
                chunk = alike[i : i + together]
                parts = [
                    self._optimise(spec, prior, chunk, range(j, min(j + capacity, self.restarts)), advance)
                    for j in range(0, self.restarts, capacity)
                ]
                units, losses = (np.concatenate(p, 1) for p in zip(*parts, strict=True))
                yield from zip(chunk, units, losses, strict=True)

    @torch.no_grad()
    def _optimise(
        self,
        spec: ModelSpec,
        prior: StructuralPrior,
        targets: Sequence[Target],
        restarts: range,
        advance: Callable[[int], None],
    ) -> tuple[Array, Array]:
        """Runs some restarts of targets with equally many rows, all at once: units (V, R, B, size), losses (V, R)."""
        shape = (len(targets), len(restarts), targets[0].rows)
        objective = cosine_objective(
            spec,
            {name: self._tensor(np.stack([t.weights[name] for t in targets])) for name in targets[0].weights},
            {name: self._tensor(np.stack([t.gradient[name] for t in targets])) for name in targets[0].gradient},
            torch.tensor(np.stack([t.labels for t in targets]), device=self.device),
            len(restarts),
        )
        relaxation = Relaxation(prior, shape, self.device, DTYPES[self.dtype])
        variables = self._tensor(np.stack([start(self.seed, t, prior.size, restarts) for t in targets]))
        adam = SignAdam(variables, self.learning_rate)
        for step in range(1, self.iterations + 1):
            _, gradient = objective(relaxation.columns(variables))
            adam.step(relaxation.pull(gradient))
            if step % REPORT_EVERY == 0 or step == self.iterations:
                advance((step % REPORT_EVERY or REPORT_EVERY) * shape[0] * shape[1])
        relaxation.columns(variables)
        units = relaxation.units.mT.reshape(*shape, prior.size).cpu().numpy().astype(np.float64)
        losses, _ = objective(self._tensor(prior.encode(prior.project(units))))
        return units, losses.cpu().numpy().astype(np.float64)

    def _conclude(
        self, prior: StructuralPrior, target: Target, units: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one target support."""
        if not (np.isfinite(units).all() and np.isfinite(losses).all()):
            return Abstained(f"no loss for {target.victim} in round {target.round} is finite: its model has diverged")
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units = np.take_along_axis(units, order[..., None], axis=1)
        rows = prior.project(lower_median(units) if self.pooling else units[best])
        doubt = [category_entropy(b) for b in prior.beliefs(units)]
        return RecordsClaim(
            victim=target.victim,
            round=target.round,
            categories=rows.categories,
            numbers=rows.numbers,
            category_entropy=np.stack(doubt, -1) if doubt else np.zeros((target.rows, 0)),
            number_entropy=number_entropy(units[..., prior.positions] * prior.range, prior.deviation / prior.scale),
            evidence=target.evidence,
        )

    def _tensor(self, array: Array) -> Tensor:
        return torch.tensor(array, dtype=DTYPES[self.dtype], device=self.device)


def start(seed: int, target: Target, size: int, restarts: range) -> Array:
    """Uniform variables in [-1, 1] (size, R·B) that depend on victim, round and restart, not on what runs beside."""
    names = [seed, target.round, *target.victim.encode()]
    coins = (np.random.default_rng([restart, *names]) for restart in restarts)
    return np.concatenate([c.uniform(-1, 1, (target.rows, size)) for c in coins]).T


def bytes_per_restart(spec: ModelSpec, prior: StructuralPrior, rows: int, itemsize: int) -> int:
    """About what one restart occupies."""
    shapes = layer_shapes(spec)
    per_row = 9 * prior.size + prior.width + sum(4 * outputs + inputs for outputs, inputs in shapes)
    per_layer = sum(2 * max(rows * rows, outputs * inputs) for outputs, inputs in shapes)
    return itemsize * (rows * per_row + per_layer)


def _counter(progress: Callable[[int, int], None] | None, total: int) -> Callable[[int], None]:
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        if progress is not None:
            progress(done, total)

    return advance
