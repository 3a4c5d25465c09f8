"""Updates of other rounds whose batch has the very rows of one: what a client sends again of the same rows.

In FedSGD a client that gives all its rows to every batch sends gradients of the same rows, each at another model, and
under a defense with other noise. That is so where `batch_size` says all rows, and where a client states fewer rows than
that, since it has no more. Of R rounds an adversary has R noisy looks at one batch.

A client of just as many rows as `batch_size` does so too, which nobody else can tell. Rows that come again in some
batches and not in others are not looked for, nor are those of local trainings.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.views import TrainingSpec, View

Item = TypeVar("Item")
MOST = 64  # rounds, evenly over all; each costs the memory of one more network and its gradient


def with_repeats(
    view: View,
    knowledge: AuxiliaryKnowledge,
    updates: Sequence[ObservedUpdate],
    find: Callable[..., object],
) -> list[ObservedUpdate]:
    """The updates, each defended one of a client's whole table with those of several rounds as `find` reads them, in
    their order; the same for every round.
    """
    whole = {u.victim for u in updates if u.mechanisms and of_all_rows(u, view.public.training)}
    if not whole:
        return list(updates)
    rounds = sorted({m.round for m in view.readable(GlobalModel) if m.round is not None})
    found = find(view, knowledge, rounds=spread(rounds), victims=None)
    again = [u for u in found if of_all_rows(u, view.public.training)] if isinstance(found, list) else []
    return [replace(u, repeats=tuple(r for r in again if alike(u, r))) if u.victim in whole else u for u in updates]


def of_all_rows(update: ObservedUpdate, training: TrainingSpec | None) -> bool:
    """Whether every client behind a gradient has given all its rows to the batch."""
    if training is None or training.algorithm != "fedsgd" or training.sampling != "fixed":
        return False
    rows = [m.rows for m in update.members] or [update.rows]
    return training.batch_size is None or max(rows) < training.batch_size


def alike(one: ObservedUpdate, other: ObservedUpdate) -> bool:
    """Whether two updates of whole tables are of the same rows, as far as what is known of them goes."""
    same = one.victim == other.victim and one.rows == other.rows and one.mechanisms == other.mechanisms
    known = bool(len(one.labels) and len(other.labels))
    return same and not (known and not np.array_equal(np.sort(one.labels), np.sort(other.labels)))


def spread(some: Sequence[Item], most: int = MOST) -> list[Item]:
    """At most so many of these, evenly over all."""
    return [some[i] for i in np.linspace(0, len(some) - 1, min(most, len(some))).round().astype(int)]
