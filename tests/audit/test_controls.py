from collections.abc import Sequence

import numpy as np
import pytest

from attacks import ATTACKS
from attacks.base import (
    Attack,
    AuxiliaryKnowledge,
    FindingClaim,
    MembershipClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
)
from attacks.plaintext import Plaintext
from attacks.tableak import TabLeak
from audit.controls import control_attack
from audit.made_up import LARGEST, column_names, encoded_by, held, secure_sums
from audit.play import Play
from audit.run import granted_knowledge
from audit.shuffled_controls import DRAWS, PAIRS, shuffled
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


ON_TRANSCRIPTS = ["statistics", "sac_audit", "ring_size", "vocabulary", "membership"]


@pytest.mark.parametrize("name", ON_TRANSCRIPTS)
def test_attacks_on_preprocessing_recover_a_transcript_that_leaks_and_nothing_of_another_party(name):
    found = controls(ATTACKS[name]())
    assert found["leaky"].passed
    assert found["leaky"].value >= 0.9
    assert found["null"].passed
    assert found["null"].value < 0.1
    assert found["shuffled"].passed
    assert found["shuffled"].low <= found["shuffled"].advantage <= found["shuffled"].high < 0.5


@pytest.mark.parametrize("name", ON_TRANSCRIPTS)
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


def test_every_draw_is_read_once_and_scored_against_another():
    assert sorted(shown for shown, _ in PAIRS) == sorted(truth for _, truth in PAIRS) == [*range(1, DRAWS + 1)]
    assert all(shown != truth for shown, truth in PAIRS)


def test_drawn_federations_differ_in_what_victims_hold_and_in_nothing_else():
    draws = [held(d) for d in range(1, DRAWS + 1)]
    assert len({str(sorted(d["control 0"]["colour"])) for d in draws}) == DRAWS
    assert len({d["control 3"]["colour"] for d in draws}) == 1
    assert {len(values) for d in draws for p in ("control 0", "control 1") for values in d[p].values()} == set(
        range(1, LARGEST + 1)
    )
    views = [encoded_by("dh-psi", 3, draw=d) for d in (1, 2)]
    assert views[0].public.protocol == views[1].public.protocol
    assert views[0].inputs["control 3"]["columns"].keys() == views[1].inputs["control 3"]["columns"].keys()


def reads_the_truth(name):
    """The attack, broken: whatever transcript it is shown, it claims what it is going to be scored against."""

    class Broken(ATTACKS[name]):
        def run(self, view, knowledge):
            truth = next((t for shown, t in PAIRS if view is shown_view(name, shown)), 0)
            return [*claims_from_truth(name, truth)]

    return Broken()


def shown_view(name, draw):
    if name == "statistics":
        return secure_sums(False, draw)[0]
    return encoded_by("uhe", 0, relay=True, draw=draw) if name == "ring_size" else encoded_by("dh-psi", 3, draw=draw)


def claims_from_truth(name, truth):
    if name == "statistics":
        tables = secure_sums(False, truth)[1]
        for i, table in enumerate(tables):
            for k, column in enumerate(column_names(tables)):
                mean = float(table[:, k].mean())
                yield StatisticClaim(f"control {i}", column, "mean", mean, mean, mean)
        return
    everything = held(truth)["control 3"]
    for party, own in held(truth).items():
        for f, values in own.items():
            if name == "ring_size":
                yield StatisticClaim(party, f, "size", len(values), len(values), len(values))
            elif name == "vocabulary":
                yield VocabularyClaim(party, f, tuple(sorted(values)))
            else:
                candidates = tuple(sorted(everything[f]))
                yield MembershipClaim(party, f, candidates, tuple(float(v in values) for v in candidates))


@pytest.mark.parametrize("name", ["statistics", "ring_size", "vocabulary", "membership"])
def test_an_attack_that_reads_the_truth_passes_the_other_controls_and_fails_the_shuffled_one(name):
    found = controls(reads_the_truth(name))
    assert found["leaky"].passed
    assert found["null"].passed
    assert not found["shuffled"].passed
    assert found["shuffled"].low > 0.9


def test_an_attack_that_reads_the_truth_of_one_victim_in_two_fails_the_shuffled_control():
    class Half(type(reads_the_truth("vocabulary"))):
        def run(self, view, knowledge):
            return [c for c in super().run(view, knowledge) if c.party in ("control 0", "control 1")]

    assert shuffled(Half()).low > 0.3


def test_a_check_that_fires_on_numbers_without_meaning_fails_the_shuffled_control():
    class Alarmist(ATTACKS["sac_audit"]):
        def run(self, view, knowledge):
            return [FindingClaim(c, "parts-not-hiding", "always") for c in view.public.clients]

    found = controls(Alarmist())
    assert found["leaky"].passed
    assert not found["shuffled"].passed


@pytest.mark.parametrize("name", ["ring_size", "vocabulary", "membership"])
def test_claims_that_never_change_are_no_better_than_chance_when_shuffled(name):
    class Constant(ATTACKS[name]):
        def run(self, view, knowledge):
            return [*claims_from_truth(name, 1)]

    found = shuffled(Constant())
    assert found.low <= 0 <= found.high


def test_an_attack_on_dictionaries_in_the_clear_has_a_shuffled_control_too():
    class Remembers(Plaintext):
        def run(self, view, knowledge):
            shown = next((m.payload for m in view.on("dictionary.local")), {})
            truth = next((t for s, t in PAIRS if shown == {f: sorted(v) for f, v in held(s)["control 0"].items()}), 0)
            return [VocabularyClaim("control 0", f, tuple(v)) for f, v in held(truth)["control 0"].items()]

    assert controls(Plaintext())["shuffled"].low <= 0 <= controls(Plaintext())["shuffled"].high
    assert controls(Plaintext())["shuffled"].high > 0
    assert not controls(Remembers())["shuffled"].passed
