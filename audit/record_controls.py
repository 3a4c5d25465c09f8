"""Controls of attacks on updates: made-up clients that train on rows of the audited batch, from its model.

*Leaky*: clients with a single row each, which the attack must recover. An adversary that lists values may be unable to
tell those of one code apart, however good the attack: where the attack doubts all that it has wrong, the trial is
played again without the list, for codes alone, and the control says so. These clients have no defense and no sample of
unknown size, and the public facts that the attack is given say so. *Null*: a batch of rows drawn from the
marginals, its claims held against the real one; the attack must stay at its baseline, otherwise the scorer rewards
guessing. *Power*: a batch of other rows of the federation, as many as are audited, protected as is audited; where the
attack gets no more of them than luck, its silence about the real batch proves nothing. Both are held against the best
adversary that has the prior alone (`scoring.best_prior`), as scores are: to guess well is no leak, and no power.

Made-up clients have the names of real ones, so that an attack that knows the truth by name tells it where it is none.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from leakledger.attacks.base import Outcome, RecordsClaim, claims_in
from leakledger.audit.play import Play
from leakledger.audit.records import Control
from leakledger.audit.scoring.best_prior import best_prior
from leakledger.audit.scoring.metrics import advantage
from leakledger.audit.scoring.records import PriorOnly, compare, from_marginals, measure
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.truth import Cells, Truth
from leakledger.defenses import defense_of
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, Payload
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import draw_batches, protected
from leakledger.preprocess.views import FeatureLayout, Message, View
from leakledger.preprocess.wire import encode

RECOVERED = 0.8  # of four single rows: an approximate attack may miss one of them, not two
AT_BASELINE, DEVIATIONS, GUESSES = 0.15, 3, 40  # a trial is one batch: luck of a guess is told from a leak
NEARLY_ALL = 0.9  # of the way to perfect: of a few rows luck scatters by more, and what gets there has power
BY_CODE = "without a list of values, since with it values of one code were not told apart"
LEAKY_ROWS = 4  # clients with a single row each in the known-leaky control
UPDATES = (ClientGradient, ClientWeights)


def record_controls(play: Play, attacked: Collection[tuple[str, int]], coins: np.random.Generator) -> Iterable[Control]:
    truth, updates = play.truth, (m for kind in UPDATES for m in play.view.received(kind))
    with_rows = (m for m in updates if (m.sender, m.round) in attacked and len(truth.batch(m.sender, m.round)))
    first = next(with_rows, None)
    if first is None:
        return
    clients = play.view.public.clients
    names = [first.sender, *(c for c in clients if c != first.sender)]
    names += [f"control {i}" for i in range(len(names), LEAKY_ROWS)]
    victims = [replace(first, sender=name) for name in names[:LEAKY_ROWS]]
    real = truth.batch(first.sender, first.round)
    labels = truth.labels(first.sender, first.round)[: len(real)]
    picks = np.arange(LEAKY_ROWS) % len(real)

    batch = (first.sender, first.round)
    singles = {v.sender: picks[i : i + 1] for i, v in enumerate(victims)}
    leaky = {victim: (real.take(row), labels[row]) for victim, row in singles.items()}
    if not play.attack.calibrator:
        outcome = _made_up(play, first, leaky, coins)
        control, bare = _recovered(play, outcome, batch, singles, coins), without_candidates(play)
        if not control.passed and bare is not None and _doubts_what_is_wrong(play.truth, outcome, batch, singles):
            codes = _recovered(bare, _made_up(bare, first, leaky, coins), batch, singles, coins)
            control = replace(codes, expected=f"{BY_CODE}: {codes.expected}")
        yield control

    unrelated = {first.sender: (from_marginals(truth.population, len(real), coins), labels)}
    stated = max(len(real), first.payload.rows)  # of a Poisson sample the update does not tell how many rows it is of
    yield _null(play, _made_up(play, first, unrelated, coins, defended=True), batch, stated)

    if not play.attack.calibrator:
        planted = truth.population.take(coins.choice(len(truth.population), len(real)))
        outcome = _made_up(play, first, {first.sender: (planted, labels)}, coins, defended=True)
        yield _power(play, outcome, batch, planted, coins, stated)


def undefended(view: View) -> View:
    """The view as it would be without a defense, and with batches of a known size, as far as public facts say."""
    training = view.public.training
    fixed = None if training is None else replace(training, sampling="fixed")
    return replace(view, public=replace(view.public, mechanisms=(), training=fixed))


def without_candidates(play: Play) -> Play | None:
    """The play by an adversary that lists no values; None where it lists none anyway."""
    known = play.knowledge
    if not (known.dictionaries or known.marginals or known.codes):
        return None
    return replace(play, knowledge=replace(known, dictionaries={}, marginals={}, codes={}))


def _doubts_what_is_wrong(
    truth: Truth, outcome: Outcome, batch: tuple[str, int], rows: Mapping[str, np.ndarray]
) -> bool:
    """Whether there are claims, and every wrong category in them is one that the attack is not certain of."""
    claims = _records(outcome)
    for c in claims:
        terms = truth.in_terms_of(c.layout)
        matched = compare(Cells(c.categories, c.numbers), terms.batch(*batch).take(rows[c.victim]), terms.deviations)
        if (~matched.categories & (c.category_entropy[matched.order] == 0)).any():
            return False
    return bool(claims)


def _records(outcome: Outcome) -> list[RecordsClaim]:
    return [c for c in claims_in(outcome) if isinstance(c, RecordsClaim)]


def _made_up(
    play: Play,
    update: Message,
    batches: Mapping[str, tuple[Cells, np.ndarray]],
    coins: np.random.Generator,
    defended: bool = False,
) -> Outcome:
    """The attack on a view in which made-up victims train on `batches` from the model of `update`, and answer alike:
    protected like the audited updates where they are `defended`.
    """
    view, knowledge = play.view if defended else undefended(play.view), play.knowledge
    model = next(m for m in view.on(GlobalModel, recipient=update.sender) if m.round == update.round)
    messages = [m for m in view.messages if m.kind not in (GlobalModel, *UPDATES)]
    defense, granted = defense_of(view.public.mechanisms), {}
    for victim, (rows, labels) in batches.items():
        sent, ordered = made_up_update(view, update.kind, model.payload, rows, labels, coins)
        assert isinstance(sent, UPDATES)
        if view.public.mechanisms:
            sent = protected(defense.protect, model.payload, sent, coins)
        body = encode(sent.to_plain())
        messages += [replace(model, recipient=victim), replace(update, sender=victim, body=body, content=body)]
        granted[victim, update.round] = ordered
    known = replace(knowledge, labels=granted if knowledge.labels else {})
    return play.attack.run(replace(view, messages=tuple(messages)).restricted(play.attack.accepts), known)


def made_up_update(
    view: View, kind: type[Payload], model: GlobalModel, rows: Cells, labels: np.ndarray, coins: np.random.Generator
) -> tuple[Payload, np.ndarray]:
    """What a client with these rows would send as `kind`, and the labels of its local batches, in order. The gradients
    of its rows are clipped where the view's mechanisms clip them; what else they do is not done yet.
    """
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    assert spec is not None
    assert layout is not None
    assert training is not None
    data = Encoded(encoded_rows(layout, rows), np.asarray(labels))
    clip_norm = defense_of(view.public.mechanisms).row_clip_norm
    algorithm = next(a for a in ALGORITHMS.values() if a.update is kind)
    everything = [np.arange(len(rows))]  # a gradient is of one batch: all rows
    batches = everything if kind is ClientGradient else draw_batches(training, data, coins)
    return algorithm.client(spec, training, model, data, batches, clip_norm), data.labels[np.concatenate(batches)]


def encoded_rows(layout: FeatureLayout, rows: Cells) -> np.ndarray:
    """(n, width) float32: the encoding of cells, the inverse of `truth.cells`."""
    x = np.zeros((len(rows), layout.width), np.float32)
    for k, number in enumerate(layout.numeric):
        raw = rows.numbers[:, k]
        known = number.shift is not None and number.scale is not None
        x[:, number.start] = (raw - (number.shift or 0)) / (number.scale or 1) if known else raw
    scaled = {}
    for k, block in enumerate(layout.categorical):
        own = slice(block.start, block.start + block.width)
        if block.codes is None:  # features may share columns: a bucket is hit once or more, and scaled once
            x[np.arange(len(rows)), block.start + rows.categories[:, k]] = 1
            scaled[block.start] = block
        else:
            x[:, own] += block.codebook()[rows.categories[:, k]].astype(np.float32)
    for block in scaled.values():
        own = slice(block.start, block.start + block.width)
        if block.shift is not None and block.scale is not None:
            x[:, own] = (x[:, own] - np.array(block.shift)) / np.array(block.scale)
    return x


def _recovered(
    play: Play,
    outcome: Outcome,
    batch: tuple[str, int],
    rows: Mapping[str, np.ndarray],
    coins: np.random.Generator,
) -> Control:
    """Scores claims about made-up victims against the `rows` of a real batch, in the terms of the claims; a victim
    without a claim counts as not recovered, and so does one of whom more than its one row is claimed. What must be
    recovered does not depend on the baseline: drawn cells do.
    """
    claims = _records(outcome)
    scores = []
    for c in claims:
        truth = play.truth.in_terms_of(c.layout)
        actual = truth.batch(*batch).take(rows[c.victim])
        scores.append(_accuracy(c, actual, truth.deviations, 1))
    value = float(sum(scores)) / len(rows)
    truth = play.truth.in_terms_of(claims[0].layout if claims else None)
    guesses = [_guess(truth.batch(*batch).take(r), truth, coins) for r in rows.values() for _ in range(GUESSES)]
    expected = f"cells of single rows: at least {RECOVERED:.0%} recovered"
    return _control(play, "leaky", value, float(np.mean(guesses)), value >= RECOVERED, expected)


def _null(play: Play, outcome: Outcome, batch: tuple[str, int], stated: int) -> Control:
    """Scores the claims about an unrelated batch against the real one, beside the best prior-only guess of that."""
    claim = next(iter(_records(outcome)), None) or _no_rows(batch)
    truth = play.truth.in_terms_of(claim.layout)
    actual = truth.batch(*batch)
    prior = play.baseline.of(claim, actual, truth)
    value, baseline = _accuracy(claim, actual, truth.deviations, stated), prior.metrics["accuracy"]
    most = baseline + _luck(baseline, prior)
    return _control(play, "null", value, baseline, value <= most, f"cells of an unrelated batch: at most {most:.3f}")


def _power(
    play: Play, outcome: Outcome, batch: tuple[str, int], planted: Cells, coins: np.random.Generator, stated: int
) -> Control:
    """Whether the attack gets more of planted rows than the best prior-only guess does, whose rows they are too. Both
    claim `stated` rows at most.
    """
    claims, value, claimed, truth = _records(outcome), 0.0, len(planted), play.truth
    if claims and claims[0].layout is None:
        value = _accuracy(claims[0], planted, truth.deviations, stated)
        claimed = max(claimed, min(len(claims[0].categories), stated))
    of = population_without(truth, *batch)
    prior = best_prior(planted, of, truth.deviations, None, coins, play.baseline.draws, claimed)
    baseline = prior.metrics["accuracy"]
    least = baseline + _luck(baseline, prior)
    expected = f"cells of {len(planted)} planted rows, protected as is audited: more than {least:.3f}"
    return _control(play, "power", value, baseline, value > least, expected)


def _luck(baseline: float, prior: PriorOnly) -> float:
    """How far above the baseline mere luck can bring one trial: never to every cell."""
    luck = max(DEVIATIONS * prior.spreads["accuracy"], AT_BASELINE * (1 - baseline))
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


def shown_kinds(view: View) -> tuple[str, ...]:
    """The topics of the updates and models that the observers hold: what made-up clients send and are sent."""
    held = {m.topic for kind in (*UPDATES, GlobalModel) for m in view.on(kind) if m.content is not None}
    return tuple(sorted(held))


def _control(
    play: Play, kind: Literal["leaky", "null", "power"], value: float, baseline: float, passed: bool, expected: str
) -> Control:
    gain, kinds = advantage("accuracy", value, baseline) or 0.0, shown_kinds(play.view)
    return Control(play.attack.technique, kind, value, baseline, gain, passed, expected, kinds=kinds)
