import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.exact.candidates import Settled, find_candidates, meet_in_the_middle
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

LAYOUT = FeatureLayout(
    (
        CategoricalBlock("job", 0, 5, shift=(0.1, 0.2, 0.3, 0.2, 0.2), scale=(0.3, 0.4, 0.5, 0.4, 0.4)),
        NumericBlock("age", 5),
        CategoricalBlock("city", 6, 4),
        CategoricalBlock("grade", 10, 3, codes=np.array([[0.0], [1.0], [2.0]]), shift=(1.0,), scale=(0.8,)),
        NumericBlock("score", 11),
    )
)


def batch(categories, seed=0):
    """An orthonormal basis (r, d+1) of rows with these categories, and the rows [x | 1]."""
    numbers = np.random.default_rng(seed).normal(size=(len(categories), 2))
    codes = [b.codebook()[c] for b, c in zip(LAYOUT.categorical, np.array(categories).T, strict=True)]
    rows = np.hstack([codes[0], numbers[:, :1], codes[1], codes[2], numbers[:, 1:], np.ones((len(categories), 1))])
    return np.linalg.svd(rows, full_matrices=False)[2], rows


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=5))
def test_every_row_of_the_batch_is_a_candidate_at_its_own_coordinates(categories):
    categories = sorted(categories)
    right, rows = batch(categories)
    candidates = find_candidates(LAYOUT, right, 1e-6, 10**6, 10**4)
    for picks, row in zip(categories, rows, strict=True):
        (at,) = np.flatnonzero((candidates.categories == picks).all(1))
        off = candidates.origin[at] - row @ right.T
        shift = np.linalg.lstsq(candidates.open.T, off, rcond=None)[0]
        assert np.allclose(off, shift @ candidates.open, atol=1e-6)


def test_a_category_that_does_not_occur_is_in_no_candidate():
    right, _ = batch([(0, 0, 0), (1, 1, 1), (2, 1, 2)])
    candidates = find_candidates(LAYOUT, right, 1e-6, 10**6, 10**4)
    assert set(candidates.categories[:, 0]) <= {0, 1, 2}
    assert set(candidates.categories[:, 1]) <= {0, 1}


@pytest.mark.parametrize("layout", [LAYOUT, FeatureLayout((NumericBlock("age", 0), NumericBlock("score", 1)))])
def test_an_empty_row_space_has_no_candidates(layout):
    found = find_candidates(layout, np.zeros((0, layout.width + 1)), 1e-6, 10**6, 10**4)
    assert found == "no direction of the first layer's row space stands out from rounding and noise"


NUMBERS = FeatureLayout((NumericBlock("age", 0), NumericBlock("score", 1)))


@pytest.mark.parametrize(
    ("layout", "right", "precision"),
    [(LAYOUT, batch([(0, 0, 0), (1, 1, 1)])[0], 1.0), (NUMBERS, np.array([[1.0, 0.0, 0.0]]), 1e-7)],
)
def test_a_row_space_of_which_nothing_stands_out_has_no_candidates_and_no_warning(layout, right, precision):
    """The precision of what categories settle was divided by the last singular value: 0."""
    found = find_candidates(layout, right, 1e-6, 10**6, 10**4, precision=precision)
    assert found == "no direction of the first layer's row space stands out from rounding and noise"


def test_rows_that_agree_in_every_category_leave_their_difference_open_and_others_none():
    right, rows = batch([(0, 0, 0), (0, 0, 0), (1, 2, 1)])
    candidates = find_candidates(LAYOUT, right, 1e-6, 10**6, 10**4)
    difference = (rows[0] - rows[1]) @ right.T
    assert len(candidates.open) == 1
    assert np.isclose(abs(candidates.open[0] @ difference), np.linalg.norm(difference))
    right, _ = batch([(0, 0, 0), (3, 1, 0), (1, 2, 1)])
    assert not len(find_candidates(LAYOUT, right, 1e-6, 10**6, 10**4).open)


@given(st.integers(0, 10**6))
def test_meeting_in_the_middle_finds_what_trying_everything_finds(seed):
    coins = np.random.default_rng(seed)
    parts = [coins.integers(-2, 3, (n, 2)).astype(float) for n in coins.integers(1, 5, coins.integers(1, 5))]
    goal = coins.integers(-2, 3, 2).astype(float)
    everything = itertools.product(*(range(len(p)) for p in parts))
    expected = {c for c in everything if not (sum(p[i] for p, i in zip(parts, c, strict=True)) + goal).any()}
    found = meet_in_the_middle(parts, goal, 1e-6, 10**6, 10**6)
    assert {tuple(map(int, picks)) for picks in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize(("budget", "most", "reason"), [(8, 9, "9 combinations"), (9, 8, "over 8 combinations")])
def test_a_search_over_its_budget_is_not_made(budget, most, reason):
    parts = [np.zeros((3, 1)), np.zeros((3, 1))]
    assert len(meet_in_the_middle(parts, np.zeros(1), 1e-6, 9, 9)) == 9
    assert reason in meet_in_the_middle(parts, np.zeros(1), 1e-6, budget, most)


WHOLE = FeatureLayout(
    (
        CategoricalBlock("job", 0, 4),
        CategoricalBlock("city", 4, 4),
        NumericBlock("age", 8, shift=40.0, scale=13.0, low=17.0, high=90.0, integer=True, unit="deviation"),
    )
)


def whole_batch(layout, seed):
    """Six rows [x | 1] of `WHOLE`, no direction of which is open, their basis (6, 10) and categories."""
    coins = np.random.default_rng(seed)
    categories = np.array([(0, 0), (1, 0), (2, 0), (0, 1), (1, 2), (3, 3)])
    ages = (coins.integers(17, 91, (6, 1)) - 40.0) / 13.0
    rows = np.hstack([np.eye(4)[categories[:, 0]], np.eye(4)[categories[:, 1]], ages, np.ones((6, 1))])
    return np.linalg.svd(rows, full_matrices=False)[2], categories


def found_in(layout, seed, bounds=None):
    right, categories = whole_batch(layout, seed)
    found = find_candidates(layout, right, 1e-6, 10**6, 10**4, bounds)
    return {tuple(map(int, c)) for c in found.categories}, {tuple(map(int, c)) for c in categories}


@given(st.integers(0, 50))
def test_numbers_that_categories_settle_rule_combinations_out_and_never_a_row(seed):
    free = FeatureLayout((*WHOLE.categorical, NumericBlock("age", 8)))
    everything, rows = found_in(free, seed)
    assert rows < everything
    possible, _ = found_in(WHOLE, seed)
    assert rows <= possible <= everything


def test_settled_numbers_out_of_the_known_bounds_rule_combinations_out():
    public, rows = found_in(WHOLE, 1)
    known, _ = found_in(WHOLE, 1, {"age": (17.0, 90.0)})
    wide, _ = found_in(WHOLE, 1, {"age": (-1e4, 1e4)})
    assert rows <= public == known < wide


def test_settled_numbers_must_be_near_whole_ones_where_the_layout_promises_that():
    settled = Settled([], np.zeros(2), np.array([0.0, 0.0]), np.array([9.0, 9.0]), np.array([True, False]))
    values = np.array([[3.05, 3.5], [3.2, 3.5], [-0.05, 9.05], [-0.2, 3.0], [3.0, 9.2]])
    assert settled.possible(values).tolist() == [True, False, True, False, False]


def test_an_impossible_combination_does_not_count_against_the_limit():
    parts = [np.zeros((3, 1)), np.zeros((3, 1))]
    values = Settled(
        [np.array([[0.0], [0.5], [1.0]]), np.zeros((3, 1))], np.zeros(1), np.zeros(1), np.ones(1), np.array([True])
    )
    picks = meet_in_the_middle(parts, np.zeros(1), 1e-6, 9, 6, values)
    assert sorted({int(p) for p in picks[:, 0]}) == [0, 2]
    assert len(picks) == 6
