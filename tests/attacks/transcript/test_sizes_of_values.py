"""What exact sizes prove of values, and what they make likely."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.transcript import vocabulary
from leakledger.attacks.transcript.holdings import sizes
from leakledger.attacks.transcript.holdings.finding import exactly
from leakledger.attacks.transcript.holdings.sizes import given_sum, settled, tilted
from leakledger.attacks.transcript.membership import Membership
from leakledger.attacks.transcript.vocabulary import Vocabulary, least_of_best
from tests.attacks.ring_example import FEATURES, run

ALL = {"ward": ("a", "b", "c"), "diet": ("full", "none")}
SETS = {
    "P1": {"ward": ("a", "b", "c"), "diet": ("full",)},
    "P2": {"ward": ("a",), "diet": ("full", "none")},
    "P3": {"ward": ("b", "c"), "diet": ("none",)},
}
NOTHING, GRANTED = AuxiliaryKnowledge(), AuxiliaryKnowledge(dictionaries=ALL)
WHOLE = {("P1", "ward"): {"a", "b", "c"}, ("P2", "diet"): {"full", "none"}}  # of whom holds all values there are


def seen(encoder, *observers, declared=ALL, sets=SETS, **options):
    view = run(encoder, sets, **options).view(*observers)
    domains = {"domains": {f: list(v) for f, v in declared.items()}} if declared else {}
    return replace(view, public=replace(view.public, schema={**view.public.schema, **domains}))


def proven(outcome):
    return {(c.party, c.feature): set(c.proven) for c in outcome if c.proven}


def scores(outcome):
    return {(c.party, c.feature): dict(zip(c.values, c.scores, strict=True)) for c in outcome}


@pytest.mark.parametrize("attack", [Vocabulary(), Membership()])
def test_a_size_equal_to_the_declared_values_proves_that_all_are_held(attack):
    assert proven(attack.run(seen("local", "server"), NOTHING)) == WHOLE
    # Who is told sums alone knows the last party's size by the others'.
    for encoder in ("uhe", "mod-norm"):
        assert proven(attack.run(seen(encoder, "P1", "P3"), NOTHING)) == {("P2", "diet"): {"full", "none"}}
    assert proven(attack.run(seen("local", "P1", "P3"), NOTHING)) == {("P2", "diet"): {"full", "none"}}


@pytest.mark.parametrize("attack", [Vocabulary(), Membership()])
@pytest.mark.parametrize("left_out", [{"pad_to"}, {"pad_to", "noise"}])
def test_ranges_that_nobody_states_to_be_without_padding_prove_nothing(attack, left_out):
    view = seen("uhe", "server", ring_route="relay", pad_to=2)  # two numbers for P1's only "diet", of two there may be
    encoder = view.public.encoder
    stated = {name: value for name, value in encoder.options.items() if name not in left_out}
    elsewhere = replace(view, public=replace(view.public, encoder=replace(encoder, options=stated)))
    assert isinstance(attack.run(elsewhere, NOTHING), Abstained)


@pytest.mark.parametrize("attack", [Vocabulary(), Membership()])
def test_a_granted_dictionary_may_lack_values_and_proves_nothing(attack):
    sets = {**SETS, "P1": {"ward": ("a", "b", "z"), "diet": ("full",)}}
    outcome = attack.run(seen("local", "server", declared={}, sets=sets), GRANTED)
    assert proven(outcome) == {}
    assert not isinstance(outcome, NotApplicable | Abstained)
    for found in Membership().run(seen("local", "server", declared={}, sets=sets), GRANTED):
        assert not {0.0, 1.0} & set(found.scores)


@pytest.mark.parametrize("attack", [Vocabulary(), Membership()])
def test_values_that_messages_or_observers_contradict_are_not_all_there_are(attack):
    short = {"ward": ("a", "b"), "diet": ("full", "none")}
    assert proven(attack.run(seen("local", "server", declared=short), NOTHING)) == {("P2", "diet"): {"full", "none"}}
    # P3 holds "c" itself, and P2 has two values: no proof that they are "a" and "b".
    sets = {**SETS, "P2": {"ward": ("a", "c"), "diet": ("full", "none")}}
    for found in attack.run(seen("uhe", "P1", "P3", declared=short, sets=sets), NOTHING):
        assert found.proven <= set(sets[found.party][found.feature])


def test_who_knows_one_feature_of_a_party_claims_what_is_likely_of_its_others(monkeypatch):
    told = exactly("P2", "diet", {"full": 1.0, "none": 0.0}, [4])
    monkeypatch.setattr(vocabulary, "findings", lambda view, knowledge: {("P2", "diet"): told})
    found = {(c.party, c.feature): c for c in Vocabulary().run(seen("local", "server"), NOTHING)}
    assert found.keys() == {("P2", "diet"), ("P2", "ward")}  # and of no other party
    assert (found["P2", "diet"].values, found["P2", "diet"].proven) == (("full",), {"full"})
    guessed = found["P2", "ward"]  # on no message: what is declared
    assert (set(guessed.values), guessed.evidence, guessed.proven) == ({"a", "b", "c"}, (), frozenset())


def test_values_are_claimed_for_the_best_expected_overlap():
    # One of three that are alike is held: one named is right in a third, all three have an overlap of a half for sure.
    found = {(c.party, c.feature): set(c.values) for c in Vocabulary().run(seen("local", "server"), NOTHING)}
    assert found["P2", "ward"] == {"a", "b", "c"}
    assert least_of_best([0.9, 0.2, 0.1]) == 0.9
    assert least_of_best([0.9, 0.3]) == 0.9
    assert least_of_best([0.9, 0.5]) == 0.5
    assert least_of_best([0.0, 0.0]) > 1
    outcome = Vocabulary(least=0.5).run(seen("local", "server"), NOTHING)
    assert ("P2", "ward") not in {(c.party, c.feature) for c in outcome}


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7))
@settings(deadline=None, max_examples=60)
def test_no_other_set_has_a_better_expected_overlap_as_it_is_taken(chances):
    least = least_of_best(chances)
    each = product((False, True), repeat=len(chances))
    best = max(_expected(chances, [c for c, one in zip(chances, claimed, strict=True) if one]) for claimed in each)
    assert _expected(chances, [c for c in chances if c >= least]) == pytest.approx(best)


def _expected(chances, claimed):
    return 2 * sum(claimed) / (len(claimed) + sum(chances))


def test_ranges_with_unused_numbers_prove_nothing():
    assert not isinstance(Membership().run(seen("uhe", "P1", "P3"), NOTHING), Abstained)
    assert isinstance(Membership().run(seen("uhe", "P1", "P3", pad_to=2), NOTHING), Abstained)


def test_a_size_of_k_values_that_are_alike_gives_each_its_share():
    found = scores(Membership().run(seen("local", "server"), NOTHING))
    assert found["P3", "ward"] == pytest.approx(dict.fromkeys(ALL["ward"], 2 / 3))
    assert found["P2", "ward"] == pytest.approx(dict.fromkeys(ALL["ward"], 1 / 3))
    assert set(found) == {(p, f) for p in SETS for f in FEATURES}


def test_what_a_size_leaves_no_room_for_is_not_held_whether_values_are_declared_or_not():
    assert settled(1, {"a": 1.0}, ("a", "b"), None) == {"b": 0.0}
    assert settled(1, {"a": 1.0, "b": 0.7}, ("a", "b", "c"), None) == {"b": 0.0, "c": 0.0}
    assert settled(2, {"a": 1.0, "b": 0.0}, "abcd", "abcd") is None
    assert settled(3, {"a": 1.0, "b": 0.0}, "abcd", "abcd") == {"c": 1.0, "d": 1.0}
    assert settled(3, {"a": 1.0, "b": 0.0}, "abcd", None) is None
    assert settled(3, {"z": 1.0, "b": 0.0}, "abcdz", "abc") is None  # "z" is none of them: there are more
    assert tilted(3, {"a": 1.0, "b": 0.3}, "abc", {}) == {"c": pytest.approx(1, abs=1e-5)}
    assert tilted(5, {"a": 1.0}, "abc", {}) == {}


@given(st.lists(st.floats(0.02, 0.98), min_size=2, max_size=7), st.data())
@settings(deadline=None, max_examples=60)
def test_chances_given_the_size_are_those_of_enumeration(chances, data):
    total = data.draw(st.integers(1, len(chances)))
    found = given_sum(np.array(chances), total)
    exact = np.zeros(len(chances))
    for held in product((0, 1), repeat=len(chances)):
        if sum(held) == total:
            exact += np.array(held) * np.prod(np.where(held, chances, 1 - np.array(chances)))
    np.testing.assert_allclose(found, exact * total / exact.sum(), atol=1e-5)
    assert (found < 1).all()


def test_chances_given_the_size_of_very_many_values_are_close_to_exact_ones(monkeypatch):
    chances = np.random.default_rng(0).uniform(0.05, 0.9, 200)
    exact = given_sum(chances, 60)
    monkeypatch.setattr(sizes, "ENUMERATED", 0)
    np.testing.assert_allclose(given_sum(chances, 60), exact, atol=0.01)
    assert given_sum(chances, 60).sum() == pytest.approx(60, abs=1e-3)
