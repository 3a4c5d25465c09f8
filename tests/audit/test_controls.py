from collections.abc import Sequence

import numpy as np
import pytest

from attacks import ATTACKS
from attacks.base import Attack, AuxiliaryKnowledge, RecordsClaim, VocabularyClaim
from attacks.plaintext import Plaintext
from attacks.tableak import TabLeak
from audit.controls import control_attack
from audit.made_up import held
from audit.play import Play
from audit.run import granted_knowledge
from tests.audit.example import config, truth

T = truth()
KNOWLEDGE = granted_knowledge(config(), T)
VIEW = T.federated.fed.ledger.view(["server"], T.federated.public)


def controls(attack):
    return {
        c.kind: c for c in control_attack(Play(attack, VIEW, KNOWLEDGE, T), KNOWLEDGE.labels, np.random.default_rng(0))
    }


class Guess(Attack):
    """Claims the same row for everyone: an attack that recovers nothing."""

    technique, reference, asset, topics, assumes = "guess", "-", ("records",), frozenset(), "-"

    def run(self, view, knowledge):
        claims = []
        for (victim, round), labels in knowledge.labels.items():
            shape = (len(labels), len(view.public.layout.categorical)), (len(labels), len(view.public.layout.numeric))
            zeros = np.zeros(shape[0], np.int64), np.full(shape[1], -1e9)
            claims.append(RecordsClaim(victim, round, *zeros, np.zeros(shape[0]), np.zeros(shape[1])))
        return claims


class Cheat(Guess):
    """Claims one victim's true rows whatever it is shown: what a scorer with the truth in reach would let through."""

    technique = "cheat"

    def run(self, view, knowledge):
        rows = T.batch(*next(iter(KNOWLEDGE.labels)))
        doubt = rows.categories * 0.0, rows.numbers * 0
        return [
            RecordsClaim(v, r, rows.categories[: len(y)], rows.numbers[: len(y)], *doubt)
            for (v, r), y in knowledge.labels.items()
        ]


class Blind(Plaintext):
    technique = "blind"

    def run(self, view, knowledge):
        return []


class Inventive(Plaintext):
    technique = "inventive"

    def run(self, view, knowledge):
        return [VocabularyClaim("control", "control", ("control a", "control b"))]


def test_tableak_recovers_single_rows_and_gets_nothing_from_an_unrelated_gradient():
    found = controls(TabLeak(restarts=4, iterations=800))
    assert found["leaky"].passed
    assert found["leaky"].value >= 0.9
    assert found["null"].passed


def test_an_attack_that_recovers_nothing_fails_the_leaky_control():
    assert not controls(Guess())["leaky"].passed


def test_an_attack_that_knows_the_truth_without_the_gradient_fails_the_null_control():
    assert not controls(Cheat())["null"].passed


def test_plaintext_passes_both_and_its_broken_twins_fail_one_each():
    assert all(c.passed for c in controls(Plaintext()).values())
    assert not controls(Blind())["leaky"].passed
    assert not controls(Inventive())["null"].passed


def test_an_attack_on_an_asset_without_a_control_is_refused():
    class Other(Guess):
        technique, asset = "other", ("keys",)

    with pytest.raises(ValueError, match="other: no control exists for"):
        controls(Other())


def test_controls_are_the_same_for_the_same_coins():
    attack = TabLeak(restarts=2, iterations=20)
    runs = [
        control_attack(Play(attack, VIEW, KNOWLEDGE, T), KNOWLEDGE.labels, np.random.default_rng(3)) for _ in range(2)
    ]
    assert isinstance(runs[0], Sequence)
    assert runs[0] == runs[1]
    assert isinstance(KNOWLEDGE, AuxiliaryKnowledge)


@pytest.mark.parametrize("name", ["statistics", "sac_audit", "ring_size", "vocabulary", "membership"])
def test_attacks_on_preprocessing_recover_a_transcript_that_leaks_and_nothing_of_another_party(name):
    found = controls(ATTACKS[name]())
    assert found["leaky"].passed
    assert found["leaky"].value >= 0.9
    assert found["null"].passed
    assert found["null"].value < 0.1


@pytest.mark.parametrize("name", ["statistics", "sac_audit", "ring_size", "vocabulary", "membership"])
def test_an_attack_on_preprocessing_that_claims_nothing_fails_its_leaky_control(name):
    class Silent(ATTACKS[name]):
        def run(self, view, knowledge):
            return []

    found = controls(Silent())
    assert not found["leaky"].passed
    assert found["null"].passed


def test_an_attack_that_says_the_same_of_every_party_fails_a_null_control():
    class Same(ATTACKS["vocabulary"]):
        def run(self, view, knowledge):
            return [
                VocabularyClaim(p, f, tuple(sorted(v)))
                for p in view.public.clients
                for f, v in held()["control 3"].items()
            ]

    assert not controls(Same())["null"].passed
