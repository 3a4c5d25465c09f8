"""What clients send in training, as sums of gradients: what exact attacks work on, in FedSGD and in FedAvg.

A FedSGD gradient is the sum of one. In FedAvg the weights that come back tell the sum over all local steps: their
difference over the learning rate. Exact attacks need no more, neither the order of the rows nor the labels; but weights
are rounded in every step, and the difference carries that rounding.
"""

from collections.abc import Collection

import numpy as np

from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from attacks.fedavg.targets import WEIGHTS, LocalTraining, find_trainings
from attacks.tableak.targets import GRADIENT, Target, chosen_messages, find_targets
from preprocess.views import View

UNIFORM = 12**-0.5  # the standard deviation of a rounding error, in units of the last place


def find_updates(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
) -> list[Target] | NotApplicable | Abstained:
    """The sums of gradients in `view`, of chosen rounds and victims, labels known or not, or why there is none."""
    if chosen_messages(view, GRADIENT, rounds, victims) or not chosen_messages(view, WEIGHTS, rounds, victims):
        return find_targets(view, knowledge, rounds=rounds, victims=victims, labels_needed=False)
    found = find_trainings(view, knowledge, rounds=rounds, victims=victims, labels_needed=False, shared=False)
    return [summed(t) for t in found] if isinstance(found, list) else found


def summed(training: LocalTraining) -> Target:
    """The sum of gradients of a local training, with its labels where they are known, in the order of one epoch."""
    schedule = training.schedule
    return Target(
        training.victim,
        training.round,
        schedule.rows,
        training.labels[: schedule.rows],
        training.weights,
        training.update,
        training.evidence,
        rate=schedule.rate,
        noise=rounding(training),
    )


def rounding(training: LocalTraining) -> float:
    """The standard deviation of what rounding in every step leaves in the update of first-layer weights that moved."""
    schedule, names = training.schedule, ("0.weight", "0.bias")
    weights, update = (np.concatenate([t[n].ravel() for n in names]) for t in (training.weights, training.update))
    single = np.array_equal(weights, weights.astype(np.float32))
    moved = np.abs(weights[update != 0]).astype(np.float32 if single else np.float64)
    places = np.spacing(moved).astype(np.float64)
    return float(UNIFORM * np.sqrt(len(schedule.steps) * (places**2).sum() / max(1, len(places))) / schedule.rate)
