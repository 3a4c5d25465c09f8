"""Sums of other clients' updates, which observers have though no single one of these reached them.

The mean of all updates of a round (`aggregates`), times the rows behind it, is the sum over all participants. Less what
the observers sent themselves, and what else they can read, it is the sum over the other clients: with two parties the
other's update itself. A sum of FedSGD gradients of m clients with b rows each *is* the gradient of a batch of m b rows,
so whatever inverts batches reads it; whose a row is, it does not say (`owners`). A sum of local trainings lies in the
span of all their rows (`row_space`); no schedule of one client stands behind it.

Weights are rows: stated by the observers' own updates, as many as the labels that are granted, or, of the only other
one, what an opened sum counts beside the own ones or ranks tell (`fewer_rows`); else of others the batch size that is
public. Where they are not known, neither is the sum over the others. Where the mean counts every client alike, the
others' part of it is still exact; of several of them it is the gradient of a batch where all have equally many rows,
and else of none. Of that, and of a mean to which the observers gave nothing, fewer rows than batches have are taken as
ranks have them, in equal parts, where another round is of the same rows, as it is of clients who have no more than a
batch: that may be too few where rows are alike.

Defenses protect each update by itself. Of m independent Gaussian errors the variance adds up, and rows are clipped
before anything is summed; what depends on the whole of one client's update (`client-clipping`, `pruning`,
`quantisation`) leaves no likelihood of a sum that is known here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, joint, whose
from leakledger.attacks.observed.affine import affine
from leakledger.attacks.observed.aggregates import RoundMean, by_rows, round_means
from leakledger.attacks.observed.fewer_rows import rows_beside, rows_spanned, same_rows
from leakledger.attacks.observed.gradients import check_labels, poisson, row_count, tensors, unmodelled, unsuitable
from leakledger.attacks.observed.trainings import check_epochs, rounding, schedule_of, unknown_training
from leakledger.attacks.observed.update import Arrays, Member, ObservedUpdate
from leakledger.preprocess.messages import ClientGradient, ClientWeights, SummedUpdate
from leakledger.preprocess.views import Mechanism, Message, ModelSpec, TrainingSpec, View

OF_ROWS, OF_ENTRIES = "example-clipping", "gaussian-noise"  # the defenses whose effect on a sum is known


def find_sums(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    any_loss: bool = False,
) -> list[ObservedUpdate] | NotApplicable | Abstained:
    """The sums over clients whose updates the observers do not have one by one, of chosen rounds and with any of the
    chosen victims; or why there is none. An empty list where nothing tells of any sum. `any_loss`: of models too that
    are `gradients.unmodelled`; labels then say of theirs how many rows there are, and no more.
    """
    outcomes = list[ObservedUpdate | NotApplicable | Abstained]()
    means = list(round_means(view))
    for whole in means:
        known = known_updates(view, whole)
        others = tuple(c for c in whole.clients if c not in known and c not in view.observers)
        wanted = (rounds is None or whole.round in rounds) and (victims is None or set(victims) & set(others))
        if others and wanted:
            outcomes.append(_sum_over(view, knowledge, whole, known, others, means, any_loss))
    found = [o for o in outcomes if isinstance(o, ObservedUpdate)]
    return found or next((o for o in outcomes if not isinstance(o, ObservedUpdate)), found)


def known_updates(view: View, whole: RoundMean) -> Mapping[str, Message]:
    """Client -> its update of the round, for those that the observers sent or can read."""
    kinds = (ClientGradient, ClientWeights)
    return {
        m.sender: m
        for kind in kinds
        for m in view.readable(kind)
        if m.round == whole.round and m.sender in whole.clients
    }


def _sum_over(
    view: View,
    knowledge: AuxiliaryKnowledge,
    whole: RoundMean,
    known: Mapping[str, Message],
    others: tuple[str, ...],
    means: Sequence[RoundMean],
    any_loss: bool,
) -> ObservedUpdate | NotApplicable | Abstained:
    """The update that the `others` sent together; all that is in the way of it is a reason, never an error. `means`: of
    all rounds.
    """
    source = f"the sum of the updates of {whose(joint(others))} in round {whole.round}"
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    if reason := unsuitable(layout, spec, shared=False, any_loss=any_loss):
        return NotApplicable(reason)
    if missing := [c for c in whole.clients if c in view.observers and c not in known]:
        return NotApplicable(f"{source}: the observers do not hold what {whose(joint(missing))} sent themselves")
    assert spec is not None
    if spec.norm == "batch" and len(others) > 1:
        return NotApplicable(f"{source}: under batch norm the sum over clients is the gradient of no batch")
    assert layout is not None
    assert training is not None
    weighted = by_rows(view)
    try:
        counted = {c: row_count(m) for c, m in known.items()}
        own = {c: _update(spec, whole, training, m) for c, m in known.items()}
        open = any((c, whole.round) not in knowledge.labels for c in others)
        mixed = weighted and bool(known)
        total = _left(view, whole, training, counted, own, len(others)) if open and weighted else None
        by_ranks = open and not mixed and total is None
        each = _spanned(view, spec, training, whole, own, others, means) if by_ranks else None
        left = total if len(others) == 1 and total is not None else each
        members = [member(knowledge, training, c, whole.round, max(spec.outputs, 2), left) for c in others]
        weight = {c: rows if weighted else 1 for c, rows in counted.items()}
    except ValueError as error:
        return NotApplicable(f"{source}: {error}")
    taken = {m.client: _weight(view, training, m) for m in members}
    if not weighted and len(set(taken.values())) > 1:
        return NotApplicable(f"{source}: their mean counts every client alike, and they have unequal numbers of rows")
    weight |= taken if weighted else dict.fromkeys(others, 1)
    rest, divided = sum(weight[c] for c in others), sum(taken.values())
    rows, granted = sum(m.rows for m in members), all((c, whole.round) in knowledge.labels for c in others)
    if not rows:
        return Abstained(f"{source} is of no row: the labels that are granted for it are none")
    share = sum(weight.values()) / rest
    mean = {
        name: share * g - sum((weight[c] / rest * u[name] for c, u in own.items()), np.zeros_like(g))
        for name, g in whole.mean.items()
    }
    if not any(np.abs(g).max(initial=0.0) > share * whole.noise for g in mean.values()):
        return Abstained(f"{source} is zero up to rounding in every tensor ({', '.join(mean)})")
    labels = _labels(members) if granted and not unmodelled(spec) else np.zeros(0, np.int64)
    update = ObservedUpdate(
        joint(others),
        whole.round,
        rows,
        layout,
        spec,
        labels,
        whole.weights,
        mean,
        whole.precision,
        tuple(sorted({*whole.evidence, *(m.sequence for m in known.values())})),
        noise=share * whole.noise,
        members=tuple(members) if len(members) > 1 else (),
    )
    shares = [weight[c] / rest for c in others]
    if training.algorithm == "fedavg":
        protected = replace(update, mechanisms=of_sum(view.public.mechanisms, shares))
        return _of_trainings(protected, training, members)
    return replace(
        update,
        gradient={name: g * divided / rows for name, g in mean.items()},
        noise=update.noise * divided / rows,
        mechanisms=of_sum(view.public.mechanisms, shares),
        stretched=divided / rows,
        guessed_size=poisson(view) and not granted,
        assumed_size=each is not None or (open and mixed and training.sampling == "fixed" and total != rows),
    )


def _left(
    view: View,
    whole: RoundMean,
    training: TrainingSpec,
    counted: Mapping[str, int],
    own: Mapping[str, Arrays],
    others: int,
) -> int | None:
    """The rows of so many `others` behind the mean, beside those that are `counted` of `own` updates: as an opened sum
    has it, or, of gradients over batches, as ranks have it (`fewer_rows`). None where neither says so, and of Poisson
    samples, whose weights are what is to be expected.
    """
    weight, most = sum(counted.values()), (training.batch_size or 0) * others
    if training.sampling != "fixed":
        return None
    told = {m.payload.rows for m in view.readable(SummedUpdate) if m.round == whole.round}
    if len(told) == 1:
        return int(told.pop()) - weight
    if training.batch_size == 1:
        return others
    if not most or training.algorithm != "fedsgd" or not weight:
        return None
    mean = sum(counted[c] / weight * affine(u, 0) for c, u in own.items())
    return rows_beside(affine(whole.mean, 0), np.asarray(mean), weight, most, whole.noise, whole.precision)


def _spanned(
    view: View,
    spec: ModelSpec,
    training: TrainingSpec,
    whole: RoundMean,
    own: Mapping[str, Arrays],
    others: tuple[str, ...],
    means: Sequence[RoundMean],
) -> int | None:
    """The rows of each of the `others`, of whose updates alone the mean is, but for `own` ones which count as much: as
    ranks have them, where these are fewer than batches have and another round is of the same rows; at least so many.
    """
    most = (training.batch_size or 0) * len(others)
    if training.sampling != "fixed" or training.algorithm != "fedsgd" or not most:
        return None
    alone = _alone(whole, own)
    rows = rows_spanned(alone, spec, len(whole.clients) * whole.noise, whole.precision)
    each = -(-rows // len(others))
    if not 0 < each * len(others) < most:
        return None
    for other in sorted(means, key=lambda m: abs(m.round - whole.round))[1:]:
        known = known_updates(view, other)
        if tuple(c for c in other.clients if c not in known) != others:
            continue
        try:
            again = _alone(other, {c: _update(spec, other, training, m) for c, m in known.items()})
        except ValueError:  # an own update of another model takes its round away, not this one
            continue
        noise = max(len(one.clients) * one.noise for one in (whole, other))
        precision = max(whole.precision, other.precision)  # one round is enough: who draws gives other rows
        return each if same_rows(affine(alone, 0), affine(again, 0), rows, noise, precision) else None
    return None


def _alone(whole: RoundMean, own: Mapping[str, Arrays]) -> Arrays:
    """A multiple of what all but the `own` clients sent; of a weighted mean only where it has none of these."""
    return {name: len(whole.clients) * g - sum(u[name] for u in own.values()) for name, g in whole.mean.items()}


def member(
    knowledge: AuxiliaryKnowledge,
    training: TrainingSpec,
    client: str,
    round: int,
    classes: int,
    left: int | None = None,
) -> Member:
    """A client of a sum: how many rows it has there, and which labels. `left`: the rows that the sum has beside those
    of all others. Raises ValueError where nothing says how many, and for labels that do not fit.
    """
    granted, local = knowledge.labels.get((client, round)), training.algorithm == "fedavg"
    if granted is None:
        rows = left if left and left > 0 else training.batch_size
        if local or rows is None:
            raise ValueError(f"how many rows {client} trains on is not known: grant labels, or fix the batch size")
        return Member(client, rows, np.zeros(0, np.int64))
    labels = np.asarray(granted)
    epochs = training.local_epochs if local else 1
    empty = not len(labels) and training.sampling != "poisson"  # a sample may have no row
    if empty or len(labels) % epochs:
        raise ValueError(f"{len(labels)} labels of {client} are not those of {epochs} passes over its rows")
    labels = check_labels(labels, len(labels), classes)
    if local:
        check_epochs(labels.reshape(epochs, -1))
    return Member(client, len(labels) // epochs, labels)


def of_sum(mechanisms: Sequence[Mechanism], shares: Sequence[float]) -> tuple[Mechanism, ...]:
    """What protects a mean of updates with these `shares`, each protected by `mechanisms`. What has no counterpart on
    a sum keeps its parameters under a name that says so.
    """
    if len(shares) == 1:
        return tuple(mechanisms)
    return tuple(_of_sum(m, len(shares), float(np.linalg.norm(shares))) for m in mechanisms)


def _of_sum(mechanism: Mechanism, clients: int, size: float) -> Mechanism:
    """One of these; `size` is the root of the sum of the squared shares."""
    kind, given = mechanism.kind, mechanism.parameters
    if kind == OF_ENTRIES:
        return Mechanism(kind, {**given, "sigma": float(given["sigma"]) * size})
    return mechanism if kind == OF_ROWS else Mechanism(f"{kind} of {clients} clients each", given)


def _update(spec: ModelSpec, whole: RoundMean, training: TrainingSpec, message: Message) -> Arrays:
    """What a client sent, in the units of the aggregate. Raises ValueError for tensors of another model."""
    if message.kind is ClientGradient:
        return tensors(spec, message, "gradient")
    after = tensors(spec, message, "weights")
    return {name: (w - after[name]) / training.learning_rate for name, w in whole.weights.items()}


def _weight(view: View, training: TrainingSpec, one: Member) -> int:
    """How many rows the server takes a client to have: of Poisson samples what is to be expected."""
    expected = training.batch_size if poisson(view) else None
    return one.rows if expected is None else expected


def _labels(members: Sequence[Member]) -> NDArray[np.int64]:
    """Those of all members, pass by pass over their rows."""
    passes = [m.labels.reshape(-1, m.rows) for m in members if m.rows]
    return np.concatenate(passes, axis=1).ravel()


def _of_trainings(
    mean: ObservedUpdate, training: TrainingSpec, members: Sequence[Member]
) -> ObservedUpdate | NotApplicable:
    """The sum of local trainings as if clients trained one after the other, all from the same weights."""
    if reason := unknown_training(training):
        return NotApplicable(reason)
    count, rate = len(members), float(training.learning_rate)
    batch = max(min(training.batch_size or m.rows, m.rows) for m in members)
    gradient = {name: count * g for name, g in mean.gradient.items()}
    schedule = schedule_of(training, mean.rows, batch)
    if schedule.kept <= 0:
        return NotApplicable(f"the proximal term behind a sum (mu {training.proximal:g}) takes back what was before")
    local = rounding(mean.weights, gradient, mean.precision, schedule)
    noise = float(np.hypot(count * mean.noise, local))
    return replace(mean, gradient=gradient, schedule=schedule, noise=noise, stretched=count / rate)
