import gc
from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from weakref import ref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.values import byte_number, rolling_hash
from leakledger.attacks.transcript.holdings.finding import Finding, together
from leakledger.attacks.transcript.holdings.labelled import cuckoo, from_labelled
from leakledger.attacks.transcript.holdings.lattice import non_negative_solution
from leakledger.attacks.transcript.holdings.matching import free_matching, ordered_matching
from leakledger.attacks.transcript.holdings.numbers import from_numbers, held_by_some
from leakledger.attacks.transcript.holdings.pairwise import between_labels, from_pairs
from leakledger.attacks.transcript.holdings.sources import findings
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.preprocess.crypto.labelled_psi import Item as BinnedItem
from leakledger.preprocess.crypto.labelled_psi import cuckoo as its_own_cuckoo
from leakledger.preprocess.encoders.bytes_norm import text_number
from leakledger.preprocess.encoders.rolling_hash import rolling_hash as its_own
from leakledger.preprocess.messages import ClientGradient, OtmpRequest
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import MalformedMessage, Message, Method, ModelSpec
from leakledger.preprocess.wire import encode
from tests.attacks.ring_example import EVERYTHING, FEATURES, SCHEMA, SETS, run, table

DICTIONARY = AuxiliaryKnowledge(dictionaries=EVERYTHING)
NOTHING = AuxiliaryKnowledge()
OTHER_SETS = {"P1": SETS["P2"], "P2": SETS["P1"], "P3": SETS["P4"], "P4": SETS["P3"]}
ALL_COLUMNS = SCALERS["federated-zscore"](columns="all")


def claimed(found, *observers, knowledge=DICTIONARY):
    """(party, feature) -> the values claimed."""
    outcome = Vocabulary().run(found.view(*observers), knowledge)
    assert not isinstance(outcome, NotApplicable | Abstained), outcome
    return {(c.party, c.feature): set(c.values) for c in outcome}


def counts(found, *observers, knowledge=DICTIONARY):
    outcome = Vocabulary().run(found.view(*observers), knowledge)
    return {(c.party, c.feature): dict(zip(c.values, c.counts, strict=True)) for c in outcome if c.counts}


def truth(found, parties=SETS):
    return {(p, f): found.held(p, f) for p in parties for f in FEATURES}


def true_counts(found, parties=SETS):
    return {(p, f): dict(Counter(found.tables[p].values(f))) for p in parties for f in FEATURES}


@given(st.text(max_size=12), st.sampled_from(["zero", "drop", "code-point"]), st.sampled_from(["as-is", "NFC", "NFD"]))
def test_the_attack_hashes_as_the_encoder_does(value, others, form):
    options = {"others": others, "normal_form": form, "prime": 37}
    assert rolling_hash(value, 101, options) == its_own(value, 37, 101, others, form)
    assert byte_number(value, options) == text_number("f", value, 100, form)


@pytest.mark.parametrize("scaler", [ALL_COLUMNS, SCALERS["federated-minmax"](columns="all")])
def test_rolling_hashes_are_inverted_by_a_server_with_a_dictionary(scaler):
    found = run("rolling-hash", scaler=scaler)
    assert claimed(found, "server") == truth(found)


def test_means_of_hashed_columns_give_counts():
    found = run("rolling-hash", scaler=ALL_COLUMNS)
    assert counts(found, "server") == true_counts(found)


def test_a_hash_that_two_candidates_share_is_no_certainty():
    sets = {p: {"ward": ("a", "bb"), "diet": ("c",)} for p in SETS}
    found = run("rolling-hash", sets, scaler=ALL_COLUMNS, others="zero")
    knowledge = AuxiliaryKnowledge(dictionaries={"ward": ("a", "a1", "a2", "zz")})
    scores = findings(found.view("server"), knowledge)["P1", "ward"].scores
    assert scores["a"] == scores["a1"] == scores["a2"] == pytest.approx(1 / 3)
    assert scores["zz"] == 0


def test_a_hash_that_a_value_nobody_listed_may_have_is_no_certainty():
    wards = {"P1": ("A11",), "P2": ("A12",), "P3": ("xray",)}  # digits count nothing: one column for both
    found = run("rolling-hash", {p: {"ward": w, "diet": ("full",)} for p, w in wards.items()}, scaler=ALL_COLUMNS)
    known = findings(found.view("server", "P1"), NOTHING)
    assert 0.5 < known["P2", "ward"].scores["A11"] < 1


def test_an_extreme_byte_cast_of_a_long_value_that_is_one_of_several_is_no_certainty():
    wards = {"P1": ("ent", "maternity a"), "P2": ("ent", "maternity b"), "P3": ("ent",)}
    sets = {p: {"ward": w, "diet": ("full",)} for p, w in wards.items()}
    found = run("bytes-norm", sets, scaler=SCALERS["federated-minmax"](columns="all"), sharing="ring")
    scores = findings(found.view("server", "P1"), NOTHING)["P2", "ward"].scores
    assert scores["ent"] == 1
    assert 0.5 < scores["maternity a"] < 1


def test_a_long_value_that_all_parties_have_in_all_rows_is_held_by_all():
    wards = {p: {"ward": ("maternity a",), "diet": ("full", "light")} for p in ("P1", "P2", "P3")}
    found = run("bytes-norm", wards, scaler=SCALERS["federated-minmax"](columns="all"), sharing="ring")
    knowledge = AuxiliaryKnowledge(dictionaries={"ward": ("ent", "maternity a")})
    scores = findings(found.view("server"), knowledge)["P2", "ward"].scores
    assert scores["maternity a"] > 0.5
    assert scores["ent"] == 0


def test_mean_vectors_give_the_shares_of_the_words_behind_them():
    found = run("fasttext", scaler=ALL_COLUMNS, dictionary=EVERYTHING, dimension=24)
    assert claimed(found, "server", knowledge=NOTHING) == truth(found)
    assert counts(found, "server", knowledge=NOTHING) == true_counts(found)


def test_extreme_byte_casts_name_the_values_that_they_belong_to():
    found = run("bytes-norm", scaler=SCALERS["federated-minmax"](columns="all"))
    assert claimed(found, "server")["P2", "ward"] == {"ent", "surgery"}


def told(view, topic, sender, recipient, payload, round=0):
    body = encode(payload)
    sequence = len(view.messages)
    message = Message(sequence, "train", round, topic, sender, recipient, None, False, body, body)
    return replace(view, messages=(*view.messages, message))


def with_gradient(found, party="P1", noise=0.0):
    """The server's view with the gradient of all rows of one party."""
    spec = ModelSpec(found.public.layout.width, 2, (16,))
    rows = torch.tensor(found.inputs[party]["encoded"], dtype=torch.float32)
    weights = initial_weights(spec, np.random.default_rng(0))
    step = as_arrays(gradient(spec, as_tensors(weights), rows, torch.arange(len(rows)) % 2))
    step = {
        k: g + np.float32(noise) * np.random.default_rng(1).normal(size=g.shape).astype("f4") for k, g in step.items()
    }
    sent = {"rows": len(rows), "gradient": step}
    return told(found.view("server"), "train.gradient", party, "server", sent)


@pytest.mark.parametrize("encoder", ["rolling-hash", "server-dictionary"])
def test_zero_columns_of_a_gradient_tell_which_values_a_batch_has(encoder):
    found = run(encoder)
    outcome = Vocabulary().run(with_gradient(found).restricted(lambda kind: kind is ClientGradient), DICTIONARY)
    assert {(c.party, c.feature): set(c.values) for c in outcome} == truth(found, ["P1"])


def test_weights_that_did_not_change_tell_the_same_as_zero_columns():
    found = run("rolling-hash")
    view = with_gradient(found)
    step = view.messages[-1].payload.gradient
    before = {k: np.ones_like(g) for k, g in step.items()}
    after = {k: before[k] - np.float32(0.1) * g for k, g in step.items()}
    view = told(found.view("server"), "train.model", "server", "P1", {"weights": before})
    view = told(view, "train.weights", "P1", "server", {"rows": 12, "weights": after})
    assert {(c.party, c.feature): set(c.values) for c in Vocabulary().run(view, DICTIONARY)} == truth(found, ["P1"])


def test_a_noisy_gradient_has_no_zero_columns_and_nothing_is_claimed():
    found = run("rolling-hash")
    assert isinstance(Vocabulary().run(with_gradient(found, noise=1e-3), DICTIONARY), Abstained)


@pytest.mark.parametrize("encoder", ["dh-psi", "apsi"])
@pytest.mark.parametrize("observer", list(SETS))
def test_a_pairwise_intersection_tells_each_party_exactly_what_it_shares_with_each_other(observer, encoder):
    pytest.importorskip("tenseal") if encoder == "apsi" else None
    found = run(encoder)
    known = findings(found.view(observer), NOTHING)
    for party in set(SETS) - {observer}:
        for feature in FEATURES:
            own = found.held(observer, feature)
            certain = {v for v, s in known[party, feature].scores.items() if v in own and s == 1}
            assert certain == own & found.held(party, feature)
            assert {v for v in own if known[party, feature].scores[v] == 0} == own - certain


@pytest.mark.parametrize("options", [{}, {"pad_to": 3, "noise": 2}, {"directions": "upward"}, {"psi_route": "sealed"}])
def test_labels_under_encryption_are_those_of_the_fast_intersection(options):
    pytest.importorskip("tenseal")
    fast, slow = (run(encoder, **options) for encoder in ("dh-psi", "apsi"))
    for observer in SETS:
        one, other = (
            list(source)
            for source in (from_pairs(fast.view(observer), EVERYTHING), from_labelled(slow.view(observer), EVERYTHING))
        )
        assert [(f.party, f.feature, f.scores, f.proven) for f in one] == [
            (f.party, f.feature, f.scores, f.proven) for f in other
        ]
        assert one or (observer, options) == ("P1", {"directions": "upward"})
        assert not list(from_labelled(replace(slow.view(observer), coins={}), EVERYTHING))


@given(st.integers(1, 60), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_the_attack_places_elements_in_bins_as_the_receiver_does(count, seed):
    drawn = np.random.default_rng(seed).integers(0, max(2 * count, 4), (count, 3)).tolist()
    bins = [tuple(dict.fromkeys(row)) for row in drawn]
    try:
        expected = its_own_cuckoo([BinnedItem((), b, b"") for b in bins])
    except ValueError:
        return
    assert cuckoo(bins) == {item: place for place, item in expected.items()}


def test_a_coalition_knows_the_union_of_what_its_members_share():
    found = run("dh-psi")
    known = findings(found.view("P1", "P2"), NOTHING)["P3", "ward"].scores
    assert {v for v, s in known.items() if s == 1} == {"burns", "dental", "surgery"}


def test_ranks_of_labels_say_how_many_values_lie_between():
    assert between_labels({"b": 3, "e": 6}, ["a", "c", "d", "f"], "abcdef") == {"c": 0.999, "d": 0.999}
    assert between_labels({"b": 3, "e": 5}, ["c", "d"], "abcdef") == {"c": 0.5, "d": 0.5}
    assert between_labels({"b": 3, "e": 4}, ["c", "d"], "abcdef") == {"c": 0.001, "d": 0.001}
    assert between_labels({"b": 3}, ["a", "c"], "abcdef", (2, 4)) == {"a": 0.999, "c": 0.001}
    assert between_labels({"b": 6, "e": 3}, ["c"], "abcdef") == {}


@pytest.mark.parametrize("observer", list(SETS))
def test_positions_tell_each_party_what_it_shares_but_the_key_holder_only_with_those_before(observer):
    found = run("otmp-psi")
    known = findings(found.view(observer), NOTHING)
    for party in set(SETS) - {observer}:
        for feature in FEATURES:
            own = found.held(observer, feature)
            certain = {v for v in own if known[party, feature].scores[v] == 1}
            assert certain == own & found.held(party, feature)


def test_the_key_holder_and_the_reconstructor_together_read_everyone():
    found = run("otmp-psi")
    assert claimed(found, "P1", "P4") == truth(found, ["P2", "P3"])
    assert claimed(found, "P1", "P3")["P2", "ward"] <= found.held("P2", "ward")


@pytest.mark.parametrize(("encoder", "observer"), [("dh-psi", "P1"), ("otmp-psi", "P4"), ("apsi", "P2")])
def test_values_that_an_intersection_finds_are_proven_and_no_others(encoder, observer):
    pytest.importorskip("tenseal") if encoder == "apsi" else None
    found = run(encoder)
    claims = [c for c in Vocabulary().run(found.view(observer), DICTIONARY) if c.party in ("P1", "P3")]
    assert claims
    for c in claims:
        both = found.held(observer, c.feature) & found.held(c.party, c.feature)
        assert c.proven == both <= set(c.values)
        assert not c.certain


@pytest.mark.parametrize("unused", ["keep", "drop"])
def test_without_coins_the_final_numbers_still_tell_what_an_earlier_party_holds(unused):
    found = run("dh-psi", unused=unused)
    view = replace(found.view("P2"), coins={})
    scores = findings(view, NOTHING)["P1", "ward"].scores
    assert scores == {"burns": 1, "ent": 1, "icu": 0, "surgery": 0}


def test_a_lowered_number_names_no_party_where_the_range_is_not_known():
    found = run("dh-psi")
    view = replace(found.view("P3"), coins={})
    for party in ("P1", "P2"):
        scores = findings(view, NOTHING)[party, "ward"].scores
        assert {v for v, score in scores.items() if score == 0} == {"maternity", "xray"}
        assert {v for v, score in scores.items() if 0.5 < score < 1} == {"burns", "dental", "surgery"}


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_the_chance_to_hold_what_one_of_some_holds_is_that_of_all_combinations(parties):
    prior = 0.3
    chances = {
        held: np.prod([prior if h else 1 - prior for h in held]) for held in product((True, False), repeat=parties)
    }
    some = sum(p for held, p in chances.items() if any(held))
    assert held_by_some(prior, parties) == pytest.approx(sum(p for held, p in chances.items() if held[0]) / some)


@given(st.floats(0.001, 0.999))
def test_what_one_party_must_hold_is_certain_whatever_the_prior(prior):
    assert held_by_some(prior, 1) == 1


@pytest.mark.parametrize("scaler", [None, SCALERS["federated-minmax"](columns="all")])
@pytest.mark.parametrize("unused", ["keep", "drop"])
def test_final_numbers_in_one_column_tell_what_they_tell_one_hot(unused, scaler):
    hot, label = (run("dh-psi", unused=unused, style=style) for style in ("one-hot", "label"))
    labelled = run("dh-psi", scaler=scaler, unused=unused, style="label")
    for who in (("P2",), ("P2", "P4"), ("P3", "P4")):
        known = [findings(replace(found.view(*who), coins={}), NOTHING) for found in (hot, label, labelled)]
        assert known[0]
        assert {k: f.scores for k, f in known[0].items()} == {k: f.scores for k, f in known[1].items()}
        assert {k: f.scores for k, f in known[0].items()} == {k: f.scores for k, f in known[2].items()}


def test_numbers_that_a_party_scaled_by_itself_are_not_read():
    """Scaled, the numbers 3 and 4 may be -1 and 1, which is another value's number."""
    found = run("dh-psi", scaler=SCALERS["local"](columns="all"), style="label")
    public = replace(found.public, scaler=Method("local", {"columns": "all"}))
    for who in (("P2",), ("P3",), ("P2", "P4")):
        view = replace(found.view(*who), public=public, coins={})
        assert not [f for f in from_numbers(view, {}) if f.scores]


def test_extremes_of_numbers_name_values_of_an_observer_that_has_them():
    found = run("dh-psi", scaler=SCALERS["federated-minmax"](columns="all"), style="label")
    known = findings(replace(found.view("server", "P4"), coins={}), NOTHING)
    assert known
    for (party, feature), finding in known.items():
        held = found.held(party, feature)
        assert {v for v, score in finding.scores.items() if score == 1} <= held
        assert not {v for v, score in finding.scores.items() if score == 0} & held
    assert known["P1", "ward"].scores["ent"] == 1


@pytest.mark.parametrize("unused", ["keep", "drop"])
def test_a_number_in_a_known_range_names_the_first_holder_and_clears_those_before(unused):
    found = run("dh-psi", unused=unused)
    known = findings(replace(found.view("P2", "P4"), coins={}), NOTHING)
    assert known["P3", "ward"].scores == {"xray": 1}
    assert known["P1", "ward"].scores == {"burns": 1, "ent": 1, "icu": 0, "surgery": 0, "xray": 0}
    assert known["P3", "diet"].scores == {"none": 1, "soft": 1}


def test_what_is_certain_outweighs_chances_and_of_two_chances_the_likelier_counts():
    parts = [Finding("P1", "f", s) for s in ({"a": 1.0, "b": 0.0, "c": 0.2}, {"a": 0.3, "b": 0.9, "c": 0.6, "d": 0.1})]
    assert together(parts)["P1", "f"].scores == {"a": 1, "b": 0, "c": 0.6, "d": 0.1}


def test_a_server_and_a_party_together_see_who_uses_the_party_s_numbers():
    found = run("dh-psi", scaler=ALL_COLUMNS)
    scores = findings(replace(found.view("server", "P1"), coins={}), NOTHING)
    for party in ("P2", "P3", "P4"):
        own = found.held("P1", "ward")
        assert {v for v in own if scores[party, "ward"].scores[v] == 1} == own & found.held(party, "ward")


def brute_force(likelihood, absent):
    """The posterior over increasing injections by enumeration."""
    k, m = likelihood.shape
    found = np.zeros((k, m))
    for chosen in combinations(range(m), k):
        weight = sum(likelihood[i, v] for i, v in enumerate(chosen)) + sum(
            absent[v] for v in set(range(m)) - set(chosen)
        )
        found[np.arange(k), list(chosen)] += np.exp(weight)
    return found / found.sum(1, keepdims=True)


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_the_posterior_of_an_ordered_matching_is_that_of_enumeration(k, more, seed):
    coins = np.random.default_rng(seed)
    likelihood, absent = coins.normal(size=(k, k + more)), coins.normal(size=k + more)
    np.testing.assert_allclose(ordered_matching(likelihood, absent), brute_force(likelihood, absent), atol=1e-9)


def test_a_free_matching_is_sure_of_what_it_could_not_swap():
    likelihood = np.array([[0.0, -50, -50], [-50, 0.0, -0.1], [-50, -0.1, 0.0]])
    chance = free_matching(likelihood, np.zeros(3))
    assert chance[0, 0] > 0.999
    assert 0.5 < chance[1, 1] < 0.6


@pytest.mark.parametrize("observers", [("server", "P1"), ("server", "P2"), ("server", "P4")])
def test_what_how_often_numbers_occur_suggests_is_never_certain(observers):
    found = run("dh-psi", scaler=ALL_COLUMNS)
    wrong = [
        (key, value)
        for key, finding in findings(replace(found.view(*observers), coins={}), DICTIONARY).items()
        for value, score in finding.scores.items()
        if score in (0, 1) and score != (value in found.held(*key))
    ]
    assert wrong == []


WEIGHTS = {"ward": (0.5, 0.3, 0.15, 0.05), "diet": (0.8, 0.2)}
FREQUENT = {"ward": ("burns", "ent", "icu", "surgery"), "diet": ("full", "none")}


@pytest.mark.parametrize(("encoder", "observers"), [("uhe", ("server",)), ("local", ("server",)), ("uhe", ("P2",))])
def test_numbers_are_matched_with_values_by_frequency_and_order(encoder, observers):
    tables = {p: table(FREQUENT, 400, WEIGHTS, seed=i) for i, p in enumerate(SETS)}
    found = run(encoder, tables=tables, scaler=ALL_COLUMNS)
    wider = {
        "ward": ([*FREQUENT["ward"], "dental", "xray"], np.array([*(0.9 * w for w in WEIGHTS["ward"]), 0.09, 0.01])),
        "diet": ([*FREQUENT["diet"]], np.array(WEIGHTS["diet"])),
    }
    wider = {f: (list(np.array(v)[o := np.argsort(v)]), p[o]) for f, (v, p) in wider.items()}
    knowledge = AuxiliaryKnowledge(marginals=wider)
    assert claimed(found, *observers, knowledge=knowledge)["P1", "ward"] == found.held("P1", "ward")


@pytest.mark.parametrize(("encoder", "observers"), [("uhe", ("server",)), ("local", ("server",)), ("uhe", ("P2",))])
def test_numbers_are_matched_in_the_declared_order_where_there_is_one(encoder, observers):
    schema = replace(SCHEMA, orders={"ward": ("surgery", "icu", "ent", "burns")})
    tables = {p: table(FREQUENT, 400, WEIGHTS, seed=i) for i, p in enumerate(SETS)}
    found = run(encoder, tables=tables, scaler=ALL_COLUMNS, schema=schema)
    knowledge = AuxiliaryKnowledge(marginals={f: ([*v], np.array(WEIGHTS[f])) for f, v in FREQUENT.items()})
    told, held = counts(found, *observers, knowledge=knowledge)["P1", "ward"], true_counts(found)["P1", "ward"]
    assert {v: n / sum(told.values()) for v, n in told.items()} == pytest.approx({v: n / 400 for v, n in held.items()})


@pytest.mark.parametrize("encoder", ["dh-psi", "apsi"])
def test_ranks_of_labels_are_taken_in_the_declared_order_where_there_is_one(encoder):
    wards = {"P1": ("burns", "ent", "icu"), "P2": ("ent", "icu")}
    schema = replace(SCHEMA, orders={"ward": ("ent", "burns", "icu")})
    found = run(encoder, {p: {**SETS[p], "ward": w} for p, w in wards.items()}, schema=schema)
    assert findings(found.view("P2"), DICTIONARY)["P1", "ward"].scores["burns"] > 0.9


@pytest.mark.parametrize("passes", [1, 2])
def test_sums_of_byte_casts_give_two_colluders_the_third_one_s_rows(passes):
    sets = {p: SETS[p] for p in ("P1", "P2", "P3")}
    found = run("bytes-norm", sets, sharing="ring", passes=passes)
    expected = true_counts(found, ["P3"])
    assert counts(found, "P1", "P2") == expected


def test_sums_of_byte_casts_tell_one_party_which_values_nobody_else_holds():
    sets = {p: SETS[p] for p in ("P1", "P2", "P3")}
    found = run("bytes-norm", sets, sharing="ring")
    scores = findings(found.view("P1"), DICTIONARY)["P2", "ward"].scores
    others = found.held("P2", "ward") | found.held("P3", "ward")
    assert {v for v, s in scores.items() if s > 0} == others


@given(st.lists(st.integers(0, 500), min_size=2, max_size=7), st.integers(0, 10**6))
@settings(deadline=None, max_examples=20)
def test_a_knapsack_of_low_density_is_solved(counts, seed):
    coins = np.random.default_rng(seed)
    codes = [int.from_bytes(coins.bytes(24), "big") for _ in counts]
    equations = [[1] * len(counts), codes]
    sums = [sum(counts), sum(n * x for n, x in zip(counts, codes, strict=True))]
    assert non_negative_solution(equations, sums, [100] * len(counts), [3] * len(counts)) == (counts, True)


def test_a_knapsack_with_several_solutions_is_left_alone():
    assert non_negative_solution([[1, 1, 1], [1, 2, 3]], [30, 60], [10, 10, 10], [1, 1, 1]) is None


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.integers(0, 6), min_size=3, max_size=8), st.booleans(), st.integers(0, 10**6))
def test_a_solution_is_returned_only_if_no_other_multiset_has_the_same_sums(counts, squared, seed):
    """Short texts, as "v1" and "v2": the sums of few rows of some are those of others."""
    codes = sorted(np.random.default_rng(seed).choice(range(100, 112), len(counts), replace=False).tolist())
    equations = [[1] * len(codes), codes, *([[x * x for x in codes]] if squared else [])]
    sums = [sum(n * a for n, a in zip(counts, e, strict=True)) for e in equations]
    found = non_negative_solution(equations, sums, [2] * len(codes), [3] * len(codes))
    if found is not None:
        assert found == (counts, True)


def test_counts_are_not_for_certain_where_the_search_for_others_has_no_end(monkeypatch):
    held = dict.fromkeys(FEATURES, ("clerical", "executive", "farming", "transport"))
    found = run("bytes-norm", tables={p: table(held) for p in ("P1", "P2", "P3")}, sharing="ring")
    sure = findings(found.view("P1", "P2"), NOTHING)["P3", FEATURES[0]]
    monkeypatch.setattr("leakledger.attacks.transcript.holdings.lattice._another", lambda found, kernel: None)
    open_ = findings(found.view("P1", "P2"), NOTHING)["P3", FEATURES[0]]
    assert set(sure.scores.values()) == {1.0}
    assert open_.counts == sure.counts
    assert all(0.9 < s < 1 for s in open_.scores.values())


def test_sums_of_short_texts_that_unlisted_values_have_too_make_nothing_certain():
    """1 + 4 + 6 + 7 = 2 + 3 + 5 + 8, and so do their squares."""
    ours, theirs = ({f: tuple(f"v{i}" for i in numbers) for f in FEATURES} for numbers in ((1, 4, 6, 7), (2, 3, 5, 8)))
    tables = {"P1": table(ours), "P2": table(ours), "P3": table(theirs, rows=4)}
    found = run("bytes-norm", tables=tables, sharing="ring")
    for feature in FEATURES:
        scores = findings(found.view("P1", "P2"), NOTHING)["P3", feature].scores
        assert set(scores) == set(ours[feature])
        assert all(0.9 < s < 1 for s in scores.values())


def test_shared_target_tallies_are_read_by_the_server_and_by_one_of_two():
    two = {p: SETS[p] for p in ("P1", "P2")}
    found = run("target", two, exchange="shared", likelihood="class-given-value")
    assert counts(found, "server") == true_counts(found, two)
    assert counts(found, "P1")["P2", "ward"] == true_counts(found, two)["P2", "ward"]


def test_who_of_two_holds_a_value_is_never_certain_from_their_sum_however_many_rows_have_it():
    sets = {"P1": {f: EVERYTHING[f][:1] for f in FEATURES}, "P2": {f: EVERYTHING[f][1:] for f in FEATURES}}
    sets["P3"] = sets["P2"]
    tables = {p: table(v, rows=400, seed=i) for i, (p, v) in enumerate(sets.items())}
    found = run("target", sets, tables=tables, exchange="shared", likelihood="class-given-value")
    known = findings(found.view("P2"), NOTHING)
    for party, feature in product(("P1", "P3"), FEATURES):
        assert max(known[party, feature].scores.values()) < 1


@pytest.mark.parametrize("encoder", ["server-dictionary", "pooled"])
def test_a_dictionary_of_all_leaves_the_last_client_what_no_other_holds(encoder):
    sets = {**SETS, "P1": {f: (*held, f"{f} of one") for f, held in SETS["P1"].items()}}
    found = run(encoder, sets)
    everything = {f: (*EVERYTHING[f], f"{f} of one", f"{f} of none") for f in FEATURES}
    certain = findings(found.view("P2", "P3", "P4"), AuxiliaryKnowledge(dictionaries=everything))
    for f in FEATURES:
        scores = certain["P1", f].scores
        assert (scores[f"{f} of one"], scores[f"{f} of none"]) == (1.0, 0.0)
        assert {v for v, score in scores.items() if score} <= found.held("P1", f)
        assert not scores.keys() & found.held("P2", f)  # of what observers hold it says nothing
    likely = findings(found.view("P2", "P3"), AuxiliaryKnowledge(dictionaries=everything))
    assert likely["P1", FEATURES[0]].scores[f"{FEATURES[0]} of one"] == 0.5
    bare = replace(found.view("P2", "P3", "P4"), inputs={})
    assert set(findings(bare, AuxiliaryKnowledge(dictionaries=everything))["P1", FEATURES[0]].scores.values()) == {0.0}


@pytest.mark.parametrize(("encoder", "options"), [("uhe", {"pad_to": 2}), ("local", {})])
def test_numbers_without_frequencies_and_sizes_name_nothing(encoder, options):
    found = run(encoder, **options)
    assert isinstance(Vocabulary().run(found.view("P2"), DICTIONARY), Abstained | NotApplicable)


def test_without_a_candidate_it_does_not_apply():
    outcome = Vocabulary().run(run("rolling-hash", scaler=ALL_COLUMNS).view("server"), NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "dictionary" in outcome.reason


def test_an_empty_view_does_not_apply():
    view = replace(run("uhe").view("P2"), messages=())
    assert isinstance(Vocabulary().run(view, DICTIONARY), NotApplicable)


@pytest.mark.parametrize("encoder", ["dh-psi", "otmp-psi", "bytes-norm", "target"])
def test_truncated_messages_are_named_or_tell_nothing_and_reordered_ones_raise_nothing(encoder):
    options = {"exchange": "shared"} if encoder == "target" else {}
    found = run(encoder, scaler=ALL_COLUMNS, **options)
    view = found.view("P2", "server")
    cut = [m if m.content is None else replace(m, body=m.body[:-3], content=m.content[:-3]) for m in view.messages]
    try:
        outcome = Vocabulary().run(replace(view, messages=tuple(cut)), DICTIONARY)
    except MalformedMessage as error:
        outcome = NotApplicable(str(error))
    assert isinstance(outcome, Abstained | NotApplicable)
    swapped = replace(view, messages=view.messages[::-1], inputs={})
    Vocabulary().run(swapped, DICTIONARY)


def test_a_request_of_no_group_elements_leaves_the_key_holder_those_of_the_others():
    view = run("otmp-psi").view("P1")
    first = next(view.on(OtmpRequest))
    body = encode(bytes(len(first.payload.points.value)))
    zeros = tuple(replace(m, body=body, content=body) if m is first else m for m in view.messages)
    assert len(list(view.on(OtmpRequest))) == 3
    assert Vocabulary().run(replace(view, messages=zeros), DICTIONARY) == Vocabulary().run(view, DICTIONARY)


@pytest.mark.parametrize("encoder", ["dh-psi", "otmp-psi"])
def test_the_answers_of_another_run_tell_nothing(encoder):
    """A transcript that has nothing to do with the observer's own secrets."""
    one, other = run(encoder, seed=1), run(encoder, seed=2)
    view = replace(one.view("P3"), coins=other.view("P3").coins, inputs={"P3": other.tables["P3"].to_plain()})
    assert isinstance(Vocabulary().run(view, NOTHING), Abstained)


def test_the_same_view_gives_the_same_claims():
    view = run("dh-psi", scaler=ALL_COLUMNS).view("P1", "server")
    assert repr(Vocabulary().run(view, DICTIONARY)) == repr(Vocabulary().run(view, DICTIONARY))


def test_findings_are_kept_for_the_same_view_with_the_same_knowledge_and_for_no_other():
    found, other = run("rolling-hash", scaler=ALL_COLUMNS), run("rolling-hash", OTHER_SETS, scaler=ALL_COLUMNS)
    view = found.view("server")
    first = findings(view, DICTIONARY)
    assert findings(view, DICTIONARY) is first
    assert findings(view, replace(DICTIONARY)) is not first
    some = AuxiliaryKnowledge(dictionaries={f: v[:1] for f, v in EVERYTHING.items()})
    assert {len(f.scores) for f in findings(view, some).values()} == {1}
    assert claimed(other, "server") == truth(other)
    assert claimed(found, "server") == truth(found)


def test_a_view_that_is_gone_is_not_taken_for_one_in_its_place():
    found, other = run("rolling-hash", scaler=ALL_COLUMNS), run("rolling-hash", OTHER_SETS, scaler=ALL_COLUMNS)
    for _ in range(20):  # a new view may get the address of the last one
        assert claimed(found, "server") == truth(found)
        assert claimed(other, "server") == truth(other)


def test_kept_findings_do_not_keep_the_view():
    view = run("rolling-hash", scaler=ALL_COLUMNS).view("server")
    findings(view, DICTIONARY)
    gone = ref(view)
    del view
    gc.collect()
    assert gone() is None


def test_numbers_asked_for_by_position_say_how_many_values_lie_between_them():
    """They were in no claim: of values that the asker lacks, who holds them was a guess."""
    values = [f"v{i:02d}" for i in range(30)]
    held, not_held, sure = [], [], 0
    for seed in range(4):
        coins = np.random.default_rng(seed)
        sets = {p: {f: sorted(coins.choice(values, 16, replace=False).tolist()) for f in FEATURES} for p in SETS}
        found = run("otmp-psi", tables={p: table(of, 40, seed=i) for i, (p, of) in enumerate(sets.items())})
        known = findings(found.view("P3"), AuxiliaryKnowledge(dictionaries={f: tuple(values) for f in FEATURES}))
        for party, feature in product(("P1", "P2"), FEATURES):
            for v in set(values).difference(sets["P3"][feature]):
                has = v in sets[party][feature]
                score = known[party, feature].scores.get(v, 0.5)
                (held if has else not_held).append(score)
                if score in (0.001, 0.999):
                    sure += 1
                    assert has == (score > 0.5)
    assert sure > 20
    assert np.mean(np.subtract.outer(held, not_held) > 0) > np.mean(np.subtract.outer(held, not_held) < 0) + 0.2


def test_numbers_that_fit_no_match_tell_nothing():
    found = run("otmp-psi")
    view = found.view("P4")
    own = findings(view, DICTIONARY)
    for broken in (np.zeros(0, np.int64), np.zeros((2, 2), np.int64)):
        messages = tuple(
            m.carrying(replace(m.payload, numbers=broken)) if m.topic == "otmp.numbers" else m for m in view.messages
        )
        known = findings(replace(view, messages=messages), DICTIONARY)
        for key, f in known.items():
            assert {v for v, s in f.scores.items() if s == 1} == {v for v, s in own[key].scores.items() if s == 1}
