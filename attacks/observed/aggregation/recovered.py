"""A view with what its observers work out of it: updates and models that they were never sent, and have all the same.

Attacks on updates read `train.gradient` or `train.weights`, and the model before it. Where a coalition takes the masks
off a client's vector, or opens its ciphertexts, the view gets the update as that client's message would have been,
under the number of the message that it follows from, and likewise what an observer sent itself. Of other updates it
gets their sum, as `train.sum`. Where clients keep the model to themselves (encryption), each of
them follows it from sum to sum; a view with one of them gets the models likewise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakledger.attacks.observed.aggregation.vectors import Aggregate, Arrays
from leakledger.attacks.observed.aggregation.worked_out import aggregates, updates
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    EncryptedSum,
    EncryptedUpdate,
    GlobalModel,
    MaskedUpdate,
    SummedUpdate,
)
from leakledger.preprocess.views import Message, View


def with_recovered(view: View) -> View:
    """The view with the updates and the models that its observers can work out; itself where there are none."""
    if not view.has(MaskedUpdate, EncryptedUpdate, EncryptedSum) or view.public.training is None:
        return view
    single, sums = updates(view), aggregates(view)
    more = [*_models(view, sums), *_updates(view, single), *_sums(view, sums, single)]
    return replace(view, messages=tuple(sorted((*view.messages, *more), key=lambda m: m.sequence))) if more else view


def _sums(view: View, sums: Mapping[int, Aggregate], single: Sequence[Aggregate]) -> Iterator[Message]:
    """Each sum that has a client outside in it whose update is not known by itself, in that client's name."""
    known, by_number = {(u.round, *u.clients) for u in single}, {m.sequence: m for m in view.messages}
    reader = view.public.server if view.public.server in view.observers else min(view.observers)
    for found in sums.values():
        numbers = [view.public.clients.index(c) for c in found.clients]
        hidden = [c for c in found.clients if c not in view.observers and (found.round, c) not in known]
        if hidden:
            told = replace(by_number[found.message], step="train", sender=hidden[0], recipient=reader)
            yield told.carrying(SummedUpdate(numbers, found.rows, dict(found.mean)))


def _updates(view: View, single: Sequence[Aggregate]) -> Iterator[Message]:
    """Each single update as a message of its client, after the one that it follows from."""
    by_number = {m.sequence: m for m in view.messages}
    for found in single:
        (client,), told = found.clients, by_number[found.message]
        yield replace(told, step="train", sender=client, recipient=view.public.server).carrying(_payload(view, found))


def _payload(view: View, found: Aggregate) -> ClientGradient | ClientWeights:
    assert view.public.training is not None
    arrays = {name: a.astype(np.float32) for name, a in found.mean.items()}
    if view.public.training.algorithm == "fedsgd":
        return ClientGradient(found.rows, arrays)
    return ClientWeights(found.rows, arrays)


def _models(view: View, sums: Mapping[int, Aggregate]) -> Iterator[Message]:
    """The model of each round after the first, where the observers know the sums and no model: as it would have gone to
    the clients among them, or through a server among them to all.
    """
    told = {m.round for m in view.readable(GlobalModel)}
    first = next((m for m in view.readable(GlobalModel) if m.round == 0), None)
    if first is None or not view.has(EncryptedSum):
        return
    to = [c for c in view.public.clients if {c, view.public.server} & view.observers]
    weights, by_number = dict(first.payload.weights), {m.sequence: m for m in view.messages}
    for round, found in sorted(sums.items()):
        weights = _step(view, weights, found.mean)
        if round + 1 not in told:
            after, payload = by_number[found.message], GlobalModel(weights)
            model = replace(after, step="train", round=round + 1, sender=view.public.server).carrying(payload)
            yield from (replace(model, recipient=client) for client in to)


def _step(view: View, weights: Arrays, mean: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the clients make of a mean: a step of gradient descent, or the mean itself."""
    assert view.public.training is not None
    adopted = {name: a.astype(np.float32) for name, a in mean.items()}
    if view.public.training.algorithm != "fedsgd":
        return adopted
    rate = view.public.training.learning_rate
    return {name: np.asarray(w, np.float32) - rate * adopted[name] for name, w in weights.items()}
