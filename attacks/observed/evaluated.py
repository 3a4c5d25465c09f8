"""What evaluation and early stopping state in the clear about a client's rows that are kept from training.

`evaluate.counts` has the held-out rows by true and predicted class: their number and the share of each class are sums
of the confusion matrix, whatever the model. `evaluate.errors`, its counterpart for numeric targets, has their number,
the sum of targets and that of their squares, hence mean and deviation. Exact, all of it.

They are a publicly agreed share of a client's rows, rounded, and the others are its training rows: these lie in a short
interval, of some 1 / share numbers. Every class is divided in that proportion, to within one row, so that the share of
the positive class in training rows is that in held-out rows, to within about one of these.

`train.validation` says how many of its training rows a client keeps for validation. That is a publicly agreed share of
them, rounded, so it leaves few numbers of training rows: an interval that surely holds it. Where held-out rows bound
the same number, both intervals hold it.

The rest of these messages (by how much a model is wrong, and its histograms of probabilities) are sums over the same
rows of what a known model makes of each. Nothing is claimed from them here. Whoever has a list of people that holds
these rows can try which of them add up to it, and finds them out: the held-out ones, which no other claim is about,
where they are few, though they are told once; those that validate, under the model of every round. These are training
rows, so losses over them are read in part only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.preprocess.messages import ErrorSums, LocalLoss, PredictionCounts
from leakledger.preprocess.views import MalformedMessage, Message, View

HELD_OUT = (PredictionCounts, ErrorSums)
EVALUATED = (*HELD_OUT, LocalLoss)
IN_PART = (LocalLoss,)
"""Of these, what tells more of rows than is claimed."""
ROUNDING = 1e-6  # of sums over a client's rows, at most
MOST_NUMBERS = 1e6  # of rows that are looked at; each takes memory, and so many say next to nothing
MOST_ROWS = 2.0**50  # of which float64 still tells shares apart


def evaluated(view: View) -> Iterator[StatisticClaim]:
    """Claims about the held-out rows of senders, and how many rows they train on."""
    classes = [str(c) for c in view.public.schema.get("classes", ())]
    for m in view.received(PredictionCounts):
        yield from _classes(m, np.asarray(m.payload.confusion).sum(1), classes)
    for m in view.received(ErrorSums):
        yield from _target(m)
    yield from training_rows(view)


def training_rows(view: View) -> Iterator[StatisticClaim]:
    """How many rows senders train on, by one claim each, and with which share of the positive class."""
    counted: dict[str, StatisticClaim] = {}
    for claim in (*_rows_not_held_out(view), *_validated_rows(view)):
        if claim.statistic == "count":
            counted[claim.party] = _both(counted[claim.party], claim) if claim.party in counted else claim
        else:
            yield claim
    yield from counted.values()


def _both(one: StatisticClaim, other: StatisticClaim) -> StatisticClaim:
    """What two bounds on a whole number leave together; the second one where that is nothing."""
    low, high = max(one.low, other.low), min(one.high, other.high)
    evidence = tuple(sorted({*one.evidence, *other.evidence}))
    if low > high:
        return replace(other, evidence=evidence)
    return replace(other, estimate=(low + high + 1) // 2, low=low, high=high, evidence=evidence)


def _classes(m: Message, rows: np.ndarray, classes: list[str]) -> Iterable[StatisticClaim]:
    """From the rows of each class: their number, and shares where the public classes say which is which."""
    total = int(rows.sum())
    yield _stated(m, "held_out_count", total)
    if total and len(classes) == len(rows):
        for name, own in zip(classes, rows, strict=True):
            yield _stated(m, "held_out_rate", int(own) / total, name)


def _target(m: Message) -> Iterable[StatisticClaim]:
    told = m.payload
    yield _stated(m, "held_out_count", told.rows)
    if told.rows > 0:
        mean, square = told.target / told.rows, told.target_squared / told.rows
        if square < mean * mean * (1 - ROUNDING):
            raise MalformedMessage(f"{m.name}: no numbers have this sum and this sum of squares")
        yield _stated(m, "held_out_mean", mean)
        variance, lost = max(square - mean * mean, 0.0), 1e-12 * square  # what float64 sums lose in the difference
        std = np.sqrt(variance)
        by = float(np.sqrt(variance + lost) - std)
        yield StatisticClaim(m.sender, "", "held_out_std", float(std), float(std) - by, float(std) + by, (m.sequence,))


def _rows_not_held_out(view: View) -> Iterator[StatisticClaim]:
    """How many rows each sender of evaluations trains on, and with which share of the positive class: every one of its
    messages says the same of held-out rows.
    """
    told: dict[str, Message] = {}
    for m in (*view.received(PredictionCounts), *view.received(ErrorSums)):
        told.setdefault(m.sender, m)
    for sender, m in told.items():
        classes = np.zeros(0) if m.kind is ErrorSums else np.asarray(m.payload.confusion).sum(1)
        kept = int(m.payload.rows if m.kind is ErrorSums else classes.sum())
        possible = possible_rows(kept, view.public.held_out or 0.0)
        if not len(possible):
            continue
        low, high = float(possible[0]) - kept, float(possible[-1]) - kept
        yield StatisticClaim(sender, "", "count", float(possible[len(possible) // 2]) - kept, low, high, (m.sequence,))
        if len(classes) > 1:
            rates = _rates_not_held_out(possible, kept, int(classes[1]))
            yield StatisticClaim(sender, "", "target_rate", int(classes[1]) / kept, *rates, (m.sequence,))


def _rates_not_held_out(rows: np.ndarray, kept: int, positive: int) -> tuple[float, float]:
    """Between which shares of training rows are positive, if `positive` of `kept` held-out rows are, of so many `rows`
    in all: of a class the product of its rows and kept / rows is held out, rounded up or down.
    """
    least = np.maximum(np.floor((positive - 1) * rows / kept) + 1, positive)
    most = np.minimum(np.ceil((positive + 1) * rows / kept) - 1, rows - (kept - positive))
    trained = rows - kept
    return float(((least - positive) / trained).min()), float(((most - positive) / trained).max())


def _validated_rows(view: View) -> Iterator[StatisticClaim]:
    """One claim for each sender of validation losses; every one of them says the same number of rows."""
    told: dict[str, list[Message]] = {}
    for m in view.received(LocalLoss):
        told.setdefault(m.sender, []).append(m)
    share = view.public.training.validation if view.public.training else 0.0
    for sender, messages in told.items():
        possible = possible_rows(messages[0].payload.rows, share)
        if len(possible):
            low, high = float(possible[0]), float(possible[-1])
            evidence = tuple(m.sequence for m in messages)
            yield StatisticClaim(sender, "", "count", float(possible[len(possible) // 2]), low, high, evidence)


def possible_rows(kept: int, share: float) -> np.ndarray:
    """The numbers of training rows of which a share, rounded, at least one and never all, is `kept`; none where no
    number fits, or the share is none, or more than `MOST_NUMBERS` may fit.
    """
    rows = _around(kept, share)
    return np.asarray(rows[_held_back(rows, share) == kept])


def rows_behind(trained: int, share: float) -> np.ndarray:
    """The numbers of training rows of which `trained` are left where that share validates: one alone stays."""
    rows = _around(trained, 1 - share)
    return np.asarray(rows[rows - _held_back(rows, share) == trained])


def _around(part: int, share: float) -> np.ndarray:
    """All numbers of rows of which a share, rounded, can be so large a part, and some more; none where a share as small
    as that leaves more than `MOST_NUMBERS`, or nobody has so many rows.
    """
    if not 0 < share < 1 or part < 1 or 2 / share > MOST_NUMBERS or part / share > MOST_ROWS:
        return np.zeros(0, np.int64)
    return np.arange(max(1, int((part - 1) / share) - 1), int((part + 1) / share) + 2)


def _held_back(rows: np.ndarray, share: float) -> np.ndarray:
    """Of each number of training rows, how many validate."""
    kept: np.ndarray = np.minimum(np.maximum(1, np.round(share * rows)), rows - 1)
    return kept


def _stated(m: Message, statistic: Statistic, x: float, value: str = "") -> StatisticClaim:
    number = float(x)
    return StatisticClaim(m.sender, "", statistic, number, number, number, (m.sequence,), value)
