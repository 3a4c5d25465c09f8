from hashlib import sha512

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto import labelled_psi as psi
from leakledger.preprocess.crypto.bfv import PLAIN_MODULUS
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.secret import KeyStream, pinned

T = PLAIN_MODULUS


def source(seed=0):
    return Randomness(KeyStream(pinned(seed)))


def item(name, bins=psi.BINS_PER_ROW):
    return psi.item_of(sha512(str(name).encode()).digest(), bins)


def at(coefficients, y):
    """(bundles, rows, degree + 1, SLOTS) polynomials at (rows, SLOTS)."""
    powers = np.stack([psi.power(y, k) for k in range(coefficients.shape[2])], axis=1)
    return (coefficients * powers % T).sum(2) % T


def intersect(mine, theirs, plan, seed=0):
    """The intersection without encryption: {element: label}."""
    items = [item(x, plan.bins) for x in mine]
    held = psi.cuckoo(items)
    y = psi.query_slots(items, held, plan, source(seed))
    roots, labels = psi.polynomials({item(x, plan.bins): n for x, n in theirs.items()}, plan, source(seed + 1))
    found = psi.read_labels(items, held, at(roots, y), at(labels, y))
    return {mine[k]: n for k, n in found.items()}


@settings(max_examples=10)
@given(
    st.lists(st.integers(0, 60), max_size=40, unique=True),
    st.dictionaries(st.integers(0, 60), st.integers(0, 2**64 - 1), max_size=40),
)
def test_the_polynomials_give_exactly_the_labels_of_shared_elements(mine, theirs):
    assert intersect(mine, theirs, psi.plan_for(60, 60)) == {x: n for x, n in theirs.items() if x in mine}


@pytest.mark.parametrize(
    "plan", [psi.Plan(2, 2, 9), psi.Plan(3, 26, 1), psi.Plan(2, psi.LONGEST, 1), psi.plan_for(900, 4000)], ids=str
)
def test_every_degree_and_many_rows_and_bundles_work_alike(plan):
    mine, theirs = range(900), {x: x * x for x in range(450, 1350)}
    assert intersect(mine, theirs, plan) == {x: x * x for x in range(450, 900)}


def test_answers_look_random_but_at_shared_bins():
    plan = psi.plan_for(100, 100)
    y = psi.query_slots([], {}, plan, source(1))
    one, other = (psi.polynomials({item(x): x for x in range(100)}, plan, source(s)) for s in (2, 3))
    for a, b in zip(one, other, strict=True):
        assert (at(a, y) == at(b, y)).mean() < 1e-3
    empty = psi.polynomials({}, plan, source(2))
    for a in (*one, *empty):
        assert (a == 0).mean() < 1e-4  # no slot shows by zero coefficients that its bin is free
        values = at(a, y) / T
        assert abs(values.mean() - 0.5) < 0.01
        assert abs(values.std() - 12**-0.5) < 0.01


def test_the_receivers_size_makes_the_rows_and_the_senders_what_a_bin_holds():
    for asked, rows in ((0, 1), (614, 1), (615, 2), (10_000, 17)):
        plans = [psi.plan_for(asked, bound) for bound in (0, 10, 1000, 10_000)]
        assert {p.rows for p in plans} == {rows}
        held = [p.degree * p.bundles for p in plans]
        assert held == sorted(held)
        assert held[0] < held[-1]
        assert all(p.bins * psi.FILLING >= asked for p in plans)


def test_no_degree_makes_query_and_answer_shorter_than_the_plans():
    plan = psi.plan_for(100, 900)
    assert (plan.degree, plan.bundles, plan.ciphertexts) == (6, 4, 14)
    held = plan.degree * plan.bundles
    others = [psi.Plan(1, d, -(-held // d)) for d in range(1, psi.LONGEST + 1)]
    assert min(p.ciphertexts for p in others) >= plan.ciphertexts


@given(st.integers(0, 99))
def test_cuckoo_hashing_places_each_item_in_one_of_its_bins(seed):
    items = [item((seed, k), 24) for k in range(16)]
    held = psi.cuckoo(items)
    assert sorted(held.values()) == list(range(16))
    assert all(place in items[k].bins for place, k in held.items())


def test_items_that_fit_no_bins_are_an_error():
    crowd = [psi.Item((k, 0, 0, 0), (1, 2, 3), b"") for k in range(4)]
    assert sorted(psi.cuckoo(crowd[:3])) == [1, 2, 3]
    with pytest.raises(ValueError, match="4 items do not fit their bins"):
        psi.cuckoo(crowd)


def test_a_bin_that_overflows_its_bundles_is_an_error():
    crowd = {psi.Item((k, k, k, k), (1,), bytes(psi.LABEL_BYTES)): k for k in range(5)}
    with pytest.raises(ValueError, match="a bin overflows its 2 bundles"):
        psi.polynomials(crowd, psi.Plan(1, 2, 2), source())


def test_items_of_a_bin_with_a_number_in_common_go_to_different_bundles():
    pair = {psi.Item((7, k, k, k), (1,), bytes(psi.LABEL_BYTES)): k for k in (1, 2)}
    plan = psi.Plan(1, 4, 2)
    items = list(pair)
    roots, labels = psi.polynomials(pair, plan, source())
    for k, own in enumerate(items):
        y = psi.query_slots([own], {1: 0}, plan, source())
        assert psi.read_labels([own], {1: 0}, at(roots, y), at(labels, y)) == {0: pair[items[k]]}


@pytest.mark.parametrize("others", [0, 2700])
def test_the_bundle_of_a_shared_item_does_not_tell_how_many_others_the_sender_has(others):
    plan = psi.plan_for(200, 3000)
    items = [item(x, plan.bins) for x in range(200)]
    held = psi.cuckoo(items)
    y = psi.query_slots(items, held, plan, source())
    roots, _ = psi.polynomials({item(x, plan.bins): x for x in range(200 + others)}, plan, source(1))
    shared = (at(roots, y).reshape(plan.bundles, -1, psi.FELTS) == 0).all(2)[:, list(held)]
    each = 200 / plan.bundles
    assert shared.sum() == 200
    assert (np.abs(shared.sum(1) - each) < 5 * np.sqrt(each)).all()  # beyond that by chance: once in 10^6


def test_a_root_without_its_label_is_refused():
    own = item("a")
    roots, labels = np.ones((2, 1, 1, psi.SLOTS), np.int64)
    place = own.bins[0]
    roots[0, 0, 4 * place : 4 * place + 4] = 0
    with pytest.raises(MessageError, match="a label is not the sender's for this element"):
        psi.read_labels([own], {place: 0}, roots, labels)
    with pytest.raises(MessageError, match="a label is no number that a sender can have"):
        psi.read_labels([own], {place: 0}, roots, labels * (T - 1))
