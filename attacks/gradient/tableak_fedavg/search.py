"""Runs restarts: as many as fit in memory go down together, from random variables or from a head start.

Every restart begins at a point of its own, that depends on victim, round and restart only: how they are grouped changes
nothing but rounding errors. Shapes: V victims, R restarts, E epochs of N rows, T = E·N.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.matching.initialisation import initial_variables
from leakledger.attacks.gradient.matching.objective import Objective
from leakledger.attacks.gradient.matching.optimiser import SignAdam
from leakledger.attacks.gradient.matching.relaxation import Relaxation
from leakledger.attacks.gradient.matching.restarts import REPORT_EVERY
from leakledger.attacks.gradient.tableak_fedavg.epochs import Epochs, SeparateEpochs, TiedEpochs, repeated, replay
from leakledger.attacks.gradient.tableak_fedavg.memory import bytes_per_restart, chunks
from leakledger.attacks.gradient.tableak_fedavg.objective import update_objective
from leakledger.attacks.gradient.tableak_fedavg.surrogate import surrogate
from leakledger.attacks.observed.tabular import Array, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import ModelSpec

Merged = tuple[list[Array], list[Array]]
"""Per training: the merged units (R, N, size) of its restarts, and their losses (R,) as whole rows."""


@dataclass(frozen=True)
class Search:
    """Trainings that are searched together have the same schedule. `advance` hears of the iterations of all runs."""

    spec: ModelSpec
    prior: StructuralPrior
    seed: int
    learning_rate: float
    tied: bool
    tolerance: float
    device: str
    dtype: torch.dtype
    memory: int
    advance: Callable[[int], None]

    def head_start(self, updates: Sequence[ObservedUpdate], restarts: range, iterations: int) -> list[Array]:
        """Per training, the variables (R, size, N) that its restarts reach on its surrogate."""
        ones = [surrogate(u) for u in updates]
        reached: list[list[Array]] = [[] for _ in ones]
        for some, part in self._chunks(ones, restarts):
            schedule, labels = ones[0].training, np.stack([u.labels for u in ones[some]])
            epochs = SeparateEpochs(schedule, self._tensor(np.zeros(len(labels))), self.tolerance)
            objective = self._objective(ones[some], labels, len(part))
            variables = self._drawn(ones[some], schedule.rows, part)
            self._descend(objective, epochs, variables, len(part), iterations)
            ends = variables.view(len(labels), self.prior.size, len(part), -1).transpose(1, 2).cpu().numpy()
            for i, end in enumerate(ends, start=some.start):
                reached[i].append(end)
        return [np.concatenate(r) for r in reached]

    def merged(
        self,
        updates: Sequence[ObservedUpdate],
        starts: Sequence[Array] | None,
        iterations: int,
        weights: Sequence[float],
        restarts: range,
    ) -> Merged:
        """What some restarts end at on the simulated trainings, with `weights` of the prior for each training.

        They begin at `starts`, for each training the variables (restarts, size, N), else at random.
        """
        rows = updates[0].training.rows
        units = [[np.zeros((0, rows, self.prior.size))] for _ in updates]
        losses = [[np.zeros(0)] for _ in updates]
        for some, part in self._chunks(updates, restarts):
            begun = starts and [s[part.start : part.stop] for s in starts[some]]
            ends = self._merged(updates[some], begun, iterations, weights[some], part)
            for i, (tables, values) in enumerate(ends, start=some.start):
                units[i].append(tables)
                losses[i].append(values)
        return [np.concatenate(u) for u in units], [np.concatenate(values) for values in losses]

    def _merged(
        self,
        updates: Sequence[ObservedUpdate],
        starts: Sequence[Array] | None,
        iterations: int,
        weights: Sequence[float],
        restarts: range,
    ) -> list[tuple[Array, Array]]:
        """The same for restarts that fit in memory together."""
        schedule, labels = updates[0].training, np.stack([u.labels for u in updates])
        objective = self._objective(updates, labels, len(restarts))
        labels = labels.reshape(-1, schedule.epochs, schedule.rows)
        epochs: Epochs = SeparateEpochs(schedule, self._tensor(np.asarray(weights)), self.tolerance)
        if self.tied:
            epochs = TiedEpochs(schedule, labels, self.device)
        if starts:
            begun = self._tensor(np.stack(starts)).transpose(1, 2)
            variables = begun.flatten(2) if self.tied else repeated(begun, labels)
        else:
            variables = self._drawn(updates, epochs.rows, restarts)
        units = self._descend(objective, epochs, variables, len(restarts), iterations)
        return self._merge(objective, epochs, units, labels)

    @torch.no_grad()
    def _descend(
        self, objective: Objective, epochs: Epochs, variables: Tensor, restarts: int, iterations: int
    ) -> Array:
        """Moves variables (V, size, R·rows) in place, and returns the units (V, R, rows, size) where they end."""
        shape = (len(variables), restarts, epochs.rows)
        relaxation = Relaxation(self.prior, shape, self.device, self.dtype)
        adam = SignAdam(variables, self.learning_rate)
        for step in range(1, iterations + 1):
            columns = relaxation.columns(variables)
            _, gradient = objective(epochs.spread(columns))
            adam.step(relaxation.pull(epochs.collect(gradient, columns)))
            if step % REPORT_EVERY == 0 or step == iterations:
                self.advance((step % REPORT_EVERY or REPORT_EVERY) * shape[0] * shape[1])
        relaxation.columns(variables)
        units: Array = relaxation.units.mT.reshape(*shape, self.prior.size).cpu().numpy().astype(np.float64)
        return units

    def _objective(self, updates: Sequence[ObservedUpdate], labels: NDArray[np.int64], restarts: int) -> Objective:
        """The objective of updates with one schedule; labels (V, T)."""
        names = updates[0].weights
        weights = {name: self._tensor(np.stack([u.weights[name] for u in updates])) for name in names}
        observed = {name: self._tensor(np.stack([u.gradient[name] for u in updates])) for name in names}
        known = torch.tensor(labels, device=self.device)
        return update_objective(self.spec, updates[0].training, weights, observed, known, restarts)

    @torch.no_grad()
    def _merge(
        self, objective: Objective, epochs: Epochs, units: Array, labels: NDArray[np.int64]
    ) -> list[tuple[Array, Array]]:
        """Per victim, tables (R, N, size) from units (V, R, ·, size) of its restarts, and losses (R,) as whole rows."""
        victims, restarts = units.shape[:2]
        both = [[epochs.combine(self.prior, units[v, r], labels[v]) for r in range(restarts)] for v in range(victims)]
        merged = np.stack([[table for table, _ in each] for each in both])
        encoded = self.prior.encode(self.prior.project(merged))
        trained = [[replay(encoded[v, r], both[v][r][1]) for r in range(restarts)] for v in range(victims)]
        losses = objective(self._tensor(np.stack(trained)))[0].cpu().numpy().astype(np.float64)
        return list(zip(merged, losses, strict=True))

    def _chunks(self, updates: Sequence[ObservedUpdate], restarts: range) -> Iterator[tuple[slice, range]]:
        each = bytes_per_restart(self.spec, self.prior, updates[0].training, self.dtype.itemsize)
        return chunks(len(updates), restarts, max(1, self.memory // each))

    def _drawn(self, updates: Sequence[ObservedUpdate], rows: int, restarts: range) -> Tensor:
        """Random variables (V, size, R·rows)."""
        shape = (rows, self.prior.size)
        return self._tensor(np.stack([initial_variables(self.seed, u, shape, restarts) for u in updates]))

    def _tensor(self, array: Array) -> Tensor:
        return torch.tensor(array, dtype=self.dtype, device=self.device)
