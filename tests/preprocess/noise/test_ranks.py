"""Extremes and quantiles: the stated chances, a distance that one record changes by no more than is said."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakledger.preprocess.noise.integers import from_generator
from leakledger.preprocess.noise.ranks import (
    distances,
    draw_place,
    extreme_rank,
    extreme_target,
    on_grid,
    quantile_target,
)

GRID, DRAWS, ALARM = 12, 40_000, 1e-7
TARGETS = {
    "minimum": extreme_target(5.0),
    "third from the end": extreme_target(0.7),
    "median": quantile_target(Fraction(1, 2)),
    "nine tenths": quantile_target(Fraction(9, 10)),
}
rows = st.lists(st.integers(0, GRID), max_size=12)


@pytest.mark.parametrize("name", TARGETS)
@given(rows, st.integers(0, GRID))
def test_one_record_more_changes_no_distance_by_more_than_the_sensitivity(name, places, more):
    target = TARGETS[name]
    one, other = (distances(np.array(p, np.int64), target, GRID) for p in (places, [*places, more]))
    assert np.abs(one - other).max() <= target.sensitivity


@pytest.mark.parametrize("name", TARGETS)
def test_places_are_drawn_with_the_chances_of_the_exponential_mechanism(name):
    places, target, epsilon = np.array([2, 3, 3, 5, 9]), TARGETS[name], 0.8
    drawn = draw_place(places, target, epsilon, from_generator(np.random.default_rng(5)), DRAWS, GRID)
    weight = np.exp(-epsilon * distances(places, target, GRID) / (2 * target.sensitivity))
    expected = weight / weight.sum() * DRAWS
    assert stats.chisquare(np.bincount(drawn, minlength=GRID + 1), expected).pvalue > ALARM


def test_the_log_chance_of_a_place_differs_by_epsilon_at_most_between_neighbours():
    epsilon = 1.0
    for target in TARGETS.values():
        for places in ([], [4], [2, 2, 9], [0] * 6, [3, 4, 5, 6]):
            chances = []
            for table in (places, [*places, 0], [*places, GRID]):
                away = distances(np.array(table, np.int64), target, GRID)
                weight = np.exp(-epsilon * away / (2 * target.sensitivity))
                chances.append(np.log(weight / weight.sum()))
            assert max(np.abs(chances[0] - c).max() for c in chances[1:]) <= epsilon + 1e-9


def test_with_a_large_epsilon_the_extreme_itself_is_drawn_and_of_a_constant_column_its_number():
    below = from_generator(np.random.default_rng(0))
    assert set(draw_place(np.array([5, 7, 9]), extreme_target(1e4), 1e4, below, 20, GRID).tolist()) == {5}
    assert set(draw_place(np.full(50, 4), quantile_target(Fraction(1, 2)), 50.0, below, 20, GRID).tolist()) == {4}


def test_numbers_beyond_the_declared_range_are_at_its_ends():
    assert on_grid(np.array([-5.0, 10.0, 15.0, 99.0]), 10.0, 20.0, 10).tolist() == [0, 0, 5, 10]


def test_the_less_the_budget_the_farther_from_the_end_the_rank_that_is_aimed_at():
    assert [extreme_rank(e) for e in (4.0, 1.0, 0.1)] == [1, 2, 20]


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, -1.0, float("nan")])
def test_an_epsilon_that_cannot_be_drawn_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon of a rank"):
        draw_place(np.array([1]), TARGETS["median"], epsilon, from_generator(np.random.default_rng(0)))
