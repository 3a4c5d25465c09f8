"""Updates of made-up clients, in a view that is otherwise the audited one: what controls show an attack.

An update is observed in one of two ways. *Sent*: each made-up client's message takes the place of the audited one.
*Summed*: the observers have only the models before and after a round, or the sum that they took out of masks, so these
are made again, by the server's own arithmetic, from what the observers sent in that round and what the made-up clients
would have sent.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import clients_of
from leakledger.attacks.observed.aggregates import by_rows, models, participants
from leakledger.attacks.observed.aggregation.vectors import Vector, as_aggregate
from leakledger.attacks.observed.updates import TOLD
from leakledger.audit.cells import Cells
from leakledger.defenses import defense_of
from leakledger.preprocess.aggregation.base import arrays_of, to_vector
from leakledger.preprocess.aggregation.plain import mean_of_clients, mean_of_updates
from leakledger.preprocess.messages import (
    BatchNormStatistics,
    ClientGradient,
    ClientWeights,
    GlobalModel,
    Payload,
    SummedUpdate,
)
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import draw_batches, protected
from leakledger.preprocess.training.norm_state import own_statistics, without_statistics
from leakledger.preprocess.views import FeatureLayout, Message, View
from leakledger.preprocess.wire import encode

UPDATES = (ClientGradient, ClientWeights)
WITH_BATCH_NORM = 4  # rows of the least batch that is read off behind batch norm
Batches = Mapping[str, tuple[Cells | np.ndarray, NDArray[np.int64]]]  # rows, or encoded ones (n, width)
"""Made-up client -> its rows and their labels."""
Labels = dict[tuple[str, int], NDArray[np.int64]]


@dataclass(frozen=True)
class Sent:
    """An update that the observers received as `message`."""

    message: Message

    @property
    def batch(self) -> tuple[str, int]:
        return self.message.sender, self.message.round


@dataclass(frozen=True)
class Summed:
    """The sum of the updates of `victim`, one client or several, in `round`: read from models."""

    victim: str
    round: int

    @property
    def batch(self) -> tuple[str, int]:
        return self.victim, self.round

    @property
    def clients(self) -> tuple[str, ...]:
        return clients_of(self.victim)


Observed = Sent | Summed


def shown(view: View, observed: Observed, batches: Batches, coins: np.random.Generator) -> tuple[View, Labels]:
    """The view with updates of made-up clients who train on `batches`, under the mechanisms that its public facts name,
    and the labels of their batches.
    """
    if isinstance(observed, Sent):
        return _sent(view, observed.message, batches, coins)
    return _summed(view, observed, batches, coins)


def _sent(view: View, update: Message, batches: Batches, coins: np.random.Generator) -> tuple[View, Labels]:
    """Each made-up client is told the model of `update`, and answers alike. No model comes after that: one would be the
    sum of what real clients sent.
    """
    model = next(m for m in view.on(GlobalModel, recipient=update.sender) if m.round == update.round)
    messages = _without_training(view)
    statistics = [m for m in view.on(BatchNormStatistics) if (m.sender, m.round) == (update.sender, update.round)]
    granted: Labels = {}
    for victim, (rows, labels) in batches.items():
        sent, ordered, beside = _answer(view, update.kind, model.payload, rows, labels, coins)
        messages += [replace(model, recipient=victim), _saying(replace(update, sender=victim), sent)]
        messages += [_saying(replace(m, sender=victim), beside) for m in statistics if beside is not None]
        granted[victim, update.round] = ordered
    return replace(view, messages=tuple(messages)), granted


def _summed(view: View, observed: Summed, batches: Batches, coins: np.random.Generator) -> tuple[View, Labels]:
    """The made-up clients, and those of the observers who took part, are all who do."""
    training, round = view.public.training, observed.round
    assert training is not None
    before, after, announced = _tells(view, round)
    algorithm, model = ALGORITHMS[training.algorithm], GlobalModel(before.payload.weights)
    own = [m for m in view.readable(algorithm.update) if m.round == round and m.sender in view.observers]
    updates, granted = [m.payload for m in own], Labels()
    for victim, (rows, labels) in batches.items():
        sent, granted[victim, round] = guarded_update(view, algorithm.update, model, rows, labels, coins)
        updates.append(sent)
    clients = (*(m.sender for m in own), *batches)
    numbers = list(range(len(clients)))
    there = [_saying(m, m.kind(numbers)) for m in announced]  # type: ignore[call-arg]
    if after.kind is SummedUpdate:
        told: Payload = _sum_of(numbers, updates)
    else:
        mean = (mean_of_updates if by_rows(view) else mean_of_clients)(*updates)
        told = after.kind(algorithm.step(training, dict(model.weights), mean))  # type: ignore[call-arg]
    messages = [*_without_training(view), before, *there, *own, _saying(after, told)]
    return replace(view, messages=tuple(messages), public=replace(view.public, clients=clients)), granted


def _sum_of(clients: list[int], updates: Sequence[ClientGradient | ClientWeights]) -> SummedUpdate:
    """What an observer makes of the sum of the updates of these clients."""
    total = Vector(0, (), np.sum([to_vector(u) for u in updates], axis=0), 0)
    found = as_aggregate(total, arrays_of(updates[0]))
    assert found is not None  # made-up clients have rows
    return SummedUpdate(clients, found.rows, dict(found.mean))


def _tells(view: View, round: int) -> tuple[Message, Message, tuple[Message, ...]]:
    """What a sum follows from: the model that a round began with; the sum itself, or the model after it; and who says
    which clients are in it.
    """
    told, (_, announced) = models(view), participants(view, round)
    added = next((m for m in view.readable(SummedUpdate) if m.round == round), None)
    return told[round], told[round + 1] if added is None else added, announced


def _without_training(view: View) -> list[Message]:
    return [m for m in view.messages if m.kind not in (*TOLD, *UPDATES, BatchNormStatistics)]


def topics_shown(view: View, observed: Observed) -> tuple[str, ...]:
    """The topics of what `shown` puts in the place of what the view holds: updates with the models that clients were
    sent, or the two models that a sum follows from, with what says who took part.
    """
    if isinstance(observed, Sent):
        held = {
            m.topic
            for kind in (*UPDATES, BatchNormStatistics, GlobalModel)
            for m in view.on(kind)
            if m.content is not None
        }
    else:
        before, after, announced = _tells(view, observed.round)
        held = {m.topic for m in (before, after, *announced)}
    return tuple(sorted(held))


def _saying(message: Message, payload: Payload) -> Message:
    """The message with another payload."""
    body = encode(payload.to_plain())
    return replace(message, body=body, content=body)


def rows_alone(view: View, rows: int) -> int:
    """How few rows an update must show: a single one; behind batch norm, which makes nothing of one and signs of two,
    four, as long as the audited batch has as many.
    """
    batch = view.public.model is not None and view.public.model.norm == "batch"
    return min(WITH_BATCH_NORM, rows) if batch else 1


def guarded_update(
    view: View,
    kind: type[Payload],
    model: GlobalModel,
    rows: Cells | np.ndarray,
    labels: np.ndarray,
    coins: np.random.Generator,
) -> tuple[ClientGradient | ClientWeights, np.ndarray]:
    """`made_up_update`, protected by all mechanisms that the view's public facts name."""
    sent, ordered, _ = _answer(view, kind, model, rows, labels, coins)
    return sent, ordered


def _answer(
    view: View,
    kind: type[Payload],
    model: GlobalModel,
    rows: Cells | np.ndarray,
    labels: np.ndarray,
    coins: np.random.Generator,
) -> tuple[ClientGradient | ClientWeights, np.ndarray, BatchNormStatistics | None]:
    """The same, and what goes beside it: the running statistics of batch norm."""
    spec = view.public.model
    assert spec is not None
    raw, ordered = _trained(view, kind, model, rows, labels, coins)
    sent = without_statistics(spec, raw)
    if view.public.mechanisms:
        sent = protected(defense_of(view.public.mechanisms).protect, model, sent, coins)
    return sent, ordered, own_statistics(spec, raw) if spec.norm == "batch" else None


def made_up_update(
    view: View,
    kind: type[Payload],
    model: GlobalModel,
    rows: Cells | np.ndarray,
    labels: np.ndarray,
    coins: np.random.Generator,
) -> tuple[Payload, np.ndarray]:
    """What a client with these rows, or encoded rows (n, width), would send as `kind`, and the labels of its local
    batches, in order. The gradients of its rows are clipped where the view's mechanisms clip them; what else they do is
    not done yet.
    """
    assert view.public.model is not None
    raw, ordered = _trained(view, kind, model, rows, labels, coins)
    return without_statistics(view.public.model, raw), ordered


def _trained(
    view: View,
    kind: type[Payload],
    model: GlobalModel,
    rows: Cells | np.ndarray,
    labels: np.ndarray,
    coins: np.random.Generator,
) -> tuple[ClientGradient | ClientWeights, np.ndarray]:
    """The outcome of its training, running statistics included, and the labels of its local batches."""
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    assert spec is not None
    assert layout is not None
    assert training is not None
    data = Encoded(encoded_rows(layout, rows) if isinstance(rows, Cells) else rows, np.asarray(labels))
    clip_norm = defense_of(view.public.mechanisms).row_clip_norm
    algorithm = next(a for a in ALGORITHMS.values() if a.update is kind)
    everything = [np.arange(len(rows))]  # a gradient is of one batch: all rows
    batches = everything if kind is ClientGradient else draw_batches(training, data, coins)
    own = coins if spec.dropout else None
    return algorithm.client(spec, training, model, data, batches, clip_norm, own), data.labels[np.concatenate(batches)]


def encoded_rows(layout: FeatureLayout, rows: Cells) -> np.ndarray:
    """(n, width) float32: the encoding of cells, the inverse of `truth.cells`."""
    x = np.zeros((len(rows), layout.width), np.float32)
    for k, number in enumerate(layout.numeric):
        x[:, number.start] = number.encoded(rows.numbers[:, k])
    scaled, starts = {}, Counter(b.start for b in layout.categorical)
    for k, block in enumerate(layout.categorical):
        own = slice(block.start, block.start + block.width)
        if block.codes is None:  # features may share columns: a bucket is hit once or more, and scaled once
            listed = np.flatnonzero(rows.categories[:, k] >= 0)  # what is in no dictionary has no column
            x[listed, block.start + rows.categories[listed, k]] = 1
            scaled[block.start] = block
        elif starts[block.start] > 1:  # and so with public values, whose codes name their buckets
            x[:, own] = np.maximum(x[:, own], block.codes[rows.categories[:, k]])
            scaled[block.start] = block
        else:
            x[:, own] += block.codebook()[rows.categories[:, k]].astype(np.float32)
            if block.width == 1:  # a label, or a code: -1 where there is none
                shift, scale = (block.shift or (0.0,))[0], (block.scale or (1.0,))[0]
                x[rows.categories[:, k] < 0, block.start] = (-1 - shift) / scale
    for block in scaled.values():
        own = slice(block.start, block.start + block.width)
        if block.shift is not None and block.scale is not None:
            x[:, own] = (x[:, own] - np.array(block.shift)) / np.array(block.scale)
    return x


def with_own_codes(layout: FeatureLayout, rows: Cells, own: np.ndarray) -> np.ndarray:
    """(n, width) the encoding of cells, but for codes of values: these as the rows (n, width) of a client have them."""
    x = encoded_rows(layout, rows)
    for block in (b for b in layout.categorical if b.codes is not None):
        columns = slice(block.start, block.start + block.width)
        x[:, columns] = own[:, columns]
    return x


def undefended(view: View, batches: Batches) -> View:
    """The view as it would be without a defense, and with `batches` of a known size, as far as public facts say."""
    training, sizes = view.public.training, {len(rows) for rows, _ in batches.values()}
    if training is not None:
        told = training.batch_size is not None and len(sizes) == 1
        training = replace(training, sampling="fixed", batch_size=sizes.pop() if told else training.batch_size)
    return replace(view, public=replace(view.public, mechanisms=(), training=training))
