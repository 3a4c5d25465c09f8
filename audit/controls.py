"""Controls: trials whose answer is known beforehand, played in every case with the same attacks and the same scorer.

*Known-leaky*: something that surely leaks, which the attack must recover; otherwise its silence elsewhere proves
nothing. An adversary that lists values may be unable to tell those of one code apart, however good the attack: where
the attack doubts all that it has wrong, the trial is played again without the list, for codes alone, and the control
says so. *Null*: messages that have nothing to do with the victim, scored against the victim; the attack must stay at
its baseline, otherwise the scorer rewards guessing. *Shuffled*, of attacks on transcripts: transcripts of other
federations than the ones they are scored against, many times; no better than chance, otherwise the attack has the truth
from elsewhere. A control that fails makes the verdict inconclusive.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attacks.base import Attack, Outcome, RecordsClaim, VocabularyClaim, claims_in
from audit.play import Play
from audit.records import Control
from audit.scoring.metrics import advantage
from audit.scoring.records import compare, from_marginals, measure
from audit.scoring.vocabulary import overlap
from audit.shuffled_controls import DICTIONARY_TOPIC, Shuffled, claims_of, shuffled, shuffled_dictionaries
from audit.transcript_controls import Kind, transcript_trials
from audit.truth import Cells, Truth
from preprocess.pipeline import Encoded
from preprocess.training import ALGORITHMS
from preprocess.training.base import GRADIENT_TOPIC, MODEL_TOPIC, WEIGHTS_TOPIC, draw_batches
from preprocess.views import FeatureLayout, Message, View
from preprocess.wire import encode

RECOVERED = 0.8  # of four single rows: an approximate attack may miss one of them, not two
AT_BASELINE, DEVIATIONS, GUESSES = 0.15, 4, 40  # a null trial is one batch: luck of a guess is told from a leak
BY_CODE = "without a list of values, since with it values of one code were not told apart"
LEAKY_ROWS = 4  # clients with a single row each in the known-leaky control
UPDATE_TOPICS = (GRADIENT_TOPIC, WEIGHTS_TOPIC)


def control_attack(play: Play, attacked: Collection[tuple[str, int]], coins: np.random.Generator) -> list[Control]:
    """The controls that fit what the attack claims; `attacked` are the batches of the view that it inverted."""
    if "records" in play.attack.asset:
        return [*_record_controls(play, attacked, coins)]
    if "vocabulary" in play.attack.asset and DICTIONARY_TOPIC in play.attack.topics:
        exchanged = shuffled_dictionaries(play.attack, play.view)
        return [*_vocabulary_controls(play), _shuffled_control(play.attack, exchanged)]
    trials, shuffle = [*transcript_trials(play.attack)], shuffled(play.attack)
    if not trials or shuffle is None:
        raise ValueError(f"{play.attack.technique}: no control exists for {play.attack.asset}")
    played = [_control(play.attack, kind, share, 0.0, 0.0, of, f"another party: {of}") for kind, share, of in trials]
    return [*played, _shuffled_control(play.attack, shuffle)]


def _record_controls(
    play: Play, attacked: Collection[tuple[str, int]], coins: np.random.Generator
) -> Iterable[Control]:
    truth, updates = play.truth, (m for topic in UPDATE_TOPICS for m in play.view.received(topic))
    first = next((m for m in updates if (m.sender, m.round) in attacked), None)
    if first is None:
        return
    victims = [replace(first, sender=f"control {i}") for i in range(LEAKY_ROWS)]
    real = truth.batch(first.sender, first.round)
    labels = truth.labels(first.sender, first.round)[: len(real)]
    picks = np.arange(LEAKY_ROWS) % len(real)

    batch, whole = (first.sender, first.round), np.arange(len(real))
    singles = {v.sender: picks[i : i + 1] for i, v in enumerate(victims)}
    leaky = {victim: (real.take(row), labels[row]) for victim, row in singles.items()}
    if not play.attack.calibrator:
        outcome = _made_up(play, first, leaky, coins)
        control, bare = _judge(play, "leaky", outcome, batch, singles, coins), without_candidates(play)
        if not control.passed and bare is not None and _doubts_what_is_wrong(play.truth, outcome, batch, singles):
            codes = _judge(bare, "leaky", _made_up(bare, first, leaky, coins), batch, singles, coins)
            control = replace(codes, expected=f"{BY_CODE}: {codes.expected}")
        yield control

    unrelated = {"control": (from_marginals(truth.population, len(real), coins), labels)}
    yield _judge(play, "null", _made_up(play, first, unrelated, coins), batch, {"control": whole}, coins)


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
    play: Play, update: Message, batches: Mapping[str, tuple[Cells, np.ndarray]], coins: np.random.Generator
) -> Outcome:
    """The attack on a view in which made-up victims train on `batches` from the model of `update`, and answer alike."""
    view, knowledge = play.view, play.knowledge
    model = next(m for m in view.on(MODEL_TOPIC, recipient=update.sender) if m.round == update.round)
    messages = [m for m in view.messages if m.topic not in (MODEL_TOPIC, *UPDATE_TOPICS)]
    granted = {}
    for victim, (rows, labels) in batches.items():
        sent, ordered = made_up_update(view, update.topic, model.payload, rows, labels, coins)
        body = encode(sent)
        messages += [replace(model, recipient=victim), replace(update, sender=victim, body=body, content=body)]
        granted[victim, update.round] = ordered
    known = replace(knowledge, labels=granted if knowledge.labels else {})
    return play.attack.run(replace(view, messages=tuple(messages)), known)


def made_up_update(
    view: View, topic: str, model: Mapping[str, Any], rows: Cells, labels: np.ndarray, coins: np.random.Generator
) -> tuple[dict[str, Any], np.ndarray]:
    """What a client with these rows would send on `topic`, and the labels of its local batches, in order."""
    spec, layout, training = view.public.model, view.public.layout, view.public.training
    assert spec is not None
    assert layout is not None
    assert training is not None
    data = Encoded(encoded_rows(layout, rows), np.asarray(labels))
    algorithm = next(a for a in ALGORITHMS.values() if a.topic == topic)
    everything = [np.arange(len(rows))]  # a gradient is of one batch: all rows
    batches = everything if topic == GRADIENT_TOPIC else draw_batches(training, data, coins)
    return algorithm.client(spec, training, model, data, batches), data.labels[np.concatenate(batches)]


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


def _judge(
    play: Play,
    kind: Kind,
    outcome: Outcome,
    batch: tuple[str, int],
    rows: Mapping[str, np.ndarray],
    coins: np.random.Generator,
) -> Control:
    """Scores claims about made-up victims against the `rows` of a real batch, in the terms of the claims; a victim
    without a claim counts as not recovered.
    """
    claims = _records(outcome)
    scores = []
    for c in claims:
        truth = play.truth.in_terms_of(c.layout)
        actual = truth.batch(*batch).take(rows[c.victim])
        scores.append(measure(Cells(c.categories, c.numbers), actual, truth.deviations)["accuracy"])
    value = float(sum(scores)) / len(rows)
    truth = play.truth.in_terms_of(claims[0].layout if claims else None)
    guesses = [_guess(truth.batch(*batch).take(r), truth, coins) for r in rows.values() for _ in range(GUESSES)]
    baseline, chance = float(np.mean(guesses)), DEVIATIONS * float(np.std(guesses, ddof=1))
    return _control(play.attack, kind, value, baseline, chance, "cells of single rows", "cells of an unrelated batch")


def _guess(actual: Cells, truth: Truth, coins: np.random.Generator) -> float:
    """The accuracy of one batch drawn from the marginals."""
    return measure(from_marginals(truth.population, len(actual), coins), actual, truth.deviations)["accuracy"]


def _control(attack: Attack, kind: str, value: float, baseline: float, chance: float, leaky: str, null: str) -> Control:
    """`chance` is how far above the baseline mere luck can bring one null trial."""
    gain = advantage("accuracy", value, baseline) or 0.0
    if kind == "leaky":
        expected = f"{leaky}: at least {RECOVERED:.0%} recovered"
        return Control(attack.technique, "leaky", value, baseline, gain, value >= RECOVERED, expected)
    most = baseline + max(chance, AT_BASELINE * (1 - baseline))
    expected = f"{null}: at most {most:.3f}"
    return Control(attack.technique, "null", value, baseline, gain, value <= most, expected)


def _shuffled_control(attack: Attack, found: Shuffled) -> Control:
    gain = (found.value - found.baseline) / (1 - found.baseline)
    expected = f"transcripts of other federations: {found.of}: no better than chance"
    outcome = (found.value, found.baseline, gain, found.passed)
    return Control(attack.technique, "shuffled", *outcome, expected, found.low, found.high)


def _vocabulary_controls(play: Play) -> Iterable[Control]:
    """A made-up dictionary must be read back; another one, scored against the first, must match nothing."""
    attack, view = play.attack, play.view
    sent, other = frozenset({"control a", "control b"}), frozenset({"control c", "control d"})
    for kind, shown in (("leaky", sent), ("null", other)):
        body = encode({"control": sorted(shown)})
        sender, observer = "control", next(iter(view.observers))
        message = Message(0, "encode", 0, DICTIONARY_TOPIC, sender, observer, None, False, body, body)
        claims = claims_of(attack, replace(view, messages=(message,)))
        read = frozenset(v for c in claims if isinstance(c, VocabularyClaim) for v in c.values)
        value = overlap(read, sent)["f1"]
        yield _control(attack, kind, value, 0.0, 0.0, "a made-up dictionary", "a dictionary of someone else")
