"""The updates that FedAvg clients send: weights after local training, with the model that it began from.

A client with N rows goes through all of them once per epoch, in local batches of the agreed size (the last one of an
epoch may be smaller), and takes one step of gradient descent per batch. The sum of its gradients is the difference of
weights over the learning rate; under a proximal term (FedProx) earlier gradients count for less in it. But weights are
rounded in every step, and the difference carries that rounding as `noise`.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.aggregation import error_of_mean
from leakledger.attacks.observed.gradients import (
    check_labels,
    model_before,
    precision_of,
    read_each,
    row_count,
    tensors,
    unmodelled,
    unsuitable,
)
from leakledger.attacks.observed.update import Arrays, ObservedUpdate, Schedule, last_places
from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.views import Message, TrainingSpec, View

MOST_STEPS = 2**20  # behind one message; each takes memory


def find_trainings(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    any_loss: bool = False,
) -> list[ObservedUpdate] | NotApplicable | Abstained:
    """The local trainings in `view`, of chosen rounds and victims, labels granted or not, or why there is none.
    `any_loss`: of models too that are `unmodelled`.
    """
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    if reason := unsuitable(layout, spec, shared=False, any_loss=any_loss) or unknown_training(training):
        return NotApplicable(reason)
    return read_each(view, ClientWeights, rounds, victims, lambda m: _read(view, m, knowledge))


def unknown_training(training: TrainingSpec | None) -> str | None:
    """Why local training cannot be simulated; None where it can."""
    if training is None:
        return "the public facts name no training settings"
    batch = training.batch_size
    if training.optimizer != "sgd":
        return f"local steps of {training.optimizer} do not sum up gradients: weights tell no sum of these"
    if training.local_epochs < 1 or (batch is not None and batch < 1) or not 0 < training.learning_rate < np.inf:
        return (
            f"{training.local_epochs} local epochs of batches of {batch} at learning rate {training.learning_rate} "
            "cannot be simulated"
        )
    return None


def _read(view: View, message: Message, knowledge: AuxiliaryKnowledge) -> ObservedUpdate | NotApplicable | Abstained:
    """The update in one message of weights; all that is wrong with it is a reason, never an error."""
    source = f"the weights of {message.sender} in round {message.round}"
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    model = model_before(view, message)
    granted = None if unmodelled(spec) else knowledge.labels.get((message.sender, message.round))
    if spec is None or layout is None or training is None or model is None:
        return NotApplicable(f"{source} have no readable {GlobalModel.topic} message before them in their round")
    try:
        before, after = tensors(spec, model, "weights"), tensors(spec, message, "weights")
        rows = row_count(message)
        schedule = schedule_of(training, rows, min(training.batch_size or rows, rows))
        if schedule.total > MOST_STEPS * schedule.batch:
            return NotApplicable(f"{source} are said to be of more than {MOST_STEPS:,} local steps")
        if schedule.kept <= 0 and len(schedule.steps) > 1:  # the first step begins where the term is 0
            mu = f"a proximal term (mu {training.proximal:g} at learning rate {schedule.rate:g})"
            return NotApplicable(f"{source}: {len(schedule.steps)} local steps under {mu} take back what was before")
        labels = np.zeros(0, np.int64)
        if granted is not None:
            labels = check_labels(np.asarray(granted), schedule.total, spec.outputs)
            check_epochs(labels.reshape(schedule.epochs, rows))
    except ValueError as error:
        return NotApplicable(f"{source}: {error}")
    gradient = {name: (w - after[name]) / schedule.rate for name, w in before.items()}
    if not any(g.any() for g in gradient.values()):
        return Abstained(f"{source} are those of the model: its update is zero in every tensor ({', '.join(gradient)})")
    precision = max(precision_of(m, "weights") for m in (model, message))
    return ObservedUpdate(
        message.sender,
        message.round,
        rows,
        layout,
        spec,
        labels,
        before,
        gradient,
        precision,
        (model.sequence, message.sequence),
        schedule,
        float(np.hypot(rounding(before, gradient, precision, schedule), error_of_mean(view, 1, rows) / schedule.rate)),
        mechanisms=view.public.mechanisms,
        stretched=1 / schedule.rate,
    )


def schedule_of(training: TrainingSpec, rows: int, batch: int) -> Schedule:
    """The local steps over so many `rows` of a client in batches of `batch`."""
    return Schedule(rows, training.local_epochs, batch, float(training.learning_rate), float(training.proximal))


def rounding(weights: Arrays, gradient: Arrays, precision: float, schedule: Schedule) -> float:
    """The standard deviation of what rounding in every step leaves in the update of first-layer weights that moved.

    `precision` is the unit roundoff of the weights.
    """
    return float(len(schedule.steps) ** 0.5 * last_places(weights, gradient, precision) / schedule.rate)


def check_epochs(labels: NDArray[np.int64]) -> None:
    """Every epoch (E, N) goes through the same rows, so it has the same labels."""
    counts = np.sort(labels, axis=1)
    if (counts != counts[0]).any():
        raise ValueError("the labels of its epochs differ in number, though each epoch goes through the same rows")
