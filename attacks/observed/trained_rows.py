"""How many training rows a client has, from the row counts that updates and sums of updates carry.

Weights after local training are weighed by all rows that a client trains on, and a gradient has that number where its
batch is all of them. A sum tells the rows of all its clients together, and to all of these but one that one's. Early
stopping holds a share of the rows back: how many, `train.validation` says; without it the share, which is public,
leaves few numbers.
"""

from collections.abc import Iterator

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.observed.aggregates import names_of, participants
from leakledger.attacks.observed.evaluated import rows_behind
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    LocalLoss,
    Participants,
    SummedUpdate,
)
from leakledger.preprocess.views import Message, View

SINGLE = (ClientWeights, ClientGradient)
UPDATED = (*SINGLE, SummedUpdate, LocalLoss)
"""Of these only row counts are read."""
TRAINED = (*UPDATED, Participants)
Told = tuple[str, int, tuple[int, ...]]  # a client, how many rows it trained on, and the messages that say so


def trained_rows(view: View) -> Iterator[StatisticClaim]:
    """One claim about each client outside whose number of training rows follows; its first message tells it."""
    training, seen = view.public.training, set[str]()
    kept = {m.sender: m for m in view.received(LocalLoss)}
    for client, rows, evidence in (*_sent(view), *_summed(view)):
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


def _summed(view: View) -> Iterator[Told]:
    """What sums say of the only client outside, less what the observers sent themselves."""
    training = view.public.training
    if training is None or view.public.aggregation.options.get("weighting", "rows") != "rows":
        return
    for m in view.readable(SummedUpdate):
        who = names_of(view, m.payload.clients)
        if view.public.server not in view.observers:
            who, _ = participants(view, m.round)
        outside = [c for c in who if c not in view.observers]
        own = {u.sender: u for u in _own(view, m.round)}
        if len(outside) != 1 or not {*who} - {*outside} <= own.keys():
            continue
        rows = m.payload.rows - sum(own[c].payload.rows for c in who if c in own)
        if rows >= 1 and (training.algorithm != "fedsgd" or _batch_is_all(view, rows)):
            yield outside[0], int(rows), tuple(sorted({m.sequence, *(u.sequence for u in own.values())}))


def _own(view: View, round: int) -> Iterator[Message]:
    for kind in SINGLE:
        yield from (m for m in view.readable(kind) if m.round == round and m.sender in view.observers)
