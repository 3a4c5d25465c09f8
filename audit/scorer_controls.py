"""Controls of the scoring itself, and of what it takes for true: claims whose score is known beforehand.

*Leaky*: the truth, claimed with its rows in another order, must score as perfect; numbers a little off must count as
right. *Null*: what an adversary with the prior only would claim must be worth no more than the prior; numbers further
off than the tolerance must count as wrong; the rows that count as true must make the observed gradient; a view must
hold nothing of parties that do not observe. A scorer that fails any of these measures something else than it says, and
every score of the setting is inconclusive.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import (
    AuxiliaryKnowledge,
    ColumnClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    clients_of,
)
from leakledger.attacks.observed.gradients import poisson
from leakledger.attacks.observed.sums import find_sums
from leakledger.audit.cells import TOLERANCE, Cells
from leakledger.audit.made_up import encoded_rows, made_up_update, with_own_codes
from leakledger.audit.records import SCORER, Control, plural
from leakledger.audit.scoring.best_prior import BestPrior
from leakledger.audit.scoring.columns import score_columns
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.scoring.records import from_marginals, measure, score_records
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.scoring.vocabulary import score_vocabularies
from leakledger.audit.truth import Truth
from leakledger.defenses import Defense, chain, defense_of
from leakledger.preprocess.messages import ClientGradient, GlobalModel, Payload
from leakledger.preprocess.training.base import protected
from leakledger.preprocess.views import Mechanism, View

INSIDE, OUTSIDE = 0.9 * TOLERANCE, 1.1 * TOLERANCE  # standard deviations off
DEVIATIONS = 5  # of what prior-only draws scatter: luck beyond that is one in millions
LUCK = 0.5  # of the way to perfect: the prior's way to guess was chosen on other parties, and may be the worse one
EXPLAINED = 1e-3  # relative error of a gradient in float32 that was made again
SMOOTH = ("example-clipping", "client-clipping")  # a gradient made again is as near after these as it was before
MOST_ROWS = 256  # of a batch that is tried: matching takes time and memory as the square of its rows
BATCHES = 2  # attacked batches that are tried: the scorer is the same for all

Key = tuple[str, int]


def scorer_controls(
    truth: Truth,
    views: Sequence[View],
    attempted: Sequence[Key],
    prior: BestPrior,
    coins: np.random.Generator,
) -> Iterator[Control]:
    """The controls of one case; of records where batches are attacked, of the rest always. `prior` is the baseline of
    the case, so that what it finds serves both.
    """
    yield _at_most("a view holds what its observers put in, and nothing of others", float(_foreign(views)), 0.0)
    yield from _statistics(truth)
    yield from _vocabularies(truth)
    yield from _columns(truth, coins)
    small = [key for key in attempted if 0 < len(truth.batch(*key)) <= MOST_ROWS]
    for key in small[:BATCHES]:
        yield from _records(truth, key, prior, coins)
    told = next((v for v in views if any(True for _ in v.received(ClientGradient))), None)
    if told is not None:
        yield from _explained(truth, told, attempted)
    yield from _explained_sums(truth, views, prior.knowledge, {round for _, round in attempted})


def _foreign(views: Sequence[View]) -> int:
    """Parties whose input or coins a view holds though they are none of its observers."""
    return sum(len({*v.inputs, *v.coins} - v.observers) for v in views)


def _records(truth: Truth, key: Key, prior: BestPrior, coins: np.random.Generator) -> Iterator[Control]:
    truth = truth.terms_of(key[0])
    actual = truth.batch(*key)
    planted = _scored(_claim(key, actual.take(coins.permutation(len(actual)))), truth, prior)
    perfect = min(planted["accuracy"].value, planted["identical_rows"].value)
    yield _at_least("the rows of a batch in another order: all right", perfect, 1.0)
    others = population_without(truth, *key).cells  # the prior does not hold the rows under attack
    guess = _scored(_claim(key, from_marginals(others, len(actual), coins)), truth, prior)["accuracy"]
    chance = DEVIATIONS * max(guess.spread, 1 / (actual.categories.size + actual.numbers.size))  # a cell, at least
    yield _at_most("rows drawn from the marginals: no better than the prior", guess.value, guess.baseline + chance)
    one = actual.take(np.array([0]))
    if one.numbers.shape[1]:
        near, far = (_moved(one, off, truth) for off in (INSIDE, OUTSIDE))
        yield _at_least(f"numbers {INSIDE:.2f} standard deviations off: right", near, 1.0)
        yield _at_most(f"numbers {OUTSIDE:.2f} standard deviations off: wrong", far, 0.0)


def _moved(one: Cells, off: float, truth: Truth) -> float:
    """The numeric accuracy of rows whose numbers are so many standard deviations off; of constant columns, so many
    units. Where a float has no room for that, it is rounded away from the tolerance: next to a number of 10^70 there is
    none that is a unit off.
    """
    off_by = off * np.where(truth.deviations > 0, truth.deviations, 1.0)
    numbers = one.numbers + off_by
    inside = off < TOLERANCE
    rounded = numbers - one.numbers > off_by if inside else numbers - one.numbers < off_by
    away = np.nextafter(numbers, -np.inf if inside else np.inf)
    moved = Cells(one.categories, np.where(rounded, away, numbers), one.sources)
    return measure(moved, one, truth.deviations)["numeric_accuracy"]


def _claim(key: Key, rows: Cells) -> RecordsClaim:
    unsure = np.ones(rows.categories.shape), np.ones(rows.numbers.shape)
    return RecordsClaim(*key, rows.categories, rows.numbers, *unsure)


def _scored(claim: RecordsClaim, truth: Truth, prior: BestPrior) -> dict[str, Measured]:
    return {m.metric: m for m in score_records([claim], truth, prior.of)}


def _statistics(truth: Truth) -> Iterator[Control]:
    """Means of a party, claimed exactly; and the federation's own in their place, which the prior has too."""
    party = truth.parties[0]
    numeric = truth.numeric_of(party)
    if not numeric:
        return
    own = [truth.statistic(party, f, "mean") for f in numeric]
    pooled = [truth.pooled_statistic(f, "mean") for f in numeric]
    for what, figures in (("own", own), ("pooled", pooled)):
        claims = [StatisticClaim(party, f, "mean", x, x, x) for f, x in zip(numeric, figures, strict=True)]
        found = next(iter(score_statistics(claims, truth)))
        if what == "own":
            yield _at_least("a party's means: all right", found.value, 1.0)
        else:
            most = found.baseline + LUCK * (1 - found.baseline)
            yield _at_most("the federation's means: not much better than the prior", found.value, most)


def _vocabularies(truth: Truth) -> Iterator[Control]:
    """The parties' values, and everyone's in the place of each."""
    if not truth.dictionaries:
        return
    told = [VocabularyClaim(p, f, tuple(sorted(v))) for p, own in truth.vocabularies.items() for f, v in own.items()]
    all_told = [VocabularyClaim(p, f, v) for p in truth.parties for f, v in truth.dictionaries.items()]
    planted, guessed = ([m for m in score_vocabularies(c, truth) if m.metric == "f1"] for c in (told, all_told))
    yield _at_least("the parties' values: all right", min(m.value for m in planted), 1.0)
    value, prior = (float(np.mean([getattr(m, name) for m in guessed])) for name in ("value", "baseline"))
    yield _at_most("everyone's values: not much better than the prior", value, prior + LUCK * (1 - prior))


def _columns(truth: Truth, coins: np.random.Generator) -> Iterator[Control]:
    """The columns that parties alone hold, and the same with their records in another order."""
    every = truth.own_columns.items()
    if not every:
        return
    own = [ColumnClaim(p, f, x, (), "exact") for (p, f), x in every]
    moved = [ColumnClaim(p, f, coins.permutation(x), (), "exact") for (p, f), x in every]
    found, other = ({(m.victim, m.metric): m for m in score_columns(claims, truth)} for claims in (own, moved))
    yield _at_least("the parties' columns: all right", min(m.value for m in found.values()), 1.0)
    follows = [m.value for (_, metric), m in other.items() if metric == "correlation"]
    chance = DEVIATIONS / np.sqrt(len(every) * len(own[0].values))
    yield _at_most("their records in another order: follow nothing", float(np.mean(follows)), float(chance))


def _explained(truth: Truth, view: View, attempted: Sequence[Key]) -> Iterator[Control]:
    """Whether the rows that count as true make the observed gradient: exactly, or under a defense better than the rows
    of any other attacked batch, where the batches differ by enough to tell.
    """
    repeated, off = repeatable(view.public.mechanisms), list[float]()
    model = view.public.model
    if repeated is None or (model is not None and model.dropout):  # nobody can leave out the same units again
        return
    for key in attempted[:BATCHES]:
        update = next((m for m in view.received(ClientGradient) if (m.sender, m.round) == key), None)
        if update is None:
            continue
        seen, own = _flat(update.payload), _gradient(truth, view, key, key, repeated)
        if own is None:
            continue
        if all(m.kind in SMOOTH for m in view.public.mechanisms):
            off.append(float(np.linalg.norm(seen - own) / max(float(np.linalg.norm(seen)), 1e-12)))
            continue
        others = [g for o in attempted if o != key and (g := _gradient(truth, view, key, o, repeated)) is not None]
        if told_apart := [g for g in others if _differ(own, g, seen)]:
            nearer = min(float(np.linalg.norm(seen - g)) for g in told_apart)
            off.append(float(np.linalg.norm(seen - own) > nearer))
    if off:
        yield _at_most("the rows that count as true make the observed gradient: relative error", max(off), EXPLAINED)


def _explained_sums(
    truth: Truth, views: Sequence[View], knowledge: AuxiliaryKnowledge, rounds: Collection[int]
) -> Iterator[Control]:
    """Whether the rows that count as true behind a sum over clients make it, up to the rounding of the models that it
    was read from. Of sums that nothing protects, the first of each number of clients.
    """
    tried = set[int]()
    for view in views:
        plain = not view.public.mechanisms and not poisson(view)
        sums = find_sums(view, knowledge, rounds=rounds) if plain else ()
        for update in sums if isinstance(sums, list) else ():
            batch, clients = truth.batch(update.victim, update.round), len(clients_of(update.victim))
            if update.schedule is not None or len(batch) != update.rows or clients in tried:
                continue
            tried.add(clients)
            labels = truth.labels(update.victim, update.round)[: len(batch)]
            model = GlobalModel({name: w.astype(np.float32) for name, w in update.weights.items()})
            rows = _as_sent(truth, (update.victim, update.round))
            made, _ = made_up_update(view, ClientGradient, model, rows, labels, np.random.default_rng(0))
            assert isinstance(made, ClientGradient)
            own, seen = _flat(made), _in_one(update.gradient)
            size = max(float(np.linalg.norm(seen)), 1e-12)
            rounding = DEVIATIONS * update.noise * seen.size**0.5 / size
            off, most = float(np.linalg.norm(seen - own)) / size, max(EXPLAINED, rounding)
            yield _at_most(
                f"the rows that count as true make the sum over {plural(clients, 'client')}: relative error", off, most
            )


def repeatable(mechanisms: Sequence[Mechanism]) -> Defense | None:
    """What of a defense can be done again to other rows: what comes before the first coin. None where it is not known
    that the rest is right in the mean: then the rows themselves may be no nearer to what was sent than others.
    """
    parts = [defense_of([m]) for m in mechanisms]
    fixed = list(takewhile(lambda part: not part.random, parts))
    return chain(*fixed) if all(part.random for part in parts[len(fixed) :]) else None


def _differ(own: NDArray[np.float64], other: NDArray[np.float64], seen: NDArray[np.float64]) -> bool:
    """Whether two gradients are so far apart that errors like those of `seen` do not take the one for the other.

    Errors e of the nearer one, alike in size and independent: <e, other - own> has to stay below half the squared
    distance.
    """
    apart, errors = other - own, min(seen - own, seen - other, key=lambda e: float(np.linalg.norm(e)))
    return float(apart @ apart) > 2 * DEVIATIONS * float(np.linalg.norm(errors * apart))


def _gradient(truth: Truth, view: View, key: Key, rows: Key, defense: Defense) -> NDArray[np.float64] | None:
    """What the client of `key` would have sent of the batch `rows` under `defense` alone; None without its model."""
    model = next((m for m in view.on(GlobalModel, recipient=key[0]) if m.round == key[1]), None)
    if model is None or model.content is None:
        return None
    batch = _as_sent(truth, rows)
    labels = truth.labels(*rows)[: len(batch)]
    coins = np.random.default_rng(0)  # not used: neither a gradient nor what can be done again needs any
    made, _ = made_up_update(view, ClientGradient, model.payload, batch, labels, coins)
    assert isinstance(made, ClientGradient)
    return _flat(protected(defense.protect, model.payload, made, coins))


def _as_sent(truth: Truth, key: Key) -> NDArray[np.float32]:
    """(B, width) the rows that count as true, encoded; codes that training rows have of their own, as they have them,
    since cells do not tell these.
    """
    rows = truth.batch(*key)
    if truth.out_of_fold:
        return with_own_codes(truth.layout, rows, truth.encoded(*key))
    return encoded_rows(truth.layout, rows)


def _flat(update: Payload) -> NDArray[np.float64]:
    assert isinstance(update, ClientGradient)
    return _in_one(update.gradient)


def _in_one(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(a, np.float64).ravel() for _, a in sorted(arrays.items())])


def _at_least(expected: str, value: float, least: float) -> Control:
    return Control(SCORER, "leaky", value, 0.0, value, value >= least - 1e-12, expected)


def _at_most(expected: str, value: float, most: float) -> Control:
    return Control(SCORER, "null", value, most, value - most, value <= most + 1e-12, expected)
