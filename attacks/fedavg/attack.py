"""TabLeak on federated averaging: reconstructs a client's rows from the weights after its local training.

The FedAvg experiment of Vero et al. (ICML 2023, section 4 and appendix B), which builds on Dimitrov et al. (Data
leakage in federated averaging, TMLR 2022). Restarts look for rows of every epoch such that local training on them,
simulated step by step, moves the weights in the observed direction; a prior holds the epochs' mean rows together. Then
each restart merges its epochs, restarts are matched to the best one and pooled by the median, as in TabLeak.

The adversary is honest but curious. It holds a client's weights in the clear and the model that the training began
from, knows the training settings, the public layout, and the labels of every local batch in order; it may know bounds
of numeric features. The model is a multilayer perceptron with cross-entropy loss. Approximate, and the more so the more
local steps there are.

The paper chooses the weight of the prior by the accuracy, with the truth at hand. Here the adversary chooses by what it
can measure: the loss of the merged rows, as whole table rows, on the first few restarts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
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
from attacks.fedavg.epochs import Epochs, SeparateEpochs, TiedEpochs, replay
from attacks.fedavg.objective import update_objective
from attacks.fedavg.targets import WEIGHTS, LocalTraining, Schedule, find_trainings
from attacks.tableak.attack import DTYPES, LEAST, REPORT_EVERY
from attacks.tableak.ensemble import diverged, lower_median, matching_order, pooled_claim
from attacks.tableak.objective import Objective
from attacks.tableak.optimiser import SignAdam
from attacks.tableak.prior import Array, StructuralPrior
from attacks.tableak.relaxation import Relaxation
from attacks.tableak.start import drawn
from attacks.tableak.targets import MODEL
from preprocess.models import layer_shapes
from preprocess.views import ModelSpec, View

PUBLISHED_WEIGHTS = (0.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)


@dataclass(frozen=True)
class TabLeakFedAvg(Attack):
    """Inversion of local training for tabular FedAvg, with the paper's settings by default.

    `prior_weights` are the weights of the prior between epochs to choose from, `trials` the restarts on which they are
    compared; a single weight, or a single epoch, needs no choice. `tied` gives all epochs one set of rows instead, in
    orders that agree with the labels: exact where an epoch is one batch, and near it while the weights hardly move; no
    prior is needed then. Trainings on more than `max_rows` rows, counted over all epochs, are left alone. Other options
    are those of `TabLeak`. How victims and restarts are grouped to fit `memory`
    changes nothing but rounding errors. Raises ValueError for settings out of range.
    """

    technique = "tableak_fedavg"
    reference = (
        "Vero, Balunović, Dimitrov, Vechev: TabLeak, ICML 2023, appendix B; "
        "Dimitrov, Balunović, Konstantinov, Vechev: Data Leakage in Federated Averaging, TMLR 2022"
    )
    asset = ("records",)
    topics = frozenset({WEIGHTS, MODEL})
    assumes = (
        "honest but curious; the weights after local training in the clear; the labels of every local batch known, in "
        "order; a multilayer perceptron"
    )

    restarts: int = 15
    iterations: int = 1500
    learning_rate: float = 0.06
    prior_weights: tuple[float, ...] = PUBLISHED_WEIGHTS
    trials: int = 3
    tied: bool = False
    pooling: bool = True
    softmax: bool = True
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    tolerance: float = 0.319
    max_rows: int = 512
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    memory: int = 2**28
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_least(self, {**LEAST, "trials": 1})
        check_positive(self, "learning_rate")
        if not self.prior_weights or not all(0 <= w < np.inf for w in self.prior_weights):
            raise ValueError(f"prior_weights is {self.prior_weights}; it needs one or more finite numbers from 0")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {sorted(DTYPES)}")
        check_device(self.device)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        found = find_trainings(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(found, list):
            return found
        trainings = [t for t in found if t.schedule.total <= self.max_rows]
        if not trainings:
            least = min(t.schedule.total for t in found)
            return NotApplicable(f"every client trains on more than max_rows = {self.max_rows} rows, {least} at least")
        layout, spec = view.public.layout, view.public.model
        assert layout is not None  # find_trainings refuses a view without
        assert spec is not None
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax)
        except ValueError as error:
            return NotApplicable(str(error))
        outcomes = [
            self._conclude(prior, *member)
            for _, alike in groupby(sorted(trainings, key=_schedule), key=_schedule)
            for member in self._reconstruct(spec, prior, list(alike))
        ]
        return concluded(outcomes)

    def _reconstruct(
        self, spec: ModelSpec, prior: StructuralPrior, trainings: Sequence[LocalTraining]
    ) -> Iterator[tuple[LocalTraining, Array, Array]]:
        """Every training, the merged units (R, N, size) that its restarts ended at, and their losses (R,) as rows."""
        schedule = trainings[0].schedule
        several = schedule.epochs > 1 and not self.tied and len(self.prior_weights) > 1
        choices = self.prior_weights if several else self.prior_weights[:1]
        trials = min(self.trials, self.restarts) if several else 0
        runs = len(trainings) * (len(choices) * trials + self.restarts - trials)
        advance = counter(self.progress, runs * self.iterations)
        found = [self._in_chunks(spec, prior, trainings, [w] * len(trainings), range(trials), advance) for w in choices]
        trial_losses = np.array([[part.sum() for part in losses] for _, losses in found])  # (choices, trainings)
        chosen = np.where(np.isfinite(trial_losses), trial_losses, np.inf).argmin(0)
        weights = [choices[c] for c in chosen]
        rest = self._in_chunks(spec, prior, trainings, weights, range(trials, self.restarts), advance)
        for i, (training, c) in enumerate(zip(trainings, chosen, strict=True)):
            (units, losses), (more, others) = found[c], rest
            yield training, np.concatenate([units[i], more[i]]), np.concatenate([losses[i], others[i]])

    def _in_chunks(
        self,
        spec: ModelSpec,
        prior: StructuralPrior,
        trainings: Sequence[LocalTraining],
        weights: Sequence[float],
        restarts: range,
        advance: Callable[[int], None],
    ) -> tuple[list[Array], list[Array]]:
        """Per training, merged units (R, N, size) and losses (R,) of some restarts, as many at a time as fit."""
        schedule = trainings[0].schedule
        units = [[np.zeros((0, schedule.rows, prior.size))] for _ in trainings]
        losses = [[np.zeros(0)] for _ in trainings]
        capacity = max(1, self.memory // bytes_per_restart(spec, prior, schedule, DTYPES[self.dtype].itemsize))
        together = max(1, capacity // max(1, len(restarts)))
        for i in range(0, len(trainings), together):
            some = slice(i, i + together)
            for j in range(restarts.start, restarts.stop, capacity):
                part = range(j, min(j + capacity, restarts.stop))
                found = self._optimise(spec, prior, trainings[some], weights[some], part, advance)
                for k, (tables, values) in enumerate(found, start=i):
                    units[k].append(tables)
                    losses[k].append(values)
        return [np.concatenate(u) for u in units], [np.concatenate(values) for values in losses]

    @torch.no_grad()
    def _optimise(
        self,
        spec: ModelSpec,
        prior: StructuralPrior,
        trainings: Sequence[LocalTraining],
        weights: Sequence[float],
        restarts: range,
        advance: Callable[[int], None],
    ) -> list[tuple[Array, Array]]:
        """Runs some restarts of trainings with one schedule, all at once; per training, merged units and losses."""
        schedule = trainings[0].schedule
        labels = np.stack([t.labels for t in trainings])
        objective = self._objective(spec, trainings, labels, len(restarts))
        labels = labels.reshape(-1, schedule.epochs, schedule.rows)
        epochs: Epochs = SeparateEpochs(schedule, self._tensor(np.asarray(weights)), self.tolerance)
        if self.tied:
            epochs = TiedEpochs(schedule, labels, self.device)
        shape = (len(trainings), len(restarts), epochs.rows)
        relaxation = Relaxation(prior, shape, self.device, DTYPES[self.dtype])
        size = (epochs.rows, prior.size)
        starts = [drawn(self.seed, t.victim, t.round, size, restarts) for t in trainings]
        variables = self._tensor(np.stack(starts))
        adam = SignAdam(variables, self.learning_rate)
        for step in range(1, self.iterations + 1):
            columns = relaxation.columns(variables)
            _, gradient = objective(epochs.spread(columns))
            adam.step(relaxation.pull(epochs.collect(gradient, columns)))
            if step % REPORT_EVERY == 0 or step == self.iterations:
                advance((step % REPORT_EVERY or REPORT_EVERY) * shape[0] * shape[1])
        relaxation.columns(variables)
        units = relaxation.units.mT.reshape(*shape, prior.size).cpu().numpy().astype(np.float64)
        return self._merge(prior, objective, epochs, units, labels)

    def _objective(
        self, spec: ModelSpec, trainings: Sequence[LocalTraining], labels: NDArray[np.int64], restarts: int
    ) -> Objective:
        """The objective of trainings with one schedule; labels (V, T)."""
        names = trainings[0].weights
        weights = {name: self._tensor(np.stack([t.weights[name] for t in trainings])) for name in names}
        updates = {name: self._tensor(np.stack([t.update[name] for t in trainings])) for name in names}
        known = torch.tensor(labels, device=self.device)
        return update_objective(spec, trainings[0].schedule, weights, updates, known, restarts)

    def _merge(
        self, prior: StructuralPrior, objective: Objective, epochs: Epochs, units: Array, labels: NDArray[np.int64]
    ) -> list[tuple[Array, Array]]:
        """Per victim, tables (R, N, size) from units (V, R, ·, size) of its restarts, and losses (R,) as whole rows."""
        victims, restarts = units.shape[:2]
        both = [[epochs.combine(prior, units[v, r], labels[v]) for r in range(restarts)] for v in range(victims)]
        merged = np.stack([[table for table, _ in each] for each in both])
        encoded = prior.encode(prior.project(merged))
        trained = [[replay(encoded[v, r], both[v][r][1]) for r in range(restarts)] for v in range(victims)]
        losses = objective(self._tensor(np.stack(trained)))[0].cpu().numpy().astype(np.float64)
        return list(zip(merged, losses, strict=True))

    def _conclude(
        self, prior: StructuralPrior, training: LocalTraining, units: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one training support."""
        if refusal := diverged(training, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units = np.take_along_axis(units, order[..., None], axis=1)
        rows = prior.project(lower_median(units) if self.pooling else units[best])
        return pooled_claim(prior, training, units, rows)

    def _tensor(self, array: Array) -> Tensor:
        return torch.tensor(array, dtype=DTYPES[self.dtype], device=self.device)


def bytes_per_restart(spec: ModelSpec, prior: StructuralPrior, schedule: Schedule, itemsize: int) -> int:
    """About what one restart occupies: weights of every local step, and what each row leaves in each layer."""
    shapes = layer_shapes(spec)
    per_row = 9 * prior.size + 3 * prior.width + sum(4 * outputs + 3 * inputs for outputs, inputs in shapes)
    per_step = sum(outputs * (inputs + 1) for outputs, inputs in shapes)
    return itemsize * (schedule.total * per_row + (len(schedule.steps) + 4) * per_step)


def _schedule(training: LocalTraining) -> tuple[int, int, int, float]:
    s = training.schedule
    return s.rows, s.epochs, s.batch, s.rate
