"""Controls on records are held against the best guess that needs no message: to guess well is no leak and no power."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import Attack, ControlSpec, RecordsClaim
from leakledger.attacks.gradient.span import Span
from leakledger.audit import record_controls
from leakledger.audit.controls import control_attack
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import Play, view_of
from leakledger.audit.scoring import baseline
from leakledger.audit.scoring.best_prior import guesses
from leakledger.audit.scoring.records import PriorOnly
from leakledger.audit.scoring.target_batches import population_without
from leakledger.preprocess.messages import ClientGradient, GlobalModel
from leakledger.preprocess.views import Mechanism
from tests.audit.example import config, truth
from tests.audit.test_controls import every_control

planted = record_controls._planted
SETTINGS = {"training": {"rounds": 1, "batch_size": 64}, "partition": {"kind": "iid", "parties": 3}}
T = truth(**SETTINGS)
KNOWLEDGE = granted_knowledge(config(**SETTINGS), T)


class Guessing(Attack):
    """Claims what is most often right of a batch of the population, whatever it is shown: a good guess, no attack."""

    technique, reference, asset, assumes = "guessing", "-", ("records",), "-"
    reads, controls = (ClientGradient, GlobalModel), (ControlSpec("records"),)

    def run(self, view, knowledge):
        return [self.guess(*key, len(labels)) for key, labels in knowledge.labels.items()]

    def guess(self, victim, round, rows):
        coins = np.random.default_rng(round)
        cells = guesses(population_without(T, "P1", 0), rows, None, coins)["optimised"](coins)
        doubt = np.ones(cells.categories.shape), np.ones(cells.numbers.shape)
        return RecordsClaim(victim, round, cells.categories, cells.numbers, *doubt)


def played(attack, prior=None):
    play = Play(attack, view_of(("server",), T), KNOWLEDGE, T, prior)
    return {c.kind: c for c in control_attack(play, KNOWLEDGE.labels, np.random.default_rng(0))}


@pytest.fixture(scope="module")
def guessed():
    return played(Guessing())


def test_a_good_guess_is_no_leak(guessed):
    assert guessed["null"].passed
    assert guessed["null"].value > 0.5


def test_a_good_guess_has_no_power(guessed):
    assert guessed["power"].value > 0.5
    assert not guessed["power"].passed


FEW = {**SETTINGS, "training": {"rounds": 1, "batch_size": 4}}
NOISE = Mechanism("gaussian-noise", {"sigma": 0.05})


class Astray(Guessing):
    """Claims of every number that it is beyond all others."""

    def guess(self, victim, round, rows):
        claim = super().guess(victim, round, rows)
        return replace(claim, categories=np.full_like(claim.categories, -1), numbers=claim.numbers + 1e6)


class Partly(Guessing):
    """Guesses, and has the first `solved` of the planted rows right."""

    def __init__(self, of, solved):
        self.of, self.solved, self.planted = of, solved, []

    def plant(self, truth, owners, coins):
        self.planted.append(planted(truth, owners, coins))
        return self.planted[-1]

    def guess(self, victim, round, rows):
        cells = guesses(population_without(self.of, "P1", 0), rows, None, np.random.default_rng(round))
        best = cells["optimised"](np.random.default_rng(round))
        known = self.planted[-1] if self.planted else best
        pick = np.arange(rows) < self.solved
        return RecordsClaim(
            victim,
            round,
            np.where(pick[:, None], known.categories, best.categories),
            np.where(pick[:, None], known.numbers, best.numbers),
            np.ones(best.categories.shape),
            np.ones(best.numbers.shape),
        )


def power_of(solved, monkeypatch, *mechanisms):
    found = truth(**FEW)
    attack = Partly(found, solved)
    monkeypatch.setattr(record_controls, "_planted", attack.plant)
    return _power_of(attack, found, mechanisms), attack.planted


def _power_of(attack, found, mechanisms):
    view = view_of(("server",), found)
    view = replace(view, public=replace(view.public, mechanisms=mechanisms))
    play = Play(attack, view, granted_knowledge(config(**FEW), found), found)
    controls = control_attack(play, play.knowledge.labels, np.random.default_rng(0))
    (power,) = (c for c in controls if c.kind == "power")
    return power


def test_under_a_defense_power_is_a_mean_over_batches_and_a_guess_still_has_none(monkeypatch):
    power, batches = power_of(0, monkeypatch, NOISE)
    assert not power.passed
    assert len(batches) in record_controls.BATCHES
    assert power.value <= float(power.expected.rpartition(" ")[2])


@pytest.mark.parametrize(("ahead", "batches"), [(0.0, 1), (0.04, 4), (0.06, 8), (0.5, 1)])
def test_trials_end_where_power_is_shown_or_out_of_reach(ahead, batches, monkeypatch):
    guess, none = truth(**FEW), np.zeros((0, 0))
    prior = PriorOnly(64, {"accuracy": 0.5}, {"accuracy": 0.1}, none, none)  # luck in a mean of eight is 0.106
    monkeypatch.setattr(record_controls, "best_prior", lambda *_: prior)
    monkeypatch.setattr(record_controls, "_accuracy", lambda *_: 0.5 + ahead)
    power = _power_of(Partly(guess, 2), guess, (NOISE,))
    assert power.passed == (ahead == 0.5)
    assert (f"mean of {batches} batches" if batches > 1 else "as is audited: ") in power.expected


def test_an_attack_that_is_far_behind_the_guess_is_given_up_at_once():
    power = _power_of(Astray(), truth(**FEW), (NOISE,))
    assert not power.passed
    assert "mean of" not in power.expected


def test_what_is_got_again_and_again_is_power_though_one_batch_does_not_show_it(monkeypatch):
    once, batches = power_of(2, monkeypatch)
    assert len(batches) == 1
    power, batches = power_of(2, monkeypatch, NOISE)
    assert power.passed
    assert len(batches) in record_controls.BATCHES
    least, at_once = (float(c.expected.rpartition(" ")[2]) - c.baseline for c in (power, once))
    assert least < at_once or len(batches) == 1
    assert least >= record_controls.AT_BASELINE * (1 - power.baseline) - 1e-3


def test_planted_rows_are_rows_of_the_client_whose_name_they_are_under():
    owners = np.array(["P2", "P1", "P2", "P3"])
    rows = planted(T, owners, np.random.default_rng(0))
    for k, owner in enumerate(owners):
        held = T.held(owner)
        same = (held.categories == rows.categories[k]).all(1) & (held.numbers == rows.numbers[k]).all(1)
        assert same.any()


def test_an_attack_that_recovers_what_is_planted_has_power():
    found = {c.kind: c for c in every_control(Span())}
    assert found["power"].passed
    assert found["power"].value == 1.0


def test_the_baseline_of_the_null_control_is_that_of_scores():
    prior = baseline(T, KNOWLEDGE, np.random.default_rng(5), 3)
    found = played(Guessing(), prior)["null"]
    claim = next(c for c in Guessing().run(None, KNOWLEDGE) if (c.victim, c.round) == ("P1", 0))
    assert found.baseline == prior.of(claim, T.batch("P1", 0), T).metrics["accuracy"]


def test_an_attack_without_a_claim_has_a_baseline_all_the_same():
    class Silent(Guessing):
        technique = "silent"

        def run(self, view, knowledge):
            return []

    found = played(Silent())
    assert (found["null"].value, found["power"].value) == (0.0, 0.0)
    assert found["null"].passed
    assert found["null"].baseline > 0.2
    assert not found["power"].passed


def null_of(attack, found):
    play = Play(attack, view_of(("server",), found), granted_knowledge(config(**FEW), found), found)
    return next(c for c in control_attack(play, play.knowledge.labels, np.random.default_rng(0)) if c.kind == "null")


def test_an_attack_is_not_failed_for_unrelated_rows_that_are_by_chance_the_real_ones(monkeypatch):
    found = truth(**FEW)
    monkeypatch.setattr(record_controls, "from_marginals", lambda *_: found.batch("P1", 0))
    null = null_of(Span(), found)
    assert null.value == 1.0
    assert null.passed


def test_what_unrelated_rows_have_in_common_with_the_real_ones_is_no_excuse_for_more(monkeypatch):
    found = truth(**FEW)
    three = np.arange(3)
    most = record_controls.joined([found.batch("P1", 0).take(three), found.batch("P2", 0).take(three[:1])])
    monkeypatch.setattr(record_controls, "from_marginals", lambda *_: most)
    assert null_of(Span(), found).passed

    class Knowing(Guessing):
        def guess(self, victim, round, rows):
            real = found.batch("P1", 0).take(np.arange(rows))
            doubt = np.ones(real.categories.shape), np.ones(real.numbers.shape)
            return RecordsClaim(victim, round, real.categories, real.numbers, *doubt)

    assert not null_of(Knowing(), found).passed


def test_power_is_judged_in_the_terms_of_the_claim():
    """Claims of the sets of buckets that rows set had no power, whatever they had right."""
    hashed = {"preprocessing": [{"encoder": "rolling-hash", "scaler": "federated-zscore"}], **FEW}
    found = truth(**hashed)
    play = Play(Span(), view_of(("server",), found), granted_knowledge(config(**hashed), found), found)
    assert next(iter(Span().run(play.view, play.knowledge))).layout is not None
    controls = control_attack(play, play.knowledge.labels, np.random.default_rng(0))
    (power,) = (c for c in controls if c.kind == "power")
    assert power.value == 1.0
    assert power.passed


def test_power_is_asked_for_at_the_size_of_the_largest_batch():
    """Of clients with batches of 10, 64 and 64 rows power was judged on the first: 10 rows."""
    uneven = {**SETTINGS, "partition": {"kind": "dirichlet-quantity", "parties": 3, "beta": 0.5}}
    found = truth(**uneven)
    assert sorted(len(found.batch(*key)) for key in found.federated.batches) == [10, 64, 64]
    play = Play(Guessing(), view_of(("server",), found), granted_knowledge(config(**uneven), found), found)
    (way,) = record_controls.observed_ways(play, found.federated.batches)
    assert len(found.batch(*way.batch)) == 64
