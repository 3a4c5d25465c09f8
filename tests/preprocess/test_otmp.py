from collections import Counter
from hashlib import sha512
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.field import P
from leakledger.preprocess.crypto.otmp import Bins, _coefficients, bins_for, check_shares, matches, place
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.shamir import share
from leakledger.preprocess.secret import KeyStream, pinned


def keyed(elements):
    return [sha512(b"key" + x).digest() for x in elements]


def placed(elements, x, bins, threshold=2, seed=0):
    return place(elements, keyed(elements), x, bins, threshold, Randomness(KeyStream(pinned(seed, x))))


sets = st.lists(st.sets(st.integers(0, 12).map(str).map(str.encode), max_size=10).map(sorted), min_size=3, max_size=4)


@settings(max_examples=25)
@given(sets, st.integers(2, 3))
def test_positions_match_exactly_where_t_parties_hold_one_element(parties, threshold):
    bins = bins_for(30, len(parties))
    held = {x: placed(own, x, bins, threshold) for x, own in enumerate(parties, 1)}
    found = matches({x: p.shares for x, p in held.items()}, threshold)
    for points in combinations(held, threshold):
        elements = [
            [held[x].positions[row[0], slot] for x, slot in zip(points, row[1:], strict=True)]
            for row in found[points].tolist()
        ]
        shared = set.intersection(*(set(parties[x - 1]) for x in points))
        assert sorted(elements) == sorted([e] * threshold for e in shared)


@pytest.mark.parametrize("threshold", [2, 3])
def test_a_party_with_the_reconstructor_finds_all_holders_of_its_elements_whatever_the_threshold(threshold):
    """As the module states: it knows the polynomials of its elements, thus the share that each other holder has."""
    bins = bins_for(30, 3)
    sets = {1: [b"mine", b"ours"], 2: [b"ours", b"theirs"], 3: [b"theirs"]}
    told = {x: placed(own, x, bins, threshold).shares for x, own in sets.items()}
    at_two = {e: share(np.zeros(1, np.uint64), _coefficients_of(e, threshold), 2)[0] for e in sets[1]}
    assert [e for e, number in at_two.items() if number in told[2]] == [b"ours"]
    matched = matches(told, threshold)
    assert [len(rows) for points, rows in matched.items() if {1, 2} <= set(points)] == [threshold == 2]


def _coefficients_of(element, threshold):
    return [_coefficients(keyed([element]), k) for k in range(threshold - 1)]


def test_bins_are_equally_full_whatever_they_hold_and_slots_follow_the_coins():
    bins = bins_for(40, 2)
    full, empty = (placed(own, 1, bins).shares for own in ([str(i).encode() for i in range(40)], []))
    assert full.shape == empty.shape == (bins.count, bins.capacity)
    assert len(np.unique(full)) == full.size
    one, other = (placed([b"a"], 1, bins, seed=s).positions for s in range(2))
    assert {home for home, _ in one} == {home for home, _ in other}
    slots = Counter(slot for s in range(200) for _, slot in placed([b"a"], 1, Bins(1, 4), seed=s).positions)
    assert sorted(slots) == [0, 1, 2, 3]
    assert min(slots.values()) > 20


@pytest.mark.parametrize(("bound", "parties"), [(0, 2), (1, 2), (8, 4), (1000, 10), (20000, 10)])
def test_bins_hold_every_set_within_the_bound(bound, parties):
    bins = bins_for(bound, parties)
    assert bins.count * 8 >= bound
    assert bins.capacity <= max(bound, 1)
    load = np.bincount(np.random.default_rng(0).integers(0, bins.count, bound), minlength=1)
    assert load.max() <= bins.capacity


def test_a_bin_that_overflows_is_an_error():
    with pytest.raises(ValueError, match="a bin of 1 overflows"):
        placed([b"a", b"b"], 1, Bins(1, 1))


@pytest.mark.parametrize(
    "bad", [None, np.zeros((2, 3)), np.zeros((3, 2), np.uint64), np.full((2, 3), P, np.uint64), [[1, 2, 3]] * 2]
)
def test_shares_of_another_shape_type_or_range_are_refused(bad):
    with pytest.raises(MessageError):
        check_shares(bad, Bins(2, 3))
