from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.observed.ring import Unreadable, read_ring
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.ring_size.arrangement import of_boundaries, of_edges
from leakledger.attacks.transcript.ring_size.occupancy import Known, Occupancy, binomial_laws, moments
from leakledger.attacks.transcript.ring_size.population import unseen_values
from leakledger.attacks.transcript.ring_size.posterior import (
    Interval,
    Padding,
    given_sums,
    given_totals,
    interval,
    normalised,
    range_law,
    size_posteriors,
)
from leakledger.attacks.transcript.ring_size.prior import Impossible, Prior, sizes_of
from leakledger.attacks.transcript.ring_size.ring_size import at_least, given_largest
from leakledger.attacks.transcript.ring_size.worlds import worlds
from leakledger.audit.play import view_of
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import MalformedMessage, Message, Method, ModelSpec
from leakledger.preprocess.wire import encode
from tests.attacks.ring_example import EVERYTHING, FEATURES, SCHEMA, SETS, run, table
from tests.audit.example import truth
from tests.every import every

KNOW_NOTHING = AuxiliaryKnowledge()
UNPADDED = Method("uhe", {"pad_to": 1, "noise": 0})  # of a ring whose order nobody tells
laws = st.lists(st.floats(0.01, 1), min_size=2, max_size=6).map(lambda w: np.array(w) / np.sum(w))


def attack(found, *observers, knowledge=KNOW_NOTHING, **options):
    """(party, feature) -> claim."""
    outcome = RingSize(**options).run(found.view(*observers), knowledge)
    assert not isinstance(outcome, NotApplicable | Abstained), outcome
    return {(c.party, c.feature): c for c in outcome}


def exact(claims):
    return {key: c.estimate for key, c in claims.items() if c.low == c.high and key[1]}


def brute_force(laws, total):
    """The posterior of each number given their sum, by enumeration."""
    found = [np.zeros(len(law)) for law in laws]
    for values in product(*(range(len(law)) for law in laws)):
        if sum(values) == total:
            chance = np.prod([law[v] for law, v in zip(laws, values, strict=True)])
            for k, v in enumerate(values):
                found[k][v] += chance
    return [f / f.sum() for f in found]


def changed(view, topic, change):
    """The view with the first message on a topic changed."""
    messages = list(view.messages)
    i = next(i for i, m in enumerate(messages) if m.topic == topic)
    messages[i] = change(messages[i])
    return replace(view, messages=tuple(messages))


def with_payload(payload):
    return lambda m: replace(m, body=encode(payload), content=encode(payload))


def test_the_sum_of_the_ring_less_exact_sizes_of_all_others_is_the_size_of_the_last_one():
    found = run("uhe", scaler=SCALERS["federated-zscore"](columns="all"))
    for silent in SETS:
        seen = found.view("server")
        told = [m for m in seen.messages if not (m.topic == "zscore.mean" and m.sender == silent)]
        claims = RingSize().run(replace(seen, messages=tuple(told)), KNOW_NOTHING)
        sizes = {(c.party, c.feature): (c.low, c.high) for c in claims}
        assert sizes == {(p, f): (found.size(p, f),) * 2 for p in SETS for f in FEATURES}
        (rest,) = [c for c in claims if (c.party, c.feature) == (silent, "ward")]
        topics = {m.topic for m in told if m.sequence in rest.evidence}
        assert topics == {"ring.maximum", "zscore.mean"}


def test_of_a_ring_with_unused_numbers_the_rest_of_the_sum_is_no_size():
    found = run("uhe", scaler=SCALERS["federated-zscore"](columns="all"), pad_to=3)
    seen = found.view("server")
    told = [m for m in seen.messages if not (m.topic == "zscore.mean" and m.sender == "P2")]
    for options in ({}, {"pad_to": 3}):
        claims = RingSize(**options).run(replace(seen, messages=tuple(told)), KNOW_NOTHING)
        for c in claims:
            assert c.low <= found.size(c.party, c.feature) <= c.high
            assert (c.low == c.high) == (c.party != "P2")


@given(laws, st.integers(2, 4), st.data())
@settings(deadline=None, max_examples=30)
def test_the_posterior_given_a_sum_is_that_of_enumeration(law, parties, data):
    total = data.draw(st.integers(0, parties * (len(law) - 1)))
    expected = brute_force([law] * parties, total)[0]
    found = normalised(given_sums([law], parties, [total])[0])
    np.testing.assert_allclose(np.pad(found, (0, 9))[: len(law)], expected, atol=1e-12)


@given(st.lists(laws, min_size=2, max_size=4), st.data())
@settings(deadline=None, max_examples=30)
def test_features_given_their_total_are_conditioned_as_enumeration_has_it(several, data):
    total = data.draw(st.integers(0, sum(len(law) - 1 for law in several)))
    for found, expected in zip(given_totals(several, [total])[0], brute_force(several, total), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@given(laws, st.integers(1, 5), st.integers(0, 6), st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=40)
def test_padding_is_undone_as_enumeration_has_it(law, pad_to, noise, parties, data):
    padding = Padding(pad_to, noise)
    shares = [(s, e, r) for e, row in enumerate(padding.ranges(np.arange(len(law)))) for s, r in enumerate(row)]
    chances = np.zeros(max(r for *_, r in shares) + 1)
    for s, _, r in shares:
        chances[r] += law[s] / (noise + 1)
    total = sum(data.draw(st.sampled_from(np.flatnonzero(chances).tolist())) for _ in range(parties))
    rest = brute_force([chances] * parties, total)[0]
    expected = np.zeros(len(law))
    for s, _, r in shares:
        expected[s] += law[s] / (noise + 1) / chances[r] * rest[r]
    long = np.concatenate([law, np.zeros(total + len(chances))])
    np.testing.assert_allclose(range_law(long, padding)[: len(chances)], chances, atol=1e-12)
    found = normalised(size_posteriors([long], parties, [total], padding)[0])
    np.testing.assert_allclose(np.pad(found, (0, 9))[: len(law)], expected, atol=1e-9)


@given(st.lists(st.floats(0.05, 0.5), min_size=30, max_size=40))
@settings(deadline=None, max_examples=30)
def test_the_law_of_many_values_is_close_to_that_of_coins(chances):
    rows, coins = np.array([3.0]), [np.array([q, 1 - q]) for q in np.exp(-3.0 * np.array(chances))]
    exact_law = np.ones(1)
    for coin in coins:
        exact_law = np.convolve(exact_law, coin)
    mean, _, _ = moments(rows, np.array(chances), np.ones(len(chances)))
    values = np.arange(len(exact_law))
    variance = np.array([exact_law @ (values - exact_law @ values) ** 2])
    found = binomial_laws(mean, variance, len(exact_law))[0]
    assert mean[0] == pytest.approx(exact_law @ values)
    assert abs(found[1:] - exact_law[1:] / (1 - exact_law[0])).sum() < 0.12


@given(laws, st.floats(0.1, 0.99))
def test_an_interval_holds_its_level_and_no_shorter_one_does(law, level):
    found = interval(law, level)
    width = found.high - found.low + 1
    assert law[found.low : found.high + 1].sum() >= level - 1e-9
    assert width == 2 or all(law[i : i + width - 1].sum() < level for i in range(len(law)))
    assert width > 1


def test_one_number_alone_is_certain():
    assert interval(np.array([0.0, 1.0, 0.0])) == Interval(1, 1, 1)
    assert interval(np.array([0.01, 0.97, 0.02])) == Interval(1, 1, 2)


def test_the_number_of_unseen_values_is_chao_s_estimate():
    assert unseen_values(np.array([1, 1, 1, 1, 2, 2, 9])) == 2  # 4 * 3 / (2 * 3)
    assert unseen_values(np.array([5, 9])) == 0


def law_of(counts, rows, candidates=60, spread=0.3, length=400):
    """The law of another party's size, for one observer with so many rows, whatever the counts add up to."""
    return Occupancy(Known(float(np.sum(counts)), counts, candidates), worlds(np.array([rows]), spread)).laws(length)


def test_a_prior_sums_to_one_and_a_longer_table_is_expected_to_hold_more():
    counts = np.arange(1, 40)
    short, long = (law_of(counts, rows).overall for rows in (39.0, 780.0))
    assert short.sum() == pytest.approx(1)
    assert short @ np.arange(len(short)) < long @ np.arange(len(long))


def test_cells_of_several_sizes_hold_what_their_sizes_do():
    fine, coarse = (
        Occupancy(Known(780.0, np.arange(1, 40), None), worlds(np.array([780.0]), 1.0)).laws(n, step)
        for n, step in ((800, 1), (100, 8))
    )
    together = fine.overall.reshape(100, 8).sum(axis=1)
    assert abs(np.cumsum(together) - np.cumsum(coarse.overall)).max() < 0.03


def test_another_party_holds_as_many_identifiers_as_rows_and_no_more_memory_than_others():
    """One of a thousand rows has a thousand; that its column holds half a million others is no list of them."""
    law = law_of(np.ones(1000, np.int64), 1000.0, None, 0.1, 3000).overall
    assert np.cumsum(law)[900] < 0.5 < np.cumsum(law)[1100]


def test_observers_whose_tables_differ_expect_parties_that_differ():
    alike, unlike = (worlds(np.array(rows), 0.0) for rows in ([100.0, 110.0, 95.0], [20.0, 900.0, 100.0]))
    small = np.arange(len(alike.weights)) < len(alike.weights) // 2
    assert alike.weights[small].sum() > 2 * unlike.weights[small].sum()


@pytest.fixture(scope="module")
def ring():
    return run("uhe")


def test_the_second_party_learns_the_first_one_s_sizes_exactly(ring):
    found = exact(attack(ring, "P2"))
    assert {f: found["P1", f] for f in FEATURES} == {f: len(SETS["P1"][f]) for f in FEATURES}


def test_the_party_before_the_last_one_learns_the_last_one_s_sizes_exactly(ring):
    assert {f: exact(attack(ring, "P3"))["P4", f] for f in FEATURES} == {f: len(SETS["P4"][f]) for f in FEATURES}
    assert exact(attack(ring, "P1")) == {}


def test_neighbours_who_collude_learn_the_sizes_of_whoever_is_between_them(ring):
    assert exact(attack(ring, "P1", "P3"))["P2", "ward"] == 4
    assert ("P2", "ward") not in exact(attack(ring, "P1"))


@pytest.mark.parametrize("route", ["relay", "sealed"])
def test_a_relay_learns_everyone_s_sizes_unless_messages_are_sealed(route):
    found = run("uhe", ring_route=route)
    known = exact(attack(found, "server"))
    everything = {(p, f): found.size(p, f) for p in SETS for f in FEATURES}
    assert known == (everything if route == "relay" else {})


@every("encoder", ["uhe", "dh-psi", "otmp-psi"])
@every("observers", [("server",), ("P1",), ("P2",), ("P3",), ("P2", "P4"), ("P1", "server")])
def test_what_is_called_exact_is_true_and_intervals_are_consistent(encoder, observers):
    found = run(encoder)
    claims = attack(found, *observers)
    assert {p for p, _ in claims} == set(SETS) - set(observers)
    for (party, feature), claim in claims.items():
        truth = found.size(party, feature) if feature else sum(found.size(party, f) for f in FEATURES)
        assert claim.low <= claim.estimate <= claim.high
        assert claim.low < claim.high or claim.estimate == truth
        assert claim.evidence


@pytest.mark.parametrize("knowledge", [AuxiliaryKnowledge(), AuxiliaryKnowledge(dictionaries=EVERYTHING)])
def test_no_party_is_taken_to_hold_no_value_of_a_feature(knowledge):
    sets = {
        "P1": {"ward": ("burns", "surgery"), "diet": ("full",)},
        "P2": {"ward": ("surgery", "xray"), "diet": ("light",)},
        "P3": {"ward": ("dental",), "diet": ("light",)},
        "P4": {"ward": EVERYTHING["ward"], "diet": ("full", "none")},
    }
    found = run("dh-psi", sets)
    claims = {c.feature: c for c in RingSize().run(found.view("P1", "P2"), knowledge) if c.party == "P3"}
    assert {f: (c.low, c.high) for f, c in claims.items()} == {"": (2, 2), "ward": (1, 1), "diet": (1, 1)}


def test_a_request_s_length_tells_a_peer_and_a_relay_the_size_of_all_features_together():
    open_, sealed = run("dh-psi"), run("dh-psi", psi_route="sealed")
    totals = {p: sum(open_.size(p, f) for f in FEATURES) for p in SETS}
    for found, observer in ((open_, "server"), (sealed, "server"), (open_, "P3")):
        claims = attack(found, observer)
        assert {p: claims[p, ""].estimate for p in SETS if p != observer} == {
            p: n for p, n in totals.items() if p != observer
        }


@every("sizes", [(2, 3), (4, 4), (4, 7), (5, 8), (40, 300)])
def test_lengths_of_sealed_answers_tell_it_of_few_values_as_of_many(sizes):
    """The first of two parties only answers; headers of parts of up to 255 bytes are shorter than of others."""
    held = {f"P{i}": {"ward": [f"{v:03}" for v in range(n)], "diet": ["full"]} for i, n in enumerate(sizes, 1)}
    tables = {p: table(v, rows=400) for p, v in held.items()}
    found = run("dh-psi", tables=tables, psi_route="sealed", directions="upward")
    claims = attack(found, "server")
    assert {p: claims[p, ""].estimate for p in held} == {p: n + 1 for p, n in zip(held, sizes, strict=True)}


@every("kind", ["dh-psi.request", "dh-psi.answer"])
@every("observers", [("P2",), ("P3",), ("server",)])
def test_a_message_of_no_whole_number_of_elements_takes_nothing_from_what_the_others_tell(kind, observers):
    view = run("dh-psi").view(*observers)
    bad = next((m for m in view.messages if m.topic == kind and m.content is not None), None)
    assert bad is not None
    field = "points" if kind == "dh-psi.request" else "table"
    short = type(getattr(bad.payload, field))(getattr(bad.payload, field).value[:-1])
    cut = bad.carrying(replace(bad.payload, **{field: short}))
    left = replace(view, messages=tuple(m for m in view.messages if m is not bad))
    beside = replace(view, messages=tuple(cut if m is bad else m for m in view.messages))
    sizes, whole = (
        {(c.party, c.feature): (c.low, c.estimate, c.high) for c in RingSize().run(v, AuxiliaryKnowledge())}
        for v in (beside, left)
    )
    assert sizes.keys() >= {(p, f) for p in SETS if p not in observers for f in FEATURES}
    assert {k for k in whole if k[1]} == {k for k in sizes if k[1]}
    alone = RingSize().run(replace(view, messages=(cut,)), AuxiliaryKnowledge())
    assert isinstance(alone, NotApplicable)
    assert alone.contradicted


SEALED = {"uhe": {"ring_route": "sealed"}, "dh-psi": {"ring_route": "sealed", "psi_route": "sealed"}}
SEALED["otmp-psi"] = SEALED["dh-psi"]


@every("encoder", list(SEALED))
def test_sealed_messages_of_a_fixed_size_tell_a_relay_no_size_and_nothing_about_a_party(encoder):
    """With other tables whose dictionaries add up alike, the server's view is the same but for ciphertext."""
    plain, fixed = run(encoder, **SEALED[encoder]), run(encoder, **SEALED[encoder], sealed_bytes=20_000)
    lengths = [{m.size for m in f.view("server").messages if m.sealed} for f in (plain, fixed)]
    assert len(lengths[0]) > 1 or encoder == "uhe"  # the ring states small numbers: one byte each
    assert lengths[1] == {20_016}
    known = [attack(f, "server") for f in (plain, fixed)]
    assert bool({p for p, f in known[0] if not f}) is (encoder != "uhe")
    assert not {p for p, f in known[1] if not f}
    assert exact(known[1]) == {}
    assert len({(c.low, c.estimate, c.high) for (p, f), c in known[1].items() if f == "ward"}) == 1
    other = run(
        encoder, {p: SETS[q] for p, q in zip(SETS, reversed(SETS), strict=True)}, sealed_bytes=20_000, **SEALED[encoder]
    )
    assert headers(fixed.view("server")) == headers(other.view("server"))


def headers(view):
    """All that a relay has of messages that it cannot read, and all of the others."""
    return [(m.header(), m.size) for m in view.messages]


def test_a_peer_still_reads_how_many_values_another_has_from_what_it_opens():
    fixed = run("dh-psi", **SEALED["dh-psi"], sealed_bytes=20_000)
    assert attack(fixed, "P3")["P1", ""].estimate == sum(fixed.size("P1", f) for f in FEATURES)


def test_the_key_holder_learns_totals_and_another_party_does_not():
    found = run("otmp-psi")
    assert ("P3", "") in attack(found, "P1")
    assert ("P3", "") not in attack(found, "P2")


@pytest.mark.parametrize("options", [{"pad_to": 5}, {"noise": 7}, {"pad_to": 3, "noise": 4}])
@pytest.mark.parametrize("observers", [("P2",), ("P1", "P3"), ("P3",)])
def test_under_padding_the_interval_holds_the_truth(options, observers):
    found = run("uhe", **options)
    for (party, feature), claim in attack(found, *observers, level=0.999).items():
        assert claim.low <= found.size(party, feature) <= claim.high


def test_padding_hides_what_was_exact(ring):
    assert ("P1", "ward") in exact(attack(ring, "P2"))
    assert ("P1", "ward") not in exact(attack(run("uhe", pad_to=5), "P2"))


def test_padding_that_nobody_stated_is_noticed_and_nothing_is_claimed():
    found = run("uhe", pad_to=5)
    found.public = replace(found.public, encoder=Method())
    outcome = RingSize(pad_to=1, noise=0).run(found.view("P2"), KNOW_NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "pad_to" in outcome.reason
    assert isinstance(RingSize(pad_to=5, noise=0).run(found.view("P2"), KNOW_NOTHING), list)


@pytest.mark.parametrize("observer", ["server", "P2"])
@pytest.mark.parametrize("stated", [{}, {"pad_to": 1}, {"noise": 0}])
def test_where_nobody_says_how_ranges_are_padded_they_tell_nothing(observer, stated):
    """Of a transcript from elsewhere sizes were claimed as exact that were ranges, padded to five."""
    found = run("uhe", pad_to=5, ring_route="relay")
    found.public = replace(found.public, encoder=Method("uhe", {"ring": [], **stated}))
    outcome = RingSize().run(found.view(observer), KNOW_NOTHING)
    assert isinstance(outcome, Abstained)
    assert "set pad_to and noise" in outcome.reason


ALIKE = dict.fromkeys(SETS, SETS["P1"])


def test_numbers_that_parties_give_up_tell_the_server_where_their_ranges_end():
    """All hold the same: each but the first gives up its whole range, so that the server knows where it ends."""
    found = run("otmp-psi", ALIKE, unused="drop")
    known = attack(found, "server")
    assert set(exact(known)) == {(p, f) for p in ("P3", "P4") for f in FEATURES}
    for (party, feature), claim in known.items():
        size = found.size(party, feature)
        assert claim.low <= size <= claim.high
        assert claim.low < claim.high or claim.estimate == size
        assert any(m.topic == "ids.unused" for m in found.fed.ledger if m.sequence in claim.evidence)
    assert exact(attack(run("otmp-psi", ALIKE), "server")) == {}


@given(
    st.integers(0, 10**6), st.sampled_from([{}, {"pad_to": 3}, {"noise": 2}]), st.sampled_from([(), ("P1",), ("P2",)])
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_sizes_that_follow_from_numbers_given_up_are_true(seed, padding, beside):
    coins = np.random.default_rng(seed)
    values = {f: [f"{f}{i}" for i in range(4)] for f in FEATURES}
    sets = {
        p: {f: coins.choice(v, coins.integers(1, 5), replace=False).tolist() for f, v in values.items()} for p in SETS
    }
    found = run("otmp-psi", sets, seed=seed, unused="drop", **padding)
    for (party, feature), claim in attack(found, "server", *beside).items():
        if feature and claim.low == claim.high:
            assert claim.estimate == found.size(party, feature)


OWN_VALUES = {"P1": 2, "P2": 1, "P3": 3}  # of each feature, which none of the others has but the last one


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("dh-psi", {}),
        ("dh-psi", {"directions": "upward"}),
        ("dh-psi", {"unused": "drop"}),
        ("apsi", {}),
        ("otmp-psi", {}),
    ],
)
def test_labels_of_shared_values_tell_whoever_holds_them_where_the_ranges_of_the_others_end(encoder, options):
    if encoder == "apsi":
        pytest.importorskip("tenseal")
    values = {p: {f: [f"{f} of {p}, {i}" for i in range(n)] for f in FEATURES} for p, n in OWN_VALUES.items()}
    values["P4"] = {f: [v for own in values.values() for v in own[f]] for f in FEATURES}
    found = run(encoder, values, **options)
    known = attack(found, "P4")
    assert exact(known) == {(p, f): n for p, n in OWN_VALUES.items() for f in FEATURES}
    topics = {m.topic for m in found.fed.ledger if m.sequence in known["P2", FEATURES[0]].evidence}
    assert any(t.startswith(encoder.removesuffix("-psi")) for t in topics)
    assert exact(attack(run("uhe", values), "P4")) == {}


@given(
    st.integers(0, 10**6),
    st.sampled_from([{}, {"pad_to": 3}, {"noise": 2}, {"unused": "drop"}, {"directions": "upward"}]),
    st.sampled_from([("P1",), ("P3",), ("P4",), ("P1", "P3"), ("server", "P2")]),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_sizes_that_follow_from_labels_are_true(seed, options, observers):
    coins = np.random.default_rng(seed)
    values = {f: [f"{f}{i}" for i in range(6)] for f in FEATURES}
    sets = {
        p: {f: coins.choice(v, coins.integers(1, 7), replace=False).tolist() for f, v in values.items()} for p in SETS
    }
    found = run("dh-psi", sets, seed=seed, **options)
    for (party, feature), claim in attack(found, *observers).items():
        if feature and claim.low == claim.high:
            assert claim.estimate == found.size(party, feature)


def test_labels_of_somebody_outside_of_the_ring_are_left_out():
    view = run("dh-psi").view("P4")
    names = {"P2": "P9"}
    messages = [
        replace(m, sender=names.get(m.sender, m.sender), recipient=names.get(m.recipient, m.recipient))
        if m.topic.startswith("dh-psi")
        else m
        for m in view.messages
    ]
    claims = RingSize().run(replace(view, messages=tuple(messages)), KNOW_NOTHING)
    assert {c.party for c in claims if c.feature} == {"P1", "P2", "P3"}


def test_numbers_given_up_outside_of_the_range_are_refused():
    view = run("otmp-psi", ALIKE, unused="drop").view("server")
    numbers = {f: np.arange(9, dtype=np.int64) for f in FEATURES}
    for change in (with_payload(numbers), lambda m: replace(m, sender="P9")):
        outcome = RingSize().run(changed(view, "ids.unused", change), KNOW_NOTHING)
        assert isinstance(outcome, NotApplicable)
        assert "ids.unused" in outcome.reason


@every("parties", [2, 3, 6])
@every("spread", [0.0, 1.0, 2.0])
def test_intervals_hold_for_a_server_without_rows_however_unlike_parties_are(parties, spread):
    """Taken as alike, parties of log-sd 1 were held by 5 to 46 % of the intervals."""
    coins = np.random.default_rng(parties)
    held, prior = [], Prior({}, KNOW_NOTHING, ("ward",), 0.0)
    for _ in range(60):
        sizes = np.maximum(np.rint(60 * np.exp(spread * coins.normal(size=parties))), 1).astype(int)
        found = interval(prior.posteriors(parties, [int(sizes.sum())], Padding())[0])
        held += [found.low <= size <= found.high for size in sizes]
    assert np.mean(held) >= 0.83


def test_a_server_without_rows_estimates_the_mean():
    found = run("uhe")
    for claim in attack(found, "server").values():
        mean = np.mean([found.size(p, claim.feature) for p in SETS])
        assert abs(claim.estimate - mean) <= 0.5
        assert claim.low < claim.estimate < claim.high


def test_a_sum_that_the_stated_padding_cannot_have_is_refused():
    found = run("uhe", pad_to=5)
    found.public = replace(found.public, encoder=Method("uhe", {"ring": [], "pad_to": 7, "noise": 0}))
    outcome = RingSize().run(found.view("server"), KNOW_NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "options of the ring" in outcome.reason


def test_the_sum_that_mod_norm_announces_gives_two_colluders_the_third_s_size():
    sets = {p: SETS[p] for p in ("P1", "P2", "P3")}
    found = run("mod-norm", sets)
    assert exact(attack(found, "P1", "P2")) == {("P3", f): found.size("P3", f) for f in FEATURES}
    assert exact(attack(found, "P1")) == {}


@pytest.mark.parametrize(
    ("encoder", "stated"), [("mod-norm", "modulus"), ("uhe", "number"), ("dh-psi", "number"), ("apsi", "number")]
)
def test_a_message_of_no_categorical_feature_tells_no_size(encoder, stated):
    numbers = replace(SCHEMA, categorical=())
    tables = {p: replace(table(SETS[p]), schema=numbers) for p in ("P1", "P2", "P3")}
    outcome = RingSize().run(run(encoder, tables=tables, schema=numbers).view("P1"), KNOW_NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert f"states no {stated}: no feature is categorical" in outcome.reason


def test_the_largest_size_is_the_other_s_where_it_is_not_the_own_of_two():
    found = run("local", {p: SETS[p] for p in ("P1", "P3")})
    claims = exact(attack(found, "P1"))
    assert claims == {("P3", "ward"): 5, ("P3", "diet"): 3}
    assert ("P1", "ward") not in exact(attack(found, "P3"))


def test_a_ring_in_another_order_is_read_from_its_edges_or_refused():
    order = ("P3", "P1", "P4", "P2")
    found = run("uhe", ring=order, ring_route="relay")
    found.public = replace(found.public, encoder=UNPADDED)
    assert exact(attack(found, "server"))["P4", "ward"] == 2
    found.public = replace(found.public, encoder=Method("uhe", {"ring": [], **UNPADDED.options}))
    assert isinstance(RingSize().run(found.view("P1"), KNOW_NOTHING), NotApplicable)
    assert exact(attack(found, "P1", ring=order))["P3", "ward"] == 5


SIX = {**SETS, "P5": {"ward": ("burns", "lab"), "diet": ("full",)}, "P6": {"ward": ("ent",), "diet": ("soft", "none")}}
SEVEN = {**SIX, "P7": {"ward": ("burns", "ent", "xray"), "diet": ("full", "soft")}}
ORDER = ("P4", "P1", "P6", "P3", "P7", "P2", "P5")


@pytest.fixture(scope="module", params=[{}, {"pad_to": 2, "noise": 1}])
def secret_ring(request):
    """A ring of seven parties whose order is not among the public facts."""
    found = run("uhe", SEVEN, ring=ORDER, **request.param)
    found.public = replace(found.public, encoder=Method("", request.param))
    return found


def by_enumeration(found, observers, padding, spread=1.0):
    """The posterior of every size, over all orders that the observers' own messages allow, each with one chance."""
    view = found.view(*observers)
    prior = Prior(own_counts(view), KNOW_NOTHING, FEATURES, spread)
    seen, mixed = Counter(), defaultdict(lambda: np.zeros(200))
    for order in ((ORDER[0], *rest) for rest in permutations(ORDER[1:])):  # who is first is told to all
        try:
            bounds = read_ring(view, order)
        except Unreadable:
            continue
        if bounds.ring != order:
            continue
        known = of_boundaries(bounds).stretches
        seen[order] = 1
        try:
            laws = [prior.weighed(len(s.known), s.sums, padding) for s in known]
        except Impossible:  # more parties than values
            continue
        chance = np.exp(sum(log for _, log in laws))
        for stretch, (each, _) in zip(known, laws, strict=True):
            for party, (k, feature) in product(stretch.known, enumerate(FEATURES)):
                mixed[party, feature][: len(each[k])] += chance * each[k]
    assert len(seen) > 1
    return {key: law / law.sum() for key, law in mixed.items() if key[0] not in observers}


@every("observers", [("P6",), ("P4",), ("P5",), ("P1",), ("P1", "P2"), ("P4", "P7")])
def test_an_order_that_nobody_stated_is_averaged_over_as_enumeration_has_it(secret_ring, observers):
    options = secret_ring.public.encoder.options
    padding = Padding(options.get("pad_to", 1), options.get("noise", 0))
    view = secret_ring.view(*observers)
    expected = by_enumeration(secret_ring, observers, padding)
    laws, evidence = sizes_of(
        of_edges(view), Prior(own_counts(view), KNOW_NOTHING, FEATURES, 1.0), padding, view.observers
    )
    assert laws.keys() == expected.keys()
    for key, law in laws.items():
        np.testing.assert_allclose(np.pad(law, (0, 200 - len(law))), expected[key], atol=1e-9)
        assert evidence[key[0]]


def test_without_a_public_order_only_the_second_party_still_knows_a_size():
    secret_ring = run("uhe", SEVEN, ring=ORDER)
    secret_ring.public = replace(secret_ring.public, encoder=UNPADDED)
    sizes = {(p, f): secret_ring.size(p, f) for p in SEVEN for f in FEATURES}
    known = {p: exact(attack(secret_ring, p)) for p in SEVEN}
    assert known["P1"] == {("P4", f): sizes["P4", f] for f in FEATURES}
    assert known["P2"] == {("P5", f): sizes["P5", f] for f in FEATURES}  # one diet behind it is one party's
    assert exact(attack(secret_ring, "P2", ring=ORDER)) == {("P5", f): sizes["P5", f] for f in FEATURES}
    assert {p for p, _ in exact(attack(secret_ring, "P1", "P3"))} == {"P4", "P6"}
    two = run("uhe", {**SEVEN, "P5": {**SEVEN["P5"], "diet": ("full", "none")}}, ring=ORDER)
    two.public = replace(two.public, encoder=UNPADDED)
    assert not exact(attack(two, "P2"))  # the last but one cannot tell that it is


def test_the_order_of_the_clients_is_not_taken_for_the_ring_s_where_nobody_said_so():
    found = run("uhe", SEVEN)
    assert {p for p, _ in exact(attack(found, "P6"))} == {"P7"}
    found.public = replace(found.public, encoder=UNPADDED)
    assert exact(attack(found, "P6")) == {}
    assert {p for p, _ in exact(attack(found, "P2"))} == {"P1"}


def test_a_server_that_is_told_the_sum_alone_needs_no_order():
    found = run("uhe", SEVEN, ring=ORDER)
    known = RingSize().run(found.view("server"), KNOW_NOTHING)
    found.public = replace(found.public, encoder=UNPADDED)
    assert {(c.party, c.feature, c.low, c.high) for c in RingSize().run(found.view("server"), KNOW_NOTHING)} == {
        (c.party, c.feature, c.low, c.high) for c in known
    }


def test_neighbours_settle_the_order_of_four():
    found = run("uhe")
    known = exact(attack(found, "P3"))
    found.public = replace(found.public, encoder=UNPADDED)
    assert exact(attack(found, "P3")) == known != {}


@every(
    "change",
    [
        with_payload({"ward": 99, "diet": 99}),
        lambda m: replace(m, recipient=m.sender),
        lambda m: replace(m, sender="nobody"),
        lambda m: replace(m, body=m.body[:-2], content=m.content[:-2]),
    ],
)
@every("observer", ["P1", "P2", "P6"])
def test_a_broken_message_of_a_ring_without_order_is_refused_with_a_reason(change, observer):
    found = run("uhe", SEVEN, ring=ORDER)
    found.public = replace(found.public, encoder=UNPADDED)
    assert refusal(changed(found.view(observer), "ring.highest", change))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, body=m.body[:-2], content=m.content[:-2]),
        with_payload([1, 2]),
        with_payload({"ward": -7, "diet": 1}),
        with_payload({"ward": 2}),
        with_payload({"ward": 99, "diet": 99}),
        lambda m: replace(m, recipient="P4"),
        lambda m: replace(m, sender="nobody"),
    ],
)
def test_a_broken_ring_message_is_refused_with_a_reason(ring, change):
    assert refusal(changed(ring.view("P2"), "ring.highest", change))


def refusal(view):
    """Why nothing is made of the view: of a message that is none of its kind, or of messages that do not fit."""
    try:
        outcome = RingSize().run(view, KNOW_NOTHING)
    except MalformedMessage as error:
        return str(error)
    assert isinstance(outcome, NotApplicable)
    return outcome.reason


def test_highest_numbers_that_fall_along_the_ring_are_refused():
    view = changed(
        run("uhe", ring_route="relay").view("server"), "ring.highest", with_payload({"ward": 50, "diet": 50})
    )
    outcome = RingSize().run(view, KNOW_NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "fall" in outcome.reason


def test_the_sum_over_features_ties_their_sizes_together():
    found = run("dh-psi")
    claims = attack(found, "P1", level=0.5)
    for party in ("P2", "P3", "P4"):
        assert claims[party, "ward"].estimate + claims[party, "diet"].estimate == claims[party, ""].estimate


@given(laws, st.integers(1, 3), st.booleans())
@settings(deadline=None, max_examples=30)
def test_sizes_whose_largest_is_known_are_conditioned_as_enumeration_has_it(law, parties, reached):
    most = len(law) - 1
    expected = np.zeros(len(law))
    for values in product(range(len(law)), repeat=parties):
        if reached or max(values) == most:
            expected[values[0]] += np.prod(law[list(values)])
    np.testing.assert_allclose(given_largest(law, parties, most, reached), expected / expected.sum(), atol=1e-12)


def test_without_own_rows_the_second_party_still_reads_the_first_and_estimates_the_others(ring):
    claims = {(c.party, c.feature): c for c in RingSize().run(replace(ring.view("P2"), inputs={}), KNOW_NOTHING)}
    assert claims["P1", "ward"].low == claims["P1", "ward"].high == 3
    assert claims["P3", "ward"].low < claims["P3", "ward"].high


def test_an_empty_view_does_not_apply(ring):
    assert isinstance(RingSize().run(replace(ring.view("P2"), messages=()), KNOW_NOTHING), NotApplicable)


def test_all_clients_together_have_nothing_to_find_out(ring):
    assert isinstance(RingSize().run(ring.view(*SETS), KNOW_NOTHING), Abstained)


def test_the_same_view_gives_the_same_claims(ring):
    views = [ring.view(*pair) for pair in combinations(SETS, 2)]
    assert repr([RingSize().run(v, KNOW_NOTHING) for v in views]) == repr(
        [RingSize().run(v, KNOW_NOTHING) for v in views]
    )


@pytest.mark.parametrize("scaler", ["federated-zscore", "federated-minmax"])
def test_statistics_of_all_columns_tell_the_server_every_size(scaler):
    found = run("uhe", scaler=SCALERS[scaler](columns="all"))
    everything = {(p, f): found.size(p, f) for p in SETS for f in FEATURES}
    assert exact(attack(found, "server")) == everything


def test_zero_columns_of_a_gradient_bound_a_size_from_below(ring):
    spec = ModelSpec(ring.public.layout.width, 2, (16,))
    rows = torch.tensor(ring.inputs["P3"]["encoded"][:2], dtype=torch.float32)
    weights = as_tensors(initial_weights(spec, np.random.default_rng(0)))
    body = encode({"rows": 2, "gradient": as_arrays(gradient(spec, weights, rows, torch.tensor([0, 1])))})
    view = ring.view("server")
    sent = Message(99, "train", 0, "train.gradient", "P3", "server", None, False, body, body)
    before, after = (
        {(c.party, c.feature): c for c in RingSize(level=0.99).run(v, KNOW_NOTHING)}
        for v in (view, replace(view, messages=(*view.messages, sent)))
    )
    assert after["P3", "ward"].low == max(before["P3", "ward"].low, 2)
    assert 99 in after["P3", "ward"].evidence
    ward = next(b for b in ring.public.layout.categorical if b.feature == "ward")
    used = ring.inputs["P3"]["encoded"][:2, ward.start : ward.start + ward.size].any(0)
    assert after["P2", "ward"].high == used.argmax() < before["P2", "ward"].high  # P1 and P2 have what comes before
    assert after["P2", "ward"].low == before["P2", "ward"].low


def test_a_bound_that_contradicts_what_else_is_known_makes_nothing_certain(ring, monkeypatch):
    told = attack(ring, "P2")["P1", "ward"].estimate
    bound = ("P1", "ward", told + 1, told + 3, False, {99})
    monkeypatch.setattr("leakledger.attacks.transcript.ring_size.ring_size.active_columns", lambda view: [bound])
    claim = attack(ring, "P2")["P1", "ward"]
    assert claim.low < claim.high


@pytest.mark.parametrize("buckets", [60, 5000])
def test_buckets_of_a_hash_are_not_taken_for_numbers_of_values(buckets):
    found = run("rolling-hash", scaler=SCALERS["federated-zscore"](columns="all"), buckets=buckets)
    assert isinstance(RingSize().run(found.view("server"), KNOW_NOTHING), NotApplicable | Abstained)


def trained(encoder, seed, training=None, parties=3, observer="server", **options):
    """(claims of the observer by party and feature, their true numbers) after three batches of eight rows of each, or
    other `training`.
    """
    whole = truth(
        data={"source": "fair", "rows": 300},
        partition={"kind": "dirichlet-quantity", "beta": 2.0, "parties": parties},
        preprocessing=[{"encoder": encoder, "scaler": "local", **options}],
        training=training or {"rounds": 3, "batch_size": 8},
        audit={"seeds": [seed]},
    )
    found = RingSize().run(view_of([observer], whole), KNOW_NOTHING)
    assert isinstance(found, list)
    claims = {(c.party, c.feature): c for c in found if c.feature}
    return claims, {key: whole.statistic(*key, "size") for key in claims}


@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_single_batches_use_bound_the_ranges_of_the_ring(seed):
    claims, true = trained("uhe", seed)
    assert len(claims) == 3 * 5
    assert all(c.low <= true[key] <= c.high for key, c in claims.items())
    assert np.mean([c.high - c.low for c in claims.values()]) < 1.5
    assert np.mean([c.low == c.high for c in claims.values()]) > 0.3


def test_what_a_few_rows_of_the_other_client_use_is_the_least_and_no_estimate_of_what_it_holds():
    few = {"rounds": 3, "batch_size": 2}
    told = [trained("server-dictionary", seed, few, parties=2, observer="P1") for seed in range(4)]
    unsure = [(c, true[key]) for claims, true in told for key, c in claims.items() if c.low < c.high]
    assert len(unsure) >= 10
    assert np.mean([c.low <= size <= c.high for c, size in unsure]) >= 0.8


def test_batches_of_one_row_show_a_value_of_the_other_client_each_and_nothing_for_certain_that_is_not_so():
    single = {"rounds": 10, "batch_size": 1}
    told = [trained("server-dictionary", seed, single, parties=2, observer="P1") for seed in range(8)]
    found = [(c, true[key]) for claims, true in told for key, c in claims.items()]
    assert len(found) == 8 * 5
    assert np.mean([c.low <= size <= c.high for c, size in found]) >= 0.85
    assert all(c.low == size for c, size in found if c.low == c.high)
    assert np.mean([c.low > 1 for c, _ in found]) > 0.5


def test_of_a_bound_alone_every_size_above_is_alike_to_who_has_no_rows():
    assert at_least(2, 4, Prior({}, KNOW_NOTHING, ("ward",), 0.0), "ward").tolist() == [0, 0, 1 / 3, 1 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("encoder", "options"),
    [("uhe", {"pad_to": 4}), ("uhe", {"noise": 3}), ("dh-psi", {}), ("dh-psi", {"unused": "drop"})],
)
def test_what_batches_use_of_padded_or_shared_numbers_claims_nothing_for_certain_that_is_not_so(encoder, options):
    claims, true = trained(encoder, 0, **options)
    assert all(c.low <= true[key] <= c.high for key, c in claims.items() if c.low == c.high)
    assert np.mean([c.low <= true[key] <= c.high for key, c in claims.items()]) >= 0.9


MASKED = {"aggregation": "secure-aggregation", "threshold": 2, "participation": 0.67, "rounds": 8, "batch_size": 8}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("algorithm", "widest"), [("fedavg", 0.5), ("fedsgd", 3.0)])
def test_sums_over_other_clients_in_each_round_tell_whose_numbers_are_whose(algorithm, widest, seed):
    claims, true = trained("uhe", seed, {**MASKED, "algorithm": algorithm})
    assert all(c.low <= true[key] <= c.high for key, c in claims.items())
    assert np.mean([c.high - c.low for c in claims.values()]) < widest
    everyone, _ = trained("uhe", seed, {**MASKED, "algorithm": algorithm, "participation": 1.0})
    assert np.mean([c.high - c.low for c in everyone.values()]) > 5


def test_columns_that_do_not_fit_the_ring_are_left_out_of_it():
    whole = truth(
        data={"source": "fair", "rows": 120},
        partition={"kind": "iid", "parties": 3},
        preprocessing=[{"encoder": "uhe", "scaler": "local"}],
        training={"rounds": 1, "batch_size": 8},
    )
    view = view_of(["server"], whole)
    others = {"P1": "P3", "P3": "P1"}
    swapped = tuple(
        replace(m, sender=others.get(m.sender, m.sender)) if m.topic == "train.gradient" else m for m in view.messages
    )
    found = RingSize().run(replace(view, messages=swapped), KNOW_NOTHING)
    assert isinstance(found, list)
    assert len(found) == 3 * 5
