from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.crypto.grid_sums import grid_squares, grid_sum

STEP = Fraction(1, 2**120)
columns = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8).map(np.array)
centres = st.fractions(-(10**6), 10**6)


def near(exact, rows, found):
    return abs(exact - found) <= rows * STEP / 2


@given(columns)
def test_a_sum_is_that_of_the_rows_but_for_rounding_each(column):
    assert near(sum(map(Fraction, column.tolist()), Fraction(0)), len(column), grid_sum(column))


@given(columns, centres)
def test_squares_are_those_of_rows_and_centre_on_the_grid_but_for_rounding_each(column, centre):
    middle = round(centre / STEP) * STEP
    exact = sum(((grid_sum(np.array([x])) - middle) ** 2 for x in column), Fraction(0))
    assert near(exact, len(column), grid_squares(column, centre))


@given(columns, columns, centres)
def test_two_parties_sums_add_up_to_that_of_their_rows_to_the_last_bit(one, other, centre):
    both = np.concatenate([one, other])
    assert grid_sum(one) + grid_sum(other) == grid_sum(both)
    assert grid_squares(one, centre) + grid_squares(other, centre) == grid_squares(both, centre)


@pytest.mark.parametrize("lost", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so_that_sharing_refuses_it(lost):
    assert grid_sum(np.array([1.0, lost])) == grid_squares(np.array([lost]), Fraction(0)) == np.inf
