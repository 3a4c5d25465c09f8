"""Controls of attacks on updates: made-up clients that train on rows of the audited batch, from its model.

They are played for each way in which updates are observed (`made_up`): sent by themselves, or summed, read from the
models before and after a round.

*Leaky*: clients with a single row each, which the attack must recover. An adversary that lists values may be unable to
tell those of one code apart, however good the attack: where the attack doubts all that it has wrong, the trial is
played again without the list, for codes alone, and the control says so. These clients have no defense and no sample of
unknown size, and the public facts that the attack is given say so. *Null*: a batch of rows drawn from the marginals,
its claims held against the real one; the attack must stay at its baseline, or at what the two batches have in common,
otherwise the scorer rewards guessing. *Power*: a batch of other rows of the same clients, as many as the largest
audited batch has, protected as is audited; where the attack gets no more of them than luck, its silence about the real
batch proves nothing. Both are held against the best adversary that has the prior alone (`scoring.best_prior`), as
scores are: to guess well is no leak, and no power.

The rows are the clients' own since attacks read what a client said of its rows before: rows of another one would
contradict it. Under a defense one batch is not enough to tell a strong attack from luck, whose spread is larger than
what the defense leaves to get: where the first shows no power more are played, up to `BATCHES`, and the mean is held
against luck in the mean of as many. What must be gained, `AT_BASELINE` of the way to perfect, stays the same. An attack
that would not pass the last look by a deviation more than it has is given up: further trials cost much and would hardly
ever show power.

Of sums, the leaky trials have one made-up client beside the observers, so that the difference of two models is its
update up to the rounding of weights; where an attack misses even that, its silence about sums proves nothing, but what
it found in single updates stands. Null and power have as many clients as the audited sum.

Made-up clients have the names of real ones, so that an attack that knows the truth by name tells it where it is none.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Literal

import numpy as np

from leakledger.attacks.base import Outcome, RecordsClaim, claims_in
from leakledger.audit.cells import Cells, joined
from leakledger.audit.made_up import (
    UPDATES,
    Batches,
    Observed,
    Sent,
    Summed,
    rows_alone,
    shown,
    topics_shown,
    undefended,
    with_own_codes,
)
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.play import Play
from leakledger.audit.records import POWER, Control, plural
from leakledger.audit.scoring.best_prior import best_prior
from leakledger.audit.scoring.metrics import advantage
from leakledger.audit.scoring.records import PriorOnly, compare, from_marginals, measure
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.truth import Truth

RECOVERED = 0.8  # of four single rows: an approximate attack may miss one of them, not two
AT_BASELINE, DEVIATIONS, GUESSES = 0.15, 3, 40  # a trial is one batch: luck of a guess is told from a leak
BATCHES = (1, 2, 4, 8)  # played of a defended power trial before each look: four, by luck at most 4 in 740 pass one
NEARLY_ALL = 0.9  # of the way to perfect: of a few rows luck scatters by more, and what gets there has power
BY_CODE = "without a list of values, since with it values of one code were not told apart"
LEAKY_ROWS = 4  # clients with a single row each in the known-leaky control

Key = tuple[str, int]
Single = tuple[RecordsClaim, np.ndarray]
"""A claim about a made-up client with a single row, and which row of the real batch that is."""
Trial = Literal["leaky", "null", "power"]


def record_controls(play: Play, attacked: Collection[Key], coins: np.random.Generator) -> Iterable[Control]:
    """The controls for each way in which the `attacked` batches are observed."""
    for observed in observed_ways(play, attacked):
        yield from _of_way(play, observed, coins)


def observed_ways(play: Play, attacked: Collection[Key]) -> list[Observed]:
    """The update of most rows that was sent, and that of most that was summed, of those `attacked`; the first of equal
    ones. What an attack can do with the fewest rows is no power against the others.
    """
    sent = {(m.sender, m.round): m for kind in UPDATES for m in play.view.received(kind)}
    sizes = {key: len(play.truth.batch(*key)) for key in sorted(attacked)}
    audited = sorted((key for key, rows in sizes.items() if rows), key=lambda key: -sizes[key])
    single = next((Sent(sent[key]) for key in audited if key in sent), None)
    summed = next((Summed(*key) for key in audited if key not in sent), None)
    return [way for way in (single, summed) if way is not None]


def ways_left(play: Play, attacked: Collection[Key], done: Iterable[Control]) -> list[Key]:
    """The `attacked` batches observed in a way of which no control in `done` has shown the attack anything."""
    ways = {c.summed for c in done if c.attack == play.attack.technique}
    left = [way for way in observed_ways(play, attacked) if isinstance(way, Summed) not in ways]
    return [way.batch for way in left]


def _of_way(play: Play, observed: Observed, coins: np.random.Generator) -> Iterator[Control]:
    """The controls for one way in which updates are observed, on the batch that `observed` is of."""
    truth, batch = play.truth, observed.batch
    real = truth.batch(*batch)
    labels = truth.labels(*batch)[: len(real)]
    if not play.attack.calibrator:
        yield _leaky(play, observed, real, labels, coins)

    owners = truth.owners(*batch)
    rows = from_marginals(truth.population, len(real), coins)
    unrelated = by_owner(rows, labels, owners)
    stated = len(real)
    if isinstance(observed, Sent):  # of a Poisson sample the update does not tell how many rows it is of
        stated = max(stated, observed.message.payload.rows)
    yield _null(play, observed, rows, _made_up(play, observed, unrelated, coins, defended=True), stated)

    if not play.attack.calibrator:
        yield _power(play, observed, labels, owners, coins, stated)


def by_owner(rows: Cells, labels: np.ndarray, owners: np.ndarray) -> dict[str, tuple[Cells, np.ndarray]]:
    """The rows and labels of each owner, in order."""
    own = {str(o): np.flatnonzero(owners == o) for o in dict.fromkeys(owners.tolist())}
    return {owner: (rows.take(at), labels[at]) for owner, at in own.items()}


def _leaky(play: Play, observed: Observed, real: Cells, labels: np.ndarray, coins: np.random.Generator) -> Control:
    """Whether single rows are recovered; by code alone, where only values of one code are confused."""
    trials = single_rows(play, observed, len(real))

    def claimed(of: Play) -> list[Single]:
        found = list[Single]()
        for rows in trials:
            batches = {victim: (real.take(row), labels[row]) for victim, row in rows.items()}
            found += [(c, rows[c.victim]) for c in _records(_made_up(of, observed, batches, coins))]
        return found

    picked = [row for rows in trials for row in rows.values()]
    singles, bare = claimed(play), without_candidates(play)
    control = _recovered(play, observed, singles, picked, coins)
    if control.passed or bare is None or not _doubts_what_is_wrong(play.truth, observed.batch, singles):
        return control
    codes = _recovered(bare, observed, claimed(bare), picked, coins)
    return replace(codes, expected=f"{BY_CODE}: {codes.expected}")


def single_rows(play: Play, observed: Observed, rows: int) -> list[dict[str, np.ndarray]]:
    """The trials of the leaky control: which of so many `rows` each made-up client of a trial has. All send theirs in
    one trial, and are summed with nobody else's in one each. It is one row, or behind batch norm a few (`rows_alone`).
    """
    few = rows_alone(play.view, rows)
    picks = (np.arange(LEAKY_ROWS)[:, None] + np.arange(few)) % rows
    if isinstance(observed, Summed):
        names = [observed.clients[i % len(observed.clients)] for i in range(LEAKY_ROWS)]
        return [{name: picks[i]} for i, name in enumerate(names)]
    first = observed.message.sender
    names = [first, *(c for c in play.view.public.clients if c != first and c not in play.view.observers)]
    names += [f"control {i}" for i in range(len(names), LEAKY_ROWS)]
    return [{name: picks[i] for i, name in enumerate(names[:LEAKY_ROWS])}]


def without_candidates(play: Play) -> Play | None:
    """The play by an adversary that lists no values; None where it lists none anyway."""
    known = play.knowledge
    if not (known.dictionaries or known.marginals or known.codes):
        return None
    return replace(play, knowledge=replace(known, dictionaries={}, marginals={}, codes={}))


def _doubts_what_is_wrong(truth: Truth, batch: Key, singles: Sequence[Single]) -> bool:
    """Whether there are claims, and every wrong category in them is one that the attack is not certain of."""
    for c, row in singles:
        terms = truth.in_terms_of(c.layout)
        matched = compare(Cells(c.categories, c.numbers), terms.batch(*batch).take(row), terms.deviations)
        if (~matched.categories & (c.category_entropy[matched.order] == 0)).any():
            return False
    return bool(singles)


def _records(outcome: Outcome) -> list[RecordsClaim]:
    return [c for c in claims_in(outcome) if isinstance(c, RecordsClaim)]


def _made_up(
    play: Play,
    observed: Observed,
    batches: Batches,
    coins: np.random.Generator,
    defended: bool = False,
) -> Outcome:
    """The attack on a view in which made-up clients train on `batches`, observed as the audited updates are: protected
    like these where they are `defended`.
    """
    view, granted = shown(play.view if defended else undefended(play.view, batches), observed, batches, coins)
    own = play.knowledge.texts.get(observed.batch[0])  # made-up clients write the records of a real one
    texts = play.knowledge.texts if own is None else dict.fromkeys(batches, own)
    known = replace(play.knowledge, labels=granted if play.knowledge.labels else {}, texts=texts)
    return outcome_of(play.attack, view.restricted(play.attack.accepts), known)


def _recovered(
    play: Play, observed: Observed, singles: Sequence[Single], picked: Sequence[np.ndarray], coins: np.random.Generator
) -> Control:
    """Scores claims about made-up victims, each with its row of the real batch, in the terms of the claims; a victim
    without a claim counts as not recovered, and so does one of whom more than its one row is claimed. What must be
    recovered does not depend on the baseline: drawn cells do. `picked`: the rows of all victims.
    """
    scores = []
    for c, row in singles:
        truth = play.truth.in_terms_of(c.layout)
        scores.append(_accuracy(c, truth.batch(*observed.batch).take(row), truth.deviations, len(row)))
    value = float(sum(scores)) / len(picked)
    truth = _terms(play, observed, singles[0][0] if singles else None)
    real = truth.batch(*observed.batch)
    guesses = [_guess(real.take(row), truth, coins) for row in picked for _ in range(GUESSES)]
    passed = value >= RECOVERED
    summed = isinstance(observed, Summed)
    few = "single rows" if len(picked[0]) == 1 else f"batches of {len(picked[0])} rows"
    expected = f"cells of {few}{_behind(observed) and ' behind two models'}: at least {RECOVERED:.0%} recovered"
    kind: Trial = POWER if summed and not passed else "leaky"
    return _control(play, observed, kind, value, float(np.mean(guesses)), passed, expected)


def _null(play: Play, observed: Observed, unrelated: Cells, outcome: Outcome, stated: int) -> Control:
    """Scores the claims about an unrelated batch against the real one, beside the best prior-only guess of that, and
    beside what the two have in common: of few different rows one batch is by chance the other, and to recover the one
    is to have the other.
    """
    claimed = next(iter(_records(outcome)), None)
    claim, truth = claimed or _no_rows(observed.batch), _terms(play, observed, claimed)
    actual = truth.batch(*observed.batch)
    prior = play.baseline.of(claim, actual, truth)
    value, baseline = _accuracy(claim, actual, truth.deviations, stated), prior.metrics["accuracy"]
    real = play.truth.batch(*observed.batch)
    alike = measure(unrelated, real, play.truth.deviations)["accuracy"]
    most = max(baseline + _luck(baseline, prior), alike)
    expected = f"cells of an unrelated batch{_behind(observed)}: at most {most:.3f}"
    return _control(play, observed, "null", value, baseline, value <= most, expected)


def _power(
    play: Play,
    observed: Observed,
    labels: np.ndarray,
    owners: np.ndarray,
    coins: np.random.Generator,
    stated: int,
) -> Control:
    """Whether the attack gets more of planted rows than the best prior-only guess does, whose rows they are too, in the
    terms of its claims. Both claim `stated` rows at most.
    """
    looks = BATCHES if play.view.public.mechanisms else BATCHES[:1]
    values, baselines, least = list[float](), list[float](), 0.0
    while len(values) < looks[-1]:
        again = deepcopy(coins)
        sent = _planted(play.truth, owners, coins)
        batches = _as_trained(play.truth, by_owner(sent, labels, owners), _drawn(play.truth, owners, deepcopy(again)))
        outcome = _made_up(play, observed, batches, coins, defended=True)
        claims = _records(outcome)
        terms = _terms(play, observed, claims[0] if claims else None)
        planted = sent if terms is play.truth else _planted(terms, owners, again)
        value, claimed = 0.0, len(planted)
        if claims:
            value = _accuracy(claims[0], planted, terms.deviations, stated)
            claimed = max(claimed, min(len(claims[0].categories), stated))
        of = population_without(terms, *observed.batch)
        prior = best_prior(planted, of, terms.deviations, None, coins, play.baseline.draws, claimed)
        values.append(value)
        baselines.append(prior.metrics["accuracy"])
        if len(values) in looks:
            baseline = float(np.mean(baselines))
            least = baseline + _luck(baseline, prior, len(values))
            hoped = np.mean(values) + prior.spreads["accuracy"] / float(np.sqrt(len(values)))
            futile = hoped <= baseline + _luck(baseline, prior, looks[-1])
            if np.mean(values) > least or futile or not claims:
                break
    value, trials = float(np.mean(values)), len(values)
    on_average = f", mean of {trials} batches" if trials > 1 else ""
    expected = (
        f"cells of {len(owners)} planted rows{_behind(observed)}, protected as is audited{on_average}: "
        f"more than {least:.3f}"
    )
    return _control(play, observed, POWER, value, float(np.mean(baselines)), value > least, expected)


def _planted(truth: Truth, owners: np.ndarray, coins: np.random.Generator) -> Cells:
    """As many rows as there are `owners`, drawn as a batch is: from all that each holds, none twice."""
    drawn = _drawn(truth, owners, coins)
    places = np.concatenate([np.flatnonzero(owners == owner) for owner in drawn])
    return joined([truth.held(owner).take(rows) for owner, rows in drawn.items()]).take(np.argsort(places))


def _drawn(truth: Truth, owners: np.ndarray, coins: np.random.Generator) -> dict[str, np.ndarray]:
    """The numbers of these rows, by owner."""
    drawn: dict[str, np.ndarray] = {}
    for owner in dict.fromkeys(owners.tolist()):
        held, rows = len(truth.held(owner)), int((owners == owner).sum())
        drawn[owner] = coins.choice(held, rows, replace=held < rows)
    return drawn


def _as_trained(
    truth: Truth, batches: Mapping[str, tuple[Cells, np.ndarray]], drawn: Mapping[str, np.ndarray]
) -> Batches:
    """The batches of `drawn` rows; with the codes that training rows have of their own, which are harder to read than
    the public ones.
    """
    if not truth.out_of_fold:
        return batches
    train, layout = truth.federated.train, truth.layout
    return {o: (with_own_codes(layout, rows, train[o].rows[drawn[o]]), labels) for o, (rows, labels) in batches.items()}


def _terms(play: Play, observed: Observed, claim: RecordsClaim | None) -> Truth:
    """The truth in the terms of a claim; of no claim, in those in which the audited rows are held against guesses."""
    if claim is None or claim.layout is None:
        return play.truth.terms_of(observed.batch[0])
    return play.truth.in_terms_of(claim.layout)


def _behind(observed: Observed) -> str:
    """How they are observed, in words; nothing for what is sent."""
    if isinstance(observed, Sent):
        return ""
    clients = len(observed.clients)
    return f" of {plural(clients, 'client')} behind two models"


def _luck(baseline: float, prior: PriorOnly, trials: int = 1) -> float:
    """How far above the baseline mere luck can bring the mean of so many trials: never to every cell."""
    luck = max(DEVIATIONS * prior.spreads["accuracy"] / float(np.sqrt(trials)), AT_BASELINE * (1 - baseline))
    return min(luck, NEARLY_ALL * (1 - baseline))


def _no_rows(batch: tuple[str, int]) -> RecordsClaim:
    """What an attack without a claim claims of a batch."""
    nothing = np.zeros((0, 0))
    return RecordsClaim(*batch, nothing.astype(np.int64), nothing, nothing, nothing)


def _accuracy(claim: RecordsClaim, actual: Cells, deviations: np.ndarray, stated: int) -> float:
    """The share of cells right; of more rows than there may be, and of none, none."""
    if not 0 < len(claim.categories) <= stated:
        return 0.0
    return measure(Cells(claim.categories, claim.numbers), actual, deviations)["accuracy"]


def _guess(actual: Cells, truth: Truth, coins: np.random.Generator) -> float:
    """The accuracy of one batch drawn from the marginals."""
    return measure(from_marginals(truth.population, len(actual), coins), actual, truth.deviations)["accuracy"]


def _control(
    play: Play, observed: Observed, kind: Trial, value: float, baseline: float, passed: bool, expected: str
) -> Control:
    gain, kinds = advantage("accuracy", value, baseline) or 0.0, topics_shown(play.view, observed)
    summed = isinstance(observed, Summed)
    return Control(play.attack.technique, kind, value, baseline, gain, passed, expected, kinds=kinds, summed=summed)
