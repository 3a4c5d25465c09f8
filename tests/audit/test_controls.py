from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import (
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    FindingClaim,
    MembershipClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
)
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit.control_federations import LARGEST, NAMES, held, made_up_tables, played, victims_of
from leakledger.audit.control_scores import statistics
from leakledger.audit.controls import control_attack
from leakledger.audit.federation_controls import DRAWS, PAIRS, federation_controls, shuffled, told_kinds
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import Play
from leakledger.preprocess.messages import ClientGradient, GlobalModel, LocalDictionary
from tests.audit.example import config, truth

T = truth()
KNOWLEDGE = granted_knowledge(config(), T)
VIEW = T.federated.ledger.view(["server"], T.federated.public)


def controls(attack):
    """The last control of each kind that the attack plays on the example."""
    return {c.kind: c for c in every_control(attack)}


def every_control(attack):
    return control_attack(Play(attack, VIEW, KNOWLEDGE, T), KNOWLEDGE.labels, np.random.default_rng(0))


class Guess(Attack):
    """Claims the same row for everyone: an attack that recovers nothing."""

    technique, reference, asset, assumes = "guess", "-", ("records",), "-"
    reads, controls = (ClientGradient, GlobalModel), (ControlSpec("records"),)

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
        known = {key: (rows.categories[: len(y)], rows.numbers[: len(y)]) for key, y in knowledge.labels.items()}
        return [RecordsClaim(*key, c, n, 0.0 * c, 0.0 * n) for key, (c, n) in known.items()]


class Blind(Plaintext):
    technique = "blind"

    def run(self, view, knowledge):
        return []


class Inventive(Plaintext):
    technique = "inventive"

    def run(self, view, knowledge):
        evidence = tuple(m.sequence for m in view.messages)
        return [VocabularyClaim(view.public.clients[0], "control", ("control a", "control b"), evidence)]


def test_tableak_recovers_single_rows_and_gets_nothing_from_an_unrelated_gradient():
    found = controls(TabLeak(restarts=4, iterations=800))
    assert found["leaky"].passed
    assert found["null"].passed


def test_an_attack_that_recovers_nothing_fails_the_leaky_control():
    assert not controls(Guess())["leaky"].passed


def test_an_attack_that_knows_the_truth_without_the_gradient_fails_the_null_control():
    assert not controls(Cheat())["null"].passed


def test_plaintext_passes_both_and_its_broken_twins_fail_one_each():
    assert all(c.passed for c in controls(Plaintext()).values())
    assert not controls(Blind())["leaky"].passed
    assert not controls(Inventive())["null"].passed


def test_an_attack_that_declares_no_control_is_refused():
    class Other(Guess):
        technique, controls = "other", ()

    with pytest.raises(ValueError, match="other declares no control; state in `controls` where it must succeed"):
        controls(Other())


def test_controls_are_the_same_for_the_same_coins():
    attack = TabLeak(restarts=2, iterations=20)
    runs = [
        control_attack(Play(attack, VIEW, KNOWLEDGE, T), KNOWLEDGE.labels, np.random.default_rng(3)) for _ in range(2)
    ]
    assert isinstance(runs[0], Sequence)
    assert runs[0] == runs[1]
    assert isinstance(KNOWLEDGE, AuxiliaryKnowledge)


SPECS = [
    (name, i)
    for name, kind in ATTACKS.items()
    for i, s in enumerate(kind.controls)
    if s.expects not in ("records", "fields")
]


@pytest.mark.parametrize(("name", "number"), SPECS)
def test_an_attack_on_preprocessing_succeeds_where_it_says_and_nowhere_else(name, number):
    found = {c.kind: c for c in federation_controls(ATTACKS[name](), ATTACKS[name].controls[number])}
    assert all(c.passed for c in found.values())
    assert found["leaky"].value >= 0.9
    assert found["null"].value < 0.1
    assert all(c.kinds for c in found.values())
    if "shuffled" in found:
        assert found["shuffled"].low <= found["shuffled"].advantage <= found["shuffled"].high < 0.75


ON_TRANSCRIPTS = ["statistics", "sac_audit", "ring_size", "vocabulary", "membership"]


@pytest.mark.parametrize("name", ON_TRANSCRIPTS)
def test_an_attack_on_preprocessing_that_claims_nothing_fails_its_leaky_controls(name):
    class Silent(ATTACKS[name]):
        def run(self, view, knowledge):
            return []

    found = federation_controls(Silent(), Silent.controls[0])
    assert [c.passed for c in found if c.kind == "leaky"] == [False]
    assert all(c.passed for c in found if c.kind == "null")


def test_only_controls_with_kinds_of_the_view_are_played_and_one_where_there_is_none():
    shown = {k for c in every_control(ATTACKS["statistics"]()) for k in c.kinds}
    assert "minmax.local" in shown
    assert not {"zscore.mean", "zscore-sac.mean.part", "target.local"} & shown
    bare = Play(ATTACKS["statistics"](), replace(VIEW, messages=()), KNOWLEDGE, T)
    assert {c.kind for c in control_attack(bare, (), np.random.default_rng(0))} == {"leaky", "null", "shuffled"}


def test_a_control_says_which_kinds_it_showed_the_attack():
    spec = ControlSpec("mean", scaler="federated-zscore")
    assert told_kinds(played(spec).view("server")) == ("zscore.mean", "zscore.variance")
    assert told_kinds(played(spec).view("first")) == ("zscore.global-mean", "zscore.global-std")


def test_an_attack_that_says_the_same_of_every_party_fails_a_null_control():
    class Same(ATTACKS["vocabulary"]):
        def run(self, view, knowledge):
            return [VocabularyClaim(p, f, tuple(sorted(v))) for p in NAMES for f, v in held()[NAMES[3]].items()]

    spec = ControlSpec("vocabulary", "target", {"exchange": "shared"})
    assert [c.passed for c in federation_controls(Same(), spec) if c.kind == "null"] == [False]


def test_every_draw_is_read_once_and_scored_against_another():
    assert sorted(shown for shown, _ in PAIRS) == sorted(truth for _, truth in PAIRS) == [*range(1, DRAWS + 1)]
    assert all(shown != truth for shown, truth in PAIRS)


def test_drawn_federations_differ_in_what_victims_hold_and_in_nothing_else():
    draws = [held(d) for d in range(1, DRAWS + 1)]
    assert len({str(sorted(d[NAMES[0]]["colour"])) for d in draws}) == DRAWS
    assert len({d[NAMES[3]]["colour"] for d in draws}) == 1
    assert {len(v) for d in draws for p in NAMES[:2] for v in d[p].values()} == set(range(1, LARGEST + 1))
    views = [played(ControlSpec("size", "dh-psi"), draw).view("last") for draw in (1, 2)]
    assert views[0].public.encoder == views[1].public.encoder
    assert views[0].inputs[NAMES[3]]["columns"].keys() == views[1].inputs[NAMES[3]]["columns"].keys()


def test_a_twin_has_the_shape_of_the_first_draw_and_shares_nothing_with_it():
    one, twin = made_up_tables(0), made_up_tables(-1)
    for party, table in one.items():
        assert len(table) == len(twin[party])
        for feature in ("colour", "shape"):
            values, others = (set(t.values(feature)) for t in (table, twin[party]))
            assert len(values) == len(others)
            assert not values & others
        assert twin[party].frame["height"].max() < table.frame["height"].min()
    first, second = NAMES[:2]
    assert not held()[first]["colour"] & held()[second]["colour"]
    assert held(-1)[first]["colour"] < held(-1)[second]["colour"]


TOLD = {"statistics": "mean", "ring_size": "size", "vocabulary": "vocabulary", "membership": "membership"}


def reads_the_truth(name, victims=NAMES):
    """The attack, broken: whatever transcript it is shown, it claims what it is going to be scored against."""
    spec = ATTACKS[name].controls[0]

    class Broken(ATTACKS[name]):
        def run(self, view, knowledge):
            numbers = {played(spec, shown).fed.ledger.head: against for shown, against in PAIRS}
            heads = {
                played(spec, d).view(spec.observers).restricted(self.accepts).messages: d
                for d in (0, *numbers.values())
            }
            draw = heads[view.messages]
            against = dict(PAIRS).get(draw, 0)
            return [c for c in claims_from_truth(name, against) if c.party in victims]

    return Broken(), spec


def claims_from_truth(name, draw):
    if name in ("statistics", "ring_size"):
        for (party, feature, value), x in statistics(TOLD[name], draw).items():
            yield StatisticClaim(party, feature, TOLD[name], x, x, x, (), value)
        return
    everything = held(draw)[NAMES[3]]
    for party, own in held(draw).items():
        for f, values in own.items():
            if name == "vocabulary":
                yield VocabularyClaim(party, f, tuple(sorted(values)))
            else:
                candidates = tuple(sorted(everything[f]))
                yield MembershipClaim(party, f, candidates, tuple(float(v in values) for v in candidates))


@pytest.mark.parametrize("name", TOLD)
def test_an_attack_that_reads_the_truth_passes_the_other_controls_and_fails_the_shuffled_one(name):
    found = {c.kind: c for c in federation_controls(*reads_the_truth(name))}
    assert found["leaky"].passed
    assert found["null"].passed
    assert not found["shuffled"].passed
    assert found["shuffled"].low > 0.9


def test_an_attack_that_reads_the_truth_of_one_victim_in_two_fails_the_shuffled_control():
    assert shuffled(*reads_the_truth("vocabulary", NAMES[:2])).low > 0.3


def test_a_check_that_fires_on_numbers_without_meaning_fails_the_shuffled_control():
    class Alarmist(ATTACKS["sac_audit"]):
        def run(self, view, knowledge):
            return [FindingClaim(c, "parts-not-hiding", "always") for c in view.public.clients]

    found = {c.kind: c for c in federation_controls(Alarmist(), Alarmist.controls[0])}
    assert found["leaky"].passed
    assert not found["shuffled"].passed


@pytest.mark.parametrize("name", ["ring_size", "vocabulary", "membership"])
def test_claims_that_never_change_are_no_better_than_chance_when_shuffled(name):
    class Constant(ATTACKS[name]):
        def run(self, view, knowledge):
            return [*claims_from_truth(name, 1)]

    found = shuffled(Constant(), Constant.controls[0])
    assert found.low <= 0 <= found.high


def test_an_attack_on_dictionaries_in_the_clear_has_a_shuffled_control_too():
    class Remembers(Plaintext):
        def run(self, view, knowledge):
            shown = next((m.payload.values for m in view.on(LocalDictionary)), {})
            draw = next((t for s, t in PAIRS if shown == {f: sorted(v) for f, v in held(s)[NAMES[0]].items()}), 0)
            return [VocabularyClaim(NAMES[0], f, tuple(v)) for f, v in held(draw)[NAMES[0]].items()]

    assert controls(Plaintext())["shuffled"].low <= 0 <= controls(Plaintext())["shuffled"].high
    assert not controls(Remembers())["shuffled"].passed


def test_the_party_that_holds_everything_is_a_victim_only_where_there_is_no_other():
    assert victims_of("server") == NAMES[:3]
    assert victims_of("last") == NAMES[:3]
    assert victims_of("all but last") == NAMES[3:]
    assert victims_of("all but first") == NAMES[:1]
