"""Controls on records are held against the best guess that needs no message: to guess well is no leak and no power."""

import numpy as np
import pytest

from leakledger.attacks.base import Attack, ControlSpec, RecordsClaim
from leakledger.attacks.gradient.span import Span
from leakledger.audit.controls import control_attack
from leakledger.audit.play import Play, view_of
from leakledger.audit.run import granted_knowledge
from leakledger.audit.scoring import baseline
from leakledger.audit.scoring.best_prior import guesses
from leakledger.audit.scoring.target_batches import population_without
from leakledger.preprocess.messages import ClientGradient, GlobalModel
from tests.audit.example import config, truth
from tests.audit.test_controls import every_control

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
