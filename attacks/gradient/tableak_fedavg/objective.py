"""The objective: how far the update of a simulated local training points away from the observed one.

1 - cosine of the two sums of gradients, all parameters being one vector (TabLeak's FedAvg experiment, after Dimitrov et
al. 2022: the simulation is differentiated through). Two implementations answer alike. `AutogradUpdateObjective` takes
every model; `tableak_fedavg.unrolled` takes piecewise linear activations, faster. A training of a single step is
FedSGD, for which `matching.objective` has the fastest one.

Shapes: V victims, R restarts, T rows in all local batches of all epochs, d columns.
"""

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from leakledger.attacks.gradient.matching.losses import Cosine
from leakledger.attacks.gradient.matching.objective import (
    SLOPE_BELOW_ZERO,
    Objective,
    Tensors,
    matching_objective,
    piecewise_linear,
)
from leakledger.attacks.gradient.tableak_fedavg.unrolled import UnrolledObjective
from leakledger.attacks.observed.update import Schedule, Steps
from leakledger.preprocess.models import forward, mean_loss
from leakledger.preprocess.views import ModelSpec


def update_objective(
    spec: ModelSpec, schedule: Schedule, weights: Tensors, observed: Tensors, labels: Tensor, restarts: int
) -> Objective:
    """The objective for V victims with the weights they began from and observed updates by name, each (V, ...), and
    labels (V, T). No victim's update is zero.
    """
    if len(schedule.steps) == 1:
        return matching_objective(spec, weights, observed, labels, restarts)
    if piecewise_linear(spec):
        slope = SLOPE_BELOW_ZERO[spec.activation]
        unit = Cosine(observed).observed
        return UnrolledObjective(len(spec.hidden) + 1, slope, schedule, weights, unit, labels, restarts)
    return AutogradUpdateObjective(spec, schedule.steps, schedule.rate, weights, observed, labels, schedule.kept)


def simulated_update(
    spec: ModelSpec, steps: Steps, rate: float, weights: Tensors, rows: Tensor, labels: Tensor, kept: float = 1.0
) -> dict[str, Tensor]:
    """The sum of the gradients (by name) of local training on rows (T, d): the difference of weights over `rate`. A
    step leaves a share `kept` of what was before.
    """
    total = {name: torch.zeros_like(w) for name, w in weights.items()}
    for start, end in steps:
        now = {name: w - rate * total[name] for name, w in weights.items()}
        step = grad(_batch_loss, argnums=1)(spec, now, rows[start:end], labels[start:end])
        total = {name: kept * t + step[name] for name, t in total.items()}
    return total


class AutogradUpdateObjective:
    """The objective as it is defined, differentiated by autograd."""

    def __init__(
        self,
        spec: ModelSpec,
        steps: Steps,
        rate: float,
        weights: Tensors,
        observed: Tensors,
        labels: Tensor,
        kept: float = 1.0,
    ) -> None:
        self.spec, self.steps, self.rate, self.kept = spec, steps, rate, kept
        self.weights, self.loss, self.labels = dict(weights), Cosine(observed), labels
        self._evaluate = vmap(vmap(grad_and_value(self._loss), in_dims=(0, None, None, None)))

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        gradient, loss = self._evaluate(rows, self.weights, self.loss.observed, self.labels)
        return loss, gradient

    def _loss(self, rows: Tensor, weights: dict[str, Tensor], observed: dict[str, Tensor], labels: Tensor) -> Tensor:
        """One candidate training (T, d)."""
        update = simulated_update(self.spec, self.steps, self.rate, weights, rows, labels, self.kept)
        return self.loss.between(update, observed)


def _batch_loss(spec: ModelSpec, weights: dict[str, Tensor], rows: Tensor, labels: Tensor) -> Tensor:
    return mean_loss(spec, forward(spec, weights, rows), labels)
