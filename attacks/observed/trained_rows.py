"""How many training rows a client has, from the row counts that updates and sums of updates carry.

Weights after local training are weighed by all rows that a client trains on, and a gradient has that number where its
batch is all of them. A sum tells the rows of all its clients together, and to all of these but one that one's. Where
other clients take part in other rounds, the sums of several rounds are equations in the same few numbers: of three
clients, two of which take part at a time, the server of secure aggregation reads each one's rows from three sums. Early
stopping holds a share of the rows back: how many, `train.validation` says; without it the share, which is public,
leaves few numbers. Where the observers' own columns are nobody else's, their share of the mean is such a sum too, which
models tell (`own_share`). What else says of single numbers between what they lie (`evaluated`) such sums narrow down.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor

import numpy as np

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.observed.aggregates import MODELS, by_rows, names_of, participants
from leakledger.attacks.observed.evaluated import rows_behind, training_rows
from leakledger.attacks.observed.own_share import Absences, rows_behind_means
from leakledger.attacks.observed.ring import Contradiction
from leakledger.attacks.observed.sizes import Bounds, Sum, narrowed
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    LocalLoss,
    Participants,
    SummedUpdate,
    Survivors,
)
from leakledger.preprocess.views import Message, View

SINGLE = (ClientWeights, ClientGradient)
UPDATED = (*SINGLE, SummedUpdate, LocalLoss)
"""Of these only row counts are read."""
TOLD_OF_ROUNDS = (*MODELS, Survivors)
"""Whose steps tell how many rows are behind them, to observers with columns of their own."""
TRAINED = (*UPDATED, Participants, *TOLD_OF_ROUNDS)
Told = tuple[str, int, tuple[int, ...]]  # a client, how many rows it trained on, and the messages that say so
Equation = tuple[frozenset[str], int, tuple[int, ...]]  # clients, their rows together, the messages that say so
EXACT = 1e-6  # what float64 leaves of whole numbers in the solution of a few equations


def counted_rows(
    view: View, told: Iterable[StatisticClaim], absent: Absences = lambda view: {}
) -> list[StatisticClaim]:
    """One claim about each client outside of whose number of training rows messages without noise say anything: the
    first of what is `told` of it, what updates and their sums say, and what evaluations leave, within what sums over
    clients leave of that. `absent` as in `trained_rows`.
    """
    found: dict[str, StatisticClaim] = {}
    for c in (*told, *trained_rows(view, absent), *training_rows(view)):
        if c.statistic == "count":
            found.setdefault(c.party, c)
    return list({**found, **{c.party: c for c in narrowed_rows(view, found.values(), absent)}}.values())


def trained_rows(view: View, absent: Absences = lambda view: {}) -> Iterator[StatisticClaim]:
    """One claim about each client outside whose number of training rows follows; its first message tells it. `absent`:
    which of the observers' columns it surely has not.
    """
    training, seen = view.public.training, set[str]()
    kept = {m.sender: m for m in view.received(LocalLoss)}
    for client, rows, evidence in (*_sent(view), *_summed(view, absent)):
        if client in seen:
            continue
        seen.add(client)
        if training is None or training.patience is None:
            yield StatisticClaim(client, "", "count", float(rows), rows, rows, evidence)
        elif client in kept:
            whole, evidence = rows + kept[client].payload.rows, (*evidence, kept[client].sequence)
            yield StatisticClaim(client, "", "count", float(whole), whole, whole, tuple(sorted(evidence)))
        elif len(possible := rows_behind(rows, training.validation)):
            low, high = float(possible[0]), float(possible[-1])
            yield StatisticClaim(client, "", "count", float(possible[len(possible) // 2]), low, high, evidence)


def narrowed_rows(
    view: View, counted: Iterable[StatisticClaim], absent: Absences = lambda view: {}
) -> Iterator[StatisticClaim]:
    """The claims about numbers of training rows of which sums over clients leave less than is `counted`."""
    training, claims = view.public.training, {c.party: c for c in counted}
    if training is None or training.patience is not None or not by_rows(view):
        return
    if training.algorithm == "fedsgd" and training.batch_size is not None:  # sums are of batches
        return
    sums = [
        Sum(tuple((c, "") for c in sorted(who)), total, frozenset(evidence))
        for round in _equations(view, absent)
        for who, total, evidence in round
    ]
    told = {(p, ""): Bounds(max(ceil(c.low), 1), floor(c.high), frozenset(c.evidence)) for p, c in claims.items()}
    try:
        found = narrowed({**{key: Bounds() for one in sums for key in one.keys}, **told}, sums)
    except Contradiction:
        return
    for (party, _), bounds in found.items():
        if party in claims and party not in view.observers and bounds != told[party, ""]:
            low, high = bounds.low, int(bounds.high)
            middle = float((low + high + 1) // 2)
            yield StatisticClaim(party, "", "count", middle, low, high, tuple(sorted(bounds.evidence)))


def _sent(view: View) -> Iterator[Told]:
    """What single updates say, of clients outside."""
    for kind in SINGLE:
        for m in view.received(kind):
            if kind is ClientWeights or _batch_is_all(view, m.payload.rows):
                yield m.sender, int(m.payload.rows), (m.sequence,)


def _batch_is_all(view: View, rows: int) -> bool:
    """Whether a gradient over so many rows is over all that its client trains on."""
    training = view.public.training
    if training is None or training.sampling != "fixed":
        return False
    return training.batch_size is None or rows < training.batch_size


def _summed(view: View, absent: Absences) -> Iterator[Told]:
    """What sums say of clients outside, beside what the observers sent themselves: those of each round by itself, then
    those of all rounds together, in which a client has the same rows.
    """
    training = view.public.training
    if training is None or not by_rows(view):
        return
    if training.algorithm == "fedsgd" and training.sampling != "fixed":  # every batch is of another size
        return
    rounds = _equations(view, absent)
    for equations in (*rounds, [e for found in rounds for e in found]) if rounds else ():
        for client, rows, evidence in _determined(equations):
            if client not in view.observers and (training.algorithm != "fedsgd" or _batch_is_all(view, rows)):
                yield client, rows, evidence


def _equations(view: View, absent: Absences) -> list[list[Equation]]:
    """Of each round the sums that are told, what the observers' share in its mean says, and their own updates."""
    found: dict[int, list[Equation]] = {}
    for m in view.readable(SummedUpdate):
        who = names_of(view, m.payload.clients)
        if view.public.server not in view.observers:
            who, _ = participants(view, m.round)
        if who:
            found.setdefault(m.round, []).append((frozenset(who), int(m.payload.rows), (m.sequence,)))
    for round, who, rows, evidence in rows_behind_means(view, absent):
        found.setdefault(round, []).append((frozenset(who), rows, evidence))
    for round, told in found.items():
        told += [(frozenset([m.sender]), int(m.payload.rows), (m.sequence,)) for m in _own(view, round)]
    return [found[round] for round in sorted(found)]


def _determined(equations: Sequence[Equation]) -> Iterator[Told]:
    """The clients whose rows follow from the equations, as whole numbers from 1 on; none where these disagree."""
    first: dict[frozenset[str], tuple[int, tuple[int, ...]]] = {}
    for who, total, messages in equations:
        if first.setdefault(who, (total, messages))[0] != total:
            return
    clients = sorted(frozenset().union(*first))
    matrix = np.array([[float(c in who) for c in clients] for who in first]).reshape(-1, len(clients))
    totals = np.array([total for total, _ in first.values()], np.float64)
    inverse = np.linalg.pinv(matrix)  # (clients, sums)
    found, known = inverse @ totals, inverse @ matrix
    if (np.abs(matrix @ found - totals) > EXACT * np.maximum(totals, 1)).any():
        return
    for i, client in enumerate(clients):
        rows = round(found[i])
        if known[i, i] > 1 - EXACT and rows >= 1 and abs(found[i] - rows) <= EXACT * rows:
            used = np.abs(inverse[i]) > EXACT
            told = (messages for (_, messages), u in zip(first.values(), used, strict=True) if u)
            yield client, rows, tuple(sorted({n for messages in told for n in messages}))


def _own(view: View, round: int) -> Iterator[Message]:
    for kind in SINGLE:
        yield from (m for m in view.readable(kind) if m.round == round and m.sender in view.observers)
