"""Layouts and row spaces that leave nothing to choose or to check: empty sums are sums too."""

import numpy as np
import pytest

from leakledger.attacks.gradient.exact.candidates import combinations, find_candidates, meet_in_the_middle
from leakledger.preprocess.views import FeatureLayout, NumericBlock

NUMBERS = FeatureLayout((NumericBlock("age", 0), NumericBlock("ward", 1)))


def parts(sizes, width):
    return [np.arange(n * width, dtype=float).reshape(n, width) for n in sizes]


@pytest.mark.parametrize("width", [0, 1, 2])
def test_there_are_as_many_combinations_as_choices_whatever_the_width(width):
    sums, picks = combinations(parts((2, 3), width), [0, 1], width)
    assert sums.shape == (6, width)
    assert picks.tolist() == [[a, b] for a in range(2) for b in range(3)]


def test_where_a_sum_has_no_columns_every_combination_meets_the_goal():
    found = meet_in_the_middle(parts((2, 3, 2), 0), np.zeros(0), 1e-6, 100, 100)
    assert sorted(map(tuple, found.tolist())) == [(a, b, c) for a in range(2) for b in range(3) for c in range(2)]


def test_without_parts_there_is_one_empty_combination_where_the_goal_is_met_and_none_elsewhere():
    assert meet_in_the_middle([], np.zeros(0), 1e-6, 100, 100).shape == (1, 0)
    assert meet_in_the_middle([], np.zeros(2), 1e-6, 100, 100).shape == (1, 0)
    assert meet_in_the_middle([], np.ones(2), 1e-6, 100, 100).shape == (0, 0)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_layout_of_numbers_alone_has_one_candidate_without_categories(rows):
    batch = np.hstack([np.random.default_rng(0).normal(size=(rows, 2)), np.ones((rows, 1))])
    right = np.linalg.svd(batch, full_matrices=False)[2]
    found = find_candidates(NUMBERS, right, 1e-6, 100, 100)
    assert found.categories.shape == (1, 0)
    assert np.isclose((found.origin @ right)[0, -1], 1)
    assert len(found.open) == rows - 1
