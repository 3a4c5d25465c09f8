"""A head start for trainings of several steps: one step in their place, that moves the weights as they did.

To simulate every local step costs many times a single gradient. But while the weights move little, all steps together
point where one step over all rows does, at weights between those that training began from and those that it ended at.
This is the surrogate model of Zhu, Yao and Blaschko (Surrogate model extension, ICML 2023). Its position between the
two is learned there; here it is the middle, the midpoint rule for the sum of gradients along the way.

Restarts look for rows that explain the update as such a step, by TabLeak on FedSGD, and begin on the simulated training
where they end. Approximate, and the worse the longer and the more bent the way of the weights.
"""

from dataclasses import replace

from leakledger.attacks.observed.update import ObservedUpdate, Schedule

POSITION = 0.5  # 0: the weights that training began from; 1: those that it ended at


def surrogate(update: ObservedUpdate) -> ObservedUpdate:
    """One step over all rows, in the order of the first epoch, in place of all steps of a local training."""
    whole = update.training
    one = Schedule(whole.rows, 1, whole.rows, whole.rate)
    moved = {name: w - POSITION * whole.rate * update.gradient[name] for name, w in update.weights.items()}
    return replace(update, schedule=one, labels=update.labels[: whole.rows], weights=moved)
