"""The known-leaky control of an adversary that lists values which the code does not tell apart."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.span import Span
from leakledger.audit.controls import control_attack
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import Play, view_of
from leakledger.audit.record_controls import BY_CODE
from tests.audit.example import config, truth


def settings(encoder):
    return {
        "partition": {"kind": "iid", "parties": 3},
        "preprocessing": [{"encoder": encoder, "scaler": "federated-zscore"}],
        "model": {"hidden": [100, 100]},
        "training": {"rounds": 1, "batch_size": 4},
        "attacks": {"dictionaries": "known"},
    }


@pytest.fixture(scope="module")
def clipped():
    """Under `bytes-norm` float32 columns keep the first bytes of a value: many values have one code."""
    return truth(**settings("bytes-norm"))


def leaky(attack, held, encoder="bytes-norm"):
    knowledge = granted_knowledge(config(**settings(encoder)), held)
    play = Play(attack, view_of(("server",), held), knowledge, held)
    attacked = {(c.victim, c.round) for c in Span().run(play.view, knowledge) if isinstance(c, RecordsClaim)}
    return next(c for c in control_attack(play, attacked, np.random.default_rng(0)) if c.kind == "leaky")


def changed(change):
    """Span, with `change` made to each claim by an adversary that lists values."""

    class Changed(Span):
        def run(self, view, knowledge):
            outcome = super().run(view, knowledge)
            return [d for c in outcome if (d := change(c))] if knowledge.dictionaries else outcome

    return Changed()


def next_value(claim, entropy):
    sizes = np.array([b.size for b in claim.layout.categorical])
    doubt = np.full(claim.categories.shape, entropy)
    return replace(claim, categories=(claim.categories + 1) % sizes, category_entropy=doubt, verified=None)


def test_an_attack_that_doubts_values_of_one_code_is_judged_by_codes_and_the_control_says_so(clipped):
    found = leaky(Span(), clipped)
    assert found.passed
    assert found.value == 1
    assert found.expected.startswith(BY_CODE)


def test_where_values_are_told_apart_the_control_is_of_values():
    found = leaky(Span(), truth(**settings("fasttext")), "fasttext")
    assert found.passed
    assert BY_CODE not in found.expected


def test_an_attack_that_is_certain_of_wrong_values_fails(clipped):
    found = leaky(changed(lambda c: next_value(c, 0.0)), clipped)
    assert not found.passed
    assert BY_CODE not in found.expected
    assert leaky(changed(lambda c: next_value(c, 0.5)), clipped).expected.startswith(BY_CODE)


def test_an_attack_that_is_silent_about_one_victim_in_two_fails(clipped):
    class Half(Span):
        def run(self, view, knowledge):
            return [c for c in super().run(view, knowledge) if c.victim not in ("P1", "control 3")]

    found = leaky(Half(), clipped)
    assert (found.passed, found.value) == (False, 0.5)


def test_an_attack_that_falls_silent_before_a_list_of_values_fails(clipped):
    found = leaky(changed(lambda c: None), clipped)
    assert (found.passed, found.value) == (False, 0.0)
    assert BY_CODE not in found.expected


def test_an_attack_that_does_not_recover_codes_either_fails(clipped):
    class Broken(Span):
        def run(self, view, knowledge):
            claims = [c for c in super().run(view, knowledge) if isinstance(c, RecordsClaim)]
            return [replace(c, numbers=c.numbers + 1e6, category_entropy=c.category_entropy + 0.5) for c in claims]

    found = leaky(Broken(), clipped)
    assert not found.passed
    assert found.expected.startswith(BY_CODE)
