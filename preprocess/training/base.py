"""What FedSGD and FedAvg share: drawing participants and batches, early stopping, and the training loop.

Each round the server sends the model to the participants (`train.model`), they answer with an update, and these become
their mean by the number of rows behind them (eq. 1 and 2 of "Privacy-preserving tabular data transformation"): at the
server, or by a protocol that hides them from it (`preprocess.aggregation`). Where that has the mean come out at the
clients, the model lives there too: the server sends the first one to all of them, and no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.aggregation.base import Aggregation
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, Participants
from leakledger.preprocess.messages.named_arrays import alike
from leakledger.preprocess.models import Weights, initial_weights
from leakledger.preprocess.options import check_options
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.checks import check_model
from leakledger.preprocess.training.divergence import finite_update, finite_weights
from leakledger.preprocess.training.evaluation import validation_loss
from leakledger.preprocess.training.norm_state import (
    own_statistics,
    with_mean_statistics,
    without_statistics,
)
from leakledger.preprocess.views import ModelSpec, TrainingSpec

Protect = Callable[[Weights, np.random.Generator], Weights]
"""What a client does to an update before it leaves (a defense); the identity where there is none."""

Batches = list[NDArray[np.int64]]
Held = Mapping[str, At[Weights]]
"""The model where it lives: at the server, or at every client."""

PLAIN = Plain()
LARGEST = float(np.finfo(np.float32).max)


class Algorithm(Protocol):
    """One training algorithm: what a client computes, as which kind of `update` it travels, and how the mean of the
    updates becomes the next model.
    """

    @property
    def update(self) -> type[ClientGradient] | type[ClientWeights]: ...

    def client(
        self,
        spec: ModelSpec,
        training: TrainingSpec,
        model: GlobalModel,
        data: Encoded,
        batches: Batches,
        row_clip_norm: float | None = None,
        coins: np.random.Generator | None = None,
    ) -> Any: ...

    def step(self, training: TrainingSpec, weights: Weights, mean: Weights) -> Weights: ...


@dataclass(frozen=True)
class Trained:
    """`model`: the weights at the server, or, where it never holds them, at every client. `batches` are what (client,
    round) trained on: numbers of the client's rows, held back ones counted, one array per local step.
    """

    model: Held
    batches: Mapping[tuple[str, int], At[Batches]]
    rounds: int

    @property
    def weights(self) -> At[Weights]:
        """The weights at the server; where it does not hold them, at the first client."""
        return next(iter(self.model.values()))


def train(
    fed: Federation,
    algorithm: Algorithm,
    spec: ModelSpec,
    training: TrainingSpec,
    data: Mapping[str, At[Encoded]],
    protect: Protect | None = None,
    row_clip_norm: float | None = None,
    aggregation: Aggregation = PLAIN,
    to_all: bool = False,
) -> Trained:
    """Trains `spec` from fresh weights. Raises ValueError for settings out of range before the first message, and
    TrainingDiverged where an update or the model is not finite.

    `protect`: what a client does to an update before it leaves. `row_clip_norm`: what it clips the gradient of each row
    to before they are summed up (FedSGD only). `aggregation`: how updates become their mean. `to_all`: the server tells
    the model of a round to clients that take no part in it, too.
    """
    check_training(training, row_clip_norm)
    check_model(spec.norm, spec.dropout, training, row_clip_norm, protect is not None, aggregation)
    aggregation.check(participants_of(training, len(fed.clients)))
    kept = aggregation.begin(fed)
    fitting, checking, own = _hold_back(fed, training, data)
    model = _first_model(fed, spec, aggregation)
    best, watch = model, _Watch(training.patience)
    batches: dict[tuple[str, int], At[Batches]] = {}
    weighting, rounds = getattr(aggregation, "weighting", "rows"), 0
    for rounds in range(1, training.rounds + 1):
        with fed.scope("train", rounds - 1):
            told = _told(fed, model)
            offered, told_statistics = {}, []
            participants = _participants(fed, training)
            for c in (c for c in fed.clients if to_all and c not in participants):
                told(c)
            for c in participants:
                given = told(c)
                drawn = fed.local(c, draw_batches, training, fitting[c], fed.coins(c))
                about = (spec, training, given, fitting[c], drawn, row_clip_norm)
                update = fed.local(c, algorithm.client, *about, *((fed.coins(c),) if spec.dropout else ()))
                batches[c, fed.round] = fed.local(c, _numbers, drawn, own[c])
                update = fed.local(c, finite_update, update, c, fed.round, training.learning_rate)
                if protect is not None:
                    update = fed.local(c, protected, protect, given, update, fed.coins(c))
                    update = fed.local(c, finite_update, update, c, fed.round, training.learning_rate)
                if spec.norm == "batch":
                    told_statistics.append(fed.send(fed.local(c, own_statistics, spec, update), to=fed.server))
                    update = fed.local(c, without_statistics, spec, update)
                offered[c] = aggregation.offer(fed, c, update, algorithm.update)
            mean = aggregation.mean(fed, kept, offered, model)
            model = {p: fed.local(p, algorithm.step, training, w, mean[p]) for p, w in model.items()}
            if told_statistics:
                weights = fed.local(fed.server, with_mean_statistics, weighting, model[fed.server], *told_statistics)
                model = {fed.server: weights}
            model = {p: fed.local(p, finite_weights, w, p, fed.round, training.learning_rate) for p, w in model.items()}
            if training.patience is not None:
                loss = validation_loss(fed, spec, model, checking)
                best = model if watch.improved(loss.value) else best
                if watch.exhausted:
                    break
    return Trained(model if training.patience is None else best, batches, rounds)


def _first_model(fed: Federation, spec: ModelSpec, aggregation: Aggregation) -> Held:
    """Fresh weights where the model is to live: the server draws them, and tells them to all clients if it is there."""
    drawn = fed.local(fed.server, initial_weights, spec, fed.coins(fed.server))
    if not aggregation.at_clients:
        return {fed.server: drawn}
    message = fed.local(fed.server, GlobalModel, drawn)
    with fed.scope("train", 0):
        return {c: fed.local(c, _weights_of, fed.send(message, to=c)) for c in fed.clients}


def _told(fed: Federation, model: Held) -> Callable[[str], At[GlobalModel]]:
    """How a client comes to the model: by a message of the server, or it has it."""
    if fed.server not in model:
        return lambda client: fed.local(client, GlobalModel, model[client])
    message = fed.local(fed.server, GlobalModel, model[fed.server])
    return lambda client: fed.send(message, to=client)


def _weights_of(model: GlobalModel) -> Weights:
    return {name: np.asarray(w, np.float32) for name, w in model.weights.items()}


def check_training(training: TrainingSpec, row_clip_norm: float | None = None) -> None:
    """Raises ValueError naming the first setting that is out of range, or that does not fit the others."""
    check_options(training)
    for name in ("learning_rate", "proximal"):
        if training.algorithm != "fedsgd" and (value := getattr(training, name)) > LARGEST:
            raise ValueError(f"{name} is {value:g}, beyond what local steps on 32-bit weights can take; lower it")
    if training.sampling == "poisson" and training.algorithm != "fedsgd":
        raise ValueError(
            f'sampling "poisson" draws the batch of one gradient, which {training.algorithm} does not send'
        )
    if training.sampling == "poisson" and training.batch_size is None:
        raise ValueError('sampling "poisson" needs a batch_size, the number of rows to expect; it has all rows')
    if row_clip_norm is not None and training.algorithm != "fedsgd":
        raise ValueError(
            f"the gradients of rows are clipped (to {row_clip_norm:g}) where one gradient of them is sent, and "
            f"{training.algorithm} sends none: use fedsgd, or clip the whole update"
        )


def draw_batches(training: TrainingSpec, data: Encoded, coins: np.random.Generator) -> Batches:
    """Row numbers of each local step of one round.

    FedSGD takes one batch, drawn without replacement; under Poisson sampling each row on its own, with probability
    min(1, `batch_size` / n), so that the batch may be empty. FedAvg goes through all rows `local_epochs` times in a
    fresh order.
    """
    n, size = len(data), training.batch_size
    if training.sampling == "poisson":
        assert size is not None  # `check_training`
        return [np.flatnonzero(coins.random(n) * n < size)]
    size = n if size is None else min(size, n)
    if training.algorithm == "fedsgd":
        return [coins.choice(n, size, replace=False)]
    orders = [coins.permutation(n) for _ in range(training.local_epochs)]
    return [order[i : i + size] for order in orders for i in range(0, n, size)]


class _Watch:
    """Counts rounds without a better loss. It sees public values only."""

    def __init__(self, patience: int | None) -> None:
        self.patience, self.best, self.stale = patience, np.inf, 0

    def improved(self, loss: float) -> bool:
        better = loss < self.best
        self.best, self.stale = (loss, 0) if better else (self.best, self.stale + 1)  # exempt: public values
        return better

    @property
    def exhausted(self) -> bool:
        return self.patience is not None and self.stale >= self.patience


def participants_of(training: TrainingSpec, clients: int) -> int:
    """How many clients take part in a round."""
    return clients if training.participation >= 1 else max(1, round(training.participation * clients))


def _participants(fed: Federation, training: TrainingSpec) -> list[str]:
    """The clients of this round: all, or those that the server draws and announces."""
    if training.participation >= 1:
        return list(fed.clients)
    number = participants_of(training, len(fed.clients))
    drawn = fed.local(fed.server, _draw_clients, len(fed.clients), number, fed.coins(fed.server))
    return [fed.clients[i] for i in fed.broadcast(drawn).value.clients]


def _draw_clients(clients: int, number: int, coins: np.random.Generator) -> Participants:
    return Participants(sorted(int(i) for i in coins.choice(clients, number, replace=False)))


def protected(
    protect: Protect, model: GlobalModel, update: ClientGradient | ClientWeights, coins: np.random.Generator
) -> ClientGradient | ClientWeights:
    """The update with its arrays protected: the gradient, or what training added to the `model` received. The row count
    leaves as it is. Weights are rounded to float32, so their difference to the model is what was protected up to that.
    Raises ValueError where the defense returns other arrays than it was given.
    """
    if isinstance(update, ClientGradient):
        return ClientGradient(update.rows, alike("a defense", update.gradient, protect(dict(update.gradient), coins)))
    before = {name: np.asarray(w, np.float32) for name, w in model.weights.items()}
    change = {name: w - before[name] for name, w in update.weights.items()}
    added = alike("a defense", change, protect(dict(change), coins))
    return ClientWeights(update.rows, {name: before[name] + a for name, a in added.items()})


def _hold_back(
    fed: Federation, training: TrainingSpec, data: Mapping[str, At[Encoded]]
) -> tuple[Mapping[str, At[Encoded]], Mapping[str, At[Encoded]], Mapping[str, At[NDArray[np.int64]]]]:
    """Training rows, validation rows, and the numbers of the training rows, of each client.

    No validation rows are taken when nothing would use them.
    """
    if training.patience is None:
        return data, data, {c: fed.local(c, lambda d: np.arange(len(d)), d) for c, d in data.items()}
    chosen = {c: fed.local(c, _choose, training.validation, d, fed.coins(c)) for c, d in data.items()}
    fitting = {c: fed.local(c, _take, d, chosen[c], False) for c, d in data.items()}
    checking = {c: fed.local(c, _take, d, chosen[c], True) for c, d in data.items()}
    return fitting, checking, {c: fed.local(c, lambda m: np.flatnonzero(~m), m) for c, m in chosen.items()}


def _numbers(batches: Batches, own: NDArray[np.int64]) -> Batches:
    return [own[rows] for rows in batches]


def validation_rows(share: float, rows: int) -> int:
    """How many of a client's rows validate: at least one, never all."""
    return min(max(1, round(share * rows)), rows - 1)


def _choose(share: float, data: Encoded, coins: np.random.Generator) -> NDArray[np.bool_]:
    """A mask of the validation rows."""
    count = validation_rows(share, len(data))
    mask = np.zeros(len(data), bool)
    mask[coins.choice(len(data), count, replace=False)] = True
    return mask


def _take(data: Encoded, mask: NDArray[np.bool_], chosen: bool) -> Encoded:
    part = mask == chosen
    candidates = None if data.candidates is None else data.candidates[part]
    return Encoded(data.rows[part], data.labels[part], candidates)
