"""What observers learn of all updates of one round together: their mean over the participants.

It is weighted by rows, or counts every client alike where the aggregation says so.

The server tells the clients each model. Two in a row tell each of them the step in between, and so the mean of all
participants' updates (eq. 1 and 2 of "Privacy-preserving tabular data transformation"):

    FedSGD  w' = w - rate * sum_c (n_c / n) g_c        FedAvg  w' = sum_c (n_c / n) w_c

In both (w - w') / rate is the mean of what each client sent: its gradient, or (w - w_c) / rate, the sum of the
gradients of its local steps. Models come rounded to float32, which in the quotient is an error far above the rounding
of a gradient. Whatever hides single updates from the server (masks, encryption) leaves this sum to everyone who is told
the models.

Who adds up masked or encrypted updates has their sum itself, to the precision of the protocol, before the next model
and of the last round too (`aggregation`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.observed.aggregation import error_of_mean
from leakledger.attacks.observed.gradients import precision_of, tensors
from leakledger.attacks.observed.update import Arrays, last_places
from leakledger.preprocess.messages import (
    CandidateModel,
    EvaluatedModel,
    GlobalModel,
    Participants,
    SummedUpdate,
    Survivors,
)
from leakledger.preprocess.views import Message, ModelSpec, TrainingSpec, View

Announced = tuple[tuple[str, ...], tuple[Message, ...]]  # clients, and the messages that say so

MODELS = (GlobalModel, CandidateModel, EvaluatedModel)
"""The kinds of message that have a model of the server."""
SINGLE = float(np.finfo(np.float32).eps)  # the unit roundoff of updates before they were added up


@dataclass(frozen=True, eq=False)
class RoundMean:
    """The `mean` of the updates of the `clients` in `round`, weighted as the aggregation does, in units of gradients;
    the `weights` that the round began with.

    `noise` is the standard deviation of errors in the entries, `precision` the unit roundoff of the models, `evidence`:
    numbers of the messages. `rows`: behind all of them, where a sum says so.
    """

    round: int
    clients: tuple[str, ...]
    weights: Arrays = field(repr=False)
    mean: Arrays = field(repr=False)
    noise: float
    precision: float
    evidence: tuple[int, ...]
    rows: int | None = None


def round_means(view: View) -> Iterator[RoundMean]:
    """Those of each round that any source tells of, the most precise one where several do."""
    found: dict[int, RoundMean] = {}
    for source in SOURCES:
        for one in source(view):
            if one.round not in found or one.noise < found[one.round].noise:
                found[one.round] = one
    yield from (found[round] for round in sorted(found))


def of_models(view: View) -> Iterator[RoundMean]:
    """From models of consecutive rounds; of a round whose participants are not known, nothing."""
    public = model_and_training(view)
    if public is None:
        return
    (spec, training), told = public, models(view)
    for round in sorted(r for r in told if r + 1 in told):
        before, after = told[round], told[round + 1]
        who, announced = participants(view, round)
        if not who:
            continue
        try:
            weights, later = tensors(spec, before, "weights"), tensors(spec, after, "weights")
        except ValueError:  # weights of another model than the public one tell nothing of this one
            continue
        mean = {name: (w - later[name]) / training.learning_rate for name, w in weights.items()}
        precision = max(precision_of(m, "weights") for m in (before, after))
        noise = last_places(later, mean, precision) / training.learning_rate
        evidence = tuple(m.sequence for m in (before, *announced, after))
        yield RoundMean(round, who, weights, mean, noise, precision, evidence)


def of_sums(view: View) -> Iterator[RoundMean]:
    """From sums that the observers took out of masks or ciphertexts (`SummedUpdate`)."""
    public = model_and_training(view)
    if public is None:
        return
    (spec, training), told = public, models(view)
    for m in view.readable(SummedUpdate):
        own = view.public.server in view.observers
        who, announced = (names_of(view, m.payload.clients), ()) if own else participants(view, m.round)
        if m.round not in told or not who:
            continue
        try:
            weights, mean = tensors(spec, told[m.round], "weights"), tensors(spec, m, "mean")
        except ValueError:  # as above
            continue
        # Each update was rounded to float32 before it was added, and is no smaller than their mean.
        noise = float(np.hypot(error_of_mean(view, len(who), m.payload.rows), last_places(mean, mean, SINGLE)))
        if training.algorithm == "fedavg":
            mean = {name: (w - mean[name]) / training.learning_rate for name, w in weights.items()}
            noise /= training.learning_rate
        evidence = (told[m.round].sequence, *(a.sequence for a in announced), m.sequence)
        yield RoundMean(m.round, who, weights, mean, noise, SINGLE, tuple(sorted(evidence)), m.payload.rows)


def model_and_training(view: View) -> tuple[ModelSpec, TrainingSpec] | None:
    """The public facts that a mean of updates is read with; None where one is missing, or no step has a size."""
    spec, training = view.public.model, view.public.training
    if spec is None or training is None or not 0 < training.learning_rate < np.inf:
        return None
    return spec, training


def by_rows(view: View) -> bool:
    """Whether the mean of a round weighs clients by their rows; else it counts every client alike."""
    return bool(view.public.aggregation.options.get("weighting", "rows") == "rows")


def models(view: View) -> Mapping[int, Message]:
    """Round -> a message with the model that it begins with; of the last round + 1: the one that training ended with.

    A model is told at the beginning of a round, or before that as a candidate, where losses decide when to stop. The
    model that is evaluated in the end is the last one where all rounds are run, otherwise whichever was best.
    """
    training, found = view.public.training, dict[int, Message]()
    for m in view.readable(CandidateModel):
        found.setdefault(m.round + 1, m)
    for m in view.readable(GlobalModel):
        found.setdefault(m.round, m)
    if training is not None and training.patience is None:
        for m in view.readable(EvaluatedModel):
            found.setdefault(training.rounds, m)
    return found


def participants(view: View, round: int) -> Announced:
    """The clients that took part in a round, and the announcement that says so; nobody where that is not known.

    Under secure aggregation some may drop out; the server says whose updates it has, to these alone.
    """
    if view.public.aggregation.name != "secure-aggregation":
        return _drawn(view, round)
    return _announced(view, Survivors, round) or _left_on_purpose(view, *_drawn(view, round))


def _drawn(view: View, round: int) -> Announced:
    """Who a round begins with."""
    training = view.public.training
    if training is None or training.participation >= 1:
        return view.public.clients, ()
    return _announced(view, Participants, round) or ((), ())


def _announced(view: View, kind: type[Survivors | Participants], round: int) -> Announced | None:
    for m in view.readable(kind):
        if m.round == round and (who := names_of(view, m.payload.clients)):
            return who, (m,)
    return None


def _left_on_purpose(view: View, clients: tuple[str, ...], evidence: tuple[Message, ...]) -> Announced:
    """Whose updates count where the last clients of a round drop out as the options say, to observers who are not told:
    they drop out themselves, or take no part. Nobody where one of them would be told, since then no sum was made.
    """
    options = view.public.aggregation.options
    dropouts = 0 if options.get("dropout_step") == "unmasking" else int(options.get("dropouts", 0))
    stay = clients[: max(0, len(clients) - dropouts)]
    return ((), ()) if view.observers & {view.public.server, *stay} else (stay, evidence)


def names_of(view: View, numbers: Sequence[int]) -> tuple[str, ...]:
    """The clients with these numbers; nobody where one is no client's, as in a message that was made up."""
    clients = view.public.clients
    return tuple(clients[i] for i in numbers) if all(0 <= i < len(clients) for i in numbers) else ()


SOURCES: tuple[Callable[[View], Iterator[RoundMean]], ...] = (of_models, of_sums)
"""Ways to the mean of a round: from a view, what it tells of each."""
