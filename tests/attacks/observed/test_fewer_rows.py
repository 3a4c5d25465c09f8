"""How many rows another client gave, by what the observers' own rows leave in the mean of a round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.observed.fewer_rows import rows_beside

SINGLE = float(np.finfo(np.float32).eps)
MOST = 6


def batch(rows, seed, neurons=30, columns=20):
    """The mean gradient of a first layer over so many random rows."""
    coins = np.random.default_rng(seed)
    return coins.normal(size=(rows, neurons)).T @ coins.normal(size=(rows, columns)) / rows


def told(own, other, weight, rows, noise=0.0, error=0.0):
    mean = (weight * own + rows * other) / (weight + rows)
    mean = mean + error * np.random.default_rng(5).normal(size=mean.shape)
    return rows_beside(mean, own, weight, MOST, noise, SINGLE)


@given(st.integers(2, 12), st.integers(1, MOST), st.integers(0, 99))
def test_the_rank_of_what_is_left_falls_at_the_number_of_rows_alone(weight, rows, seed):
    assert told(batch(weight, seed), batch(rows, seed + 100), weight, rows) == rows


@pytest.mark.parametrize("rows", [1, 3, MOST])
def test_errors_of_the_mean_count_as_nothing(rows):
    assert told(batch(4, 0), batch(rows, 1), 4, rows, noise=1e-6, error=1e-6) == rows


@pytest.mark.parametrize(
    "more",
    [
        {"own": batch(1, 0), "weight": 1},  # of a single row the other may have a copy, which is gone at another number
        {"error": 1e-3},  # noise that nobody told of has every rank
        {"own": batch(4, 0, columns=2), "other": batch(3, 1, columns=2)},  # so have the rows of one party here
    ],
)
def test_ranks_that_do_not_tell_are_no_number(more):
    assert told(**{"own": batch(4, 0), "other": batch(3, 1), "weight": 4, "rows": 3, **more}) is None


def test_rows_that_both_have_do_not_tell_a_wrong_number():
    """Rows that the observers have twice and the other once cancel at another number than the right one."""
    both, others, one = batch(2, 0), batch(3, 1), batch(1, 2)
    assert told(both, (2 * both + 3 * others) / 5, 4, 5) is None  # at 2, of which rank 3 cannot be
    same = batch(1, 0)
    assert told(same, (same + 3 * one) / 4, 2, 4) is None  # at 2, of which rank 1 can be
