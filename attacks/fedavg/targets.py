"""What a view offers to invert: one local training each, with the model it began from and what it ended at.

A client with N rows goes through all of them once per epoch, in local batches of the agreed size (the last one of an
epoch may be smaller), and takes one step of gradient descent per batch. The sum of its gradients is the difference of
weights over the learning rate: the `update`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from attacks.tableak.targets import (
    MODEL,
    Arrays,
    check_labels,
    model_told,
    read_each,
    row_count,
    tensors,
    unsuitable,
)
from preprocess.views import Message, TrainingSpec, View

WEIGHTS = "train.weights"
Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schedule:
    """How a client trains: `epochs` times over `rows` rows, in batches of `batch`, at learning rate `rate`."""

    rows: int
    epochs: int
    batch: int
    rate: float

    @property
    def total(self) -> int:
        """Rows in all local batches of all epochs."""
        return self.rows * self.epochs

    @property
    def steps(self) -> Steps:
        """First and past-the-last of each local batch, counted over all epochs."""
        starts = [(e * self.rows, i) for e in range(self.epochs) for i in range(0, self.rows, self.batch)]
        return tuple((at + i, at + min(i + self.batch, self.rows)) for at, i in starts)


@dataclass(frozen=True, eq=False)
class LocalTraining:
    """What `victim` did in `round`. Labels (epochs · rows,) in the order of the local batches, none where they are not
    known and not needed; `weights` that it began from and `update`, the sum of its gradients, by name.
    """

    victim: str
    round: int
    schedule: Schedule
    labels: NDArray[np.int64] = field(repr=False)
    weights: Arrays = field(repr=False)
    update: Arrays = field(repr=False)
    evidence: tuple[int, ...] = ()


def find_trainings(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    labels_needed: bool = True,
    shared: bool = True,
) -> list[LocalTraining] | NotApplicable | Abstained:
    """The local trainings in `view` that can be inverted, of chosen rounds and victims, or why there is none.

    `labels_needed=False` does without labels; `shared` is that of `unsuitable`.
    """
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    if reason := unsuitable(layout, spec, shared=shared) or _unknown(training):
        return NotApplicable(reason)
    return read_each(view, WEIGHTS, rounds, victims, lambda m: _read(view, m, knowledge, labels_needed))


def _unknown(training: TrainingSpec | None) -> str | None:
    """Why local training cannot be simulated; None where it can."""
    if training is None:
        return "the public facts name no training settings"
    batch = training.batch_size
    if training.local_epochs < 1 or (batch is not None and batch < 1) or not 0 < training.learning_rate < np.inf:
        return (
            f"{training.local_epochs} local epochs of batches of {batch} at learning rate {training.learning_rate} "
            "cannot be simulated"
        )
    return None


def _read(
    view: View, message: Message, knowledge: AuxiliaryKnowledge, labels_needed: bool
) -> LocalTraining | NotApplicable | Abstained:
    """The training behind one message; all that is wrong with it is a reason, never an error."""
    source = f"the weights of {message.sender} in round {message.round}"
    spec, training = view.public.model, view.public.training
    model = model_told(view, message)
    labels = knowledge.labels.get((message.sender, message.round))
    if spec is None or training is None or model is None:
        return NotApplicable(f"{source} have no readable {MODEL} message before them in their round")
    if labels is None and labels_needed:
        return NotApplicable(f"labels of {message.sender} in round {message.round} are not known")
    try:
        before, after = tensors(spec, model, "weights"), tensors(spec, message, "weights")
        rows = row_count(message)
        schedule = Schedule(
            rows, training.local_epochs, min(training.batch_size or rows, rows), float(training.learning_rate)
        )
        known = np.zeros(0, np.int64)
        if labels is not None:
            known = check_labels(np.asarray(labels), schedule.total, spec.outputs)
            _check_epochs(known.reshape(schedule.epochs, rows))
    except ValueError as error:
        return NotApplicable(f"{source}: {error}")
    update = {name: (w - after[name]) / schedule.rate for name, w in before.items()}
    if not any(u.any() for u in update.values()):
        return Abstained(f"{source} are those of the model: its update is zero in every tensor ({', '.join(update)})")
    evidence = (model.sequence, message.sequence)
    return LocalTraining(message.sender, message.round, schedule, known, before, update, evidence)


def _check_epochs(labels: NDArray[np.int64]) -> None:
    """Every epoch (E, N) goes through the same rows, so it has the same labels."""
    counts = np.sort(labels, axis=1)
    if (counts != counts[0]).any():
        raise ValueError("the labels of its epochs differ in number, though each epoch goes through the same rows")
