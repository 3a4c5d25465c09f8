"""Updates of other rounds whose batch has the very rows of one: what a client sends again of the same rows.

In FedSGD a client that gives all its rows to every batch sends gradients of the same rows, each at another model, and
under a defense with other noise. That is so where `batch_size` says all rows, and where a client states fewer rows than
that, since it has no more. A local training (FedAvg) goes through all rows in every round. Of R rounds an adversary has
R noisy looks at one batch.

A client of just as many rows as `batch_size` does so too. Its updates do not tell; how many rows it has, it may have
said when moments or rows were collected (`stated`), which is looked up. Rows that come again in some batches and not in
others are not looked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.evaluated import rows_behind
from leakledger.attacks.observed.stated import columns, moments
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel
from leakledger.preprocess.views import TrainingSpec, View

Item = TypeVar("Item")
MOST = 64  # rounds, evenly over all in which a client took part
PLACES = 64  # rows times models that are read side by side, at most, unless these are two
NUMBERS = 2**26  # of weights and gradients of all of them, half a gigabyte


def with_repeats(
    view: View,
    knowledge: AuxiliaryKnowledge,
    updates: Sequence[ObservedUpdate],
    find: Callable[..., object],
) -> list[ObservedUpdate]:
    """The updates, each defended one of a client's whole table with those of several rounds as `find` reads them, in
    their order; the same for every round.
    """
    defended = [u for u in updates if u.mechanisms]
    training, rows = view.public.training, stated_rows(view) if defended else {}
    whole = {u.victim: u for u in defended if of_all_rows(u, training, rows)}
    if not whole:
        return list(updates)
    numbers = 2 * sum(g.size for u in whole.values() for g in u.gradient.values())
    most = min(MOST, max(2, NUMBERS // numbers))
    rounds = {victim: spread(rounds_of(view, victim), most) for victim in whole}
    read = {r for own in rounds.values() for r in own}
    found = find(view, in_all_rounds(knowledge, read), rounds=read, victims=None)
    again = [u for u in found if of_all_rows(u, training, rows)] if isinstance(found, list) else []
    return [
        replace(u, repeats=tuple(r for r in again if r.round in rounds[u.victim] and alike(u, r)))
        if u.victim in whole
        else u
        for u in updates
    ]


def models_of(rounds: int, rows: int, most: int) -> int:
    """By how many models so many rounds of batches of `rows` rows are read, at most."""
    return min(most, rounds, max(2, PLACES // rows))


def in_all_rounds(knowledge: AuxiliaryKnowledge, rounds: Collection[int]) -> AuxiliaryKnowledge:
    """What is known of batches of all rows: labels that are granted of one round are those of every other, in some
    order. So it is known of how many rows a sum over several clients is.
    """
    granted = {client: labels for (client, _), labels in knowledge.labels.items()}
    every = {(client, r): labels for client, labels in granted.items() for r in rounds}
    return replace(knowledge, labels={**every, **knowledge.labels})


def rounds_of(view: View, victim: str) -> list[int]:
    """The rounds in which a client sent an update that can be read; of several clients, or where none can, those of
    which a model was told.
    """
    kinds = (ClientGradient, ClientWeights)
    sent = {m.round for kind in kinds for m in view.readable(kind) if m.sender == victim}
    return sorted(r for r in sent or {m.round for m in view.readable(GlobalModel)} if r is not None)


def of_all_rows(update: ObservedUpdate, training: TrainingSpec | None, stated: Mapping[str, int]) -> bool:
    """Whether every client behind an update has given all its rows to it. `stated`: how many these are, of whom it is
    known, those that validate among them.
    """
    if training is None or training.sampling != "fixed":
        return False
    if training.algorithm == "fedavg" or training.batch_size is None:
        return True
    given = {m.client: m.rows for m in update.members} or {update.victim: update.rows}
    return all(n < training.batch_size or _has_no_more(stated.get(c), n, training) for c, n in given.items())


def _has_no_more(stated: int | None, rows: int, training: TrainingSpec) -> bool:
    """Whether a client that has stated so many rows trains on no more than `rows`."""
    if stated is None or training.patience is None:
        return stated == rows
    return stated in rows_behind(rows, training.validation).tolist()


def stated_rows(view: View) -> dict[str, int]:
    """How many rows clients outside said they have, where moments or rows are collected."""
    claims = (*moments(view), *columns(view))
    return {c.party: int(c.estimate) for c in claims if c.statistic == "count"}


def alike(one: ObservedUpdate, other: ObservedUpdate) -> bool:
    """Whether two updates of whole tables are of the same rows, as far as what is known of them goes."""
    same = one.victim == other.victim and one.rows == other.rows and one.mechanisms == other.mechanisms
    known = bool(len(one.labels) and len(other.labels))
    return same and not (known and not np.array_equal(np.sort(one.labels), np.sort(other.labels)))


def spread(some: Sequence[Item], most: int = MOST) -> list[Item]:
    """At most so many of these, evenly over all."""
    return [some[i] for i in np.linspace(0, len(some) - 1, min(most, len(some))).round().astype(int)]
