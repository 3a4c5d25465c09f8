"""Numbers behind a curve: what attacks on gradients make of a layout whose scaling is public and not affine."""

import numpy as np
import pytest

from leakledger.attacks.gradient.exact.candidates import settled_numbers
from leakledger.attacks.gradient.exact.certificate import deviations, resolved
from leakledger.attacks.gradient.exact.polish import with_integers
from leakledger.attacks.gradient.exact.rows import numbers
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.views import UNITS, CategoricalBlock, FeatureLayout, NumericBlock

BENT = NumericBlock("amount", 0, shift=3.0, scale=0.8, low=0.0, high=5e4, integer=True, power=-0.1)
STRAIGHT = NumericBlock("age", 1, shift=40.0, scale=10.0, low=17.0, high=90.0)
LAYOUT = FeatureLayout((BENT, STRAIGHT, CategoricalBlock("sex", 2, 2, ("f", "m"))))
RAW = np.array([[0.0, 17.0], [12.0, 30.5], [950.0, 90.0], [40_000.0, 55.0]])


def encoded(raw):
    """(n, d) rows of the layout, all of the first category."""
    columns = [b.encoded(x) for b, x in zip(LAYOUT.numeric, raw.T, strict=True)]
    return np.column_stack([*columns, np.ones(len(raw)), np.zeros(len(raw))])


def test_a_prior_reads_its_own_rows_back_and_keeps_to_raw_bounds():
    prior = StructuralPrior(LAYOUT, {})
    rows = prior.project(np.column_stack([np.linspace(0, 1, 9), np.linspace(0, 1, 9), np.ones(9), np.zeros(9)]))
    np.testing.assert_allclose([prior.low, prior.high], [[0, 17], [5e4, 90]], rtol=1e-9)
    assert (np.diff(rows.numbers[:, 0]) >= 0).all()
    again = prior.project(prior.certain(rows))
    np.testing.assert_allclose(again.numbers, rows.numbers, atol=1e-6)
    np.testing.assert_allclose(prior.encode(rows)[:, 0], BENT.encoded(rows.numbers[:, 0]))


def test_exact_rows_are_read_back_in_raw_units_and_whole_numbers_are_whole():
    rows = encoded(RAW)
    np.testing.assert_allclose(numbers(LAYOUT, rows), RAW, rtol=1e-9, atol=1e-9)
    rows[:, 0] += 1e-7
    np.testing.assert_allclose(numbers(LAYOUT, with_integers(LAYOUT.numeric, rows))[:2, 0], RAW[:2, 0], atol=1e-9)


def test_an_error_counts_in_raw_units_so_that_large_numbers_need_more_precision():
    error = np.full((4, 2), 1e-5)
    assert resolved(LAYOUT, encoded(RAW), error).tolist() == [True, True, True, False]
    assert resolved(LAYOUT, encoded(RAW), error * 0).all()
    assert not resolved(LAYOUT, encoded(RAW), error * 1e6).any()


def test_nothing_is_settled_in_advance_about_a_column_that_no_sum_is_linear_in():
    codes = [np.eye(2)]
    found = settled_numbers(LAYOUT, codes, np.zeros((3, 5)), np.zeros((0, 5)), 1e-9, None)
    assert found.low.tolist() == [17.0]  # the straight one alone


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("unit", UNITS)
def test_no_other_unit_is_taken_for_a_deviation(unit, published):
    shift, scale = (1.0, 2.0) if published else (None, None)
    block = NumericBlock("dose", 0, shift, scale, unit=unit)
    columns = np.array([[-3.0], [-0.1], [0.0], [0.1], [0.2], [0.1], [0.0], [0.1]])
    found = deviations(FeatureLayout((block,)), columns)[0]
    assert (found == 1.0) if unit == "deviation" else (found < 0.2)


def test_a_unit_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="dose: the unit 'max' is none of "):
        NumericBlock("dose", 0, unit="max")


def test_a_number_is_exact_beside_the_deviation_and_not_beside_what_it_was_scaled_by():
    """Of a column 1e6 ± 1 divided by 1e6 an error of a millionth is a whole deviation."""
    rows, error = 1 + np.array([[-1e-6], [0.0], [1e-6], [2e-6]]), np.full((4, 1), 1e-7)
    unknown, extremes = (FeatureLayout((NumericBlock("n", 0, 0.0, 1e6, unit=u),)) for u in ("", "range"))
    assert not resolved(unknown, rows, error).any()
    assert resolved(unknown, rows, error * 1e-3).all()
    assert resolved(extremes, rows, error).all()  # no column between extremes of 0 and 1e6 is as narrow
    for scale in (1.0, None):  # nor is a column that nobody divided by anything
        assert resolved(FeatureLayout((NumericBlock("n", 0, 0.0, scale),)), rows, error).all()


def test_floats_excuse_no_error_of_a_column_that_public_bounds_hold_within_as_little():
    """As a scale of 1 stands in for quartiles that a search finds at one point, of numbers of a millionth."""
    bounds = {"low": -1e-6, "high": 1e-6, "unit": "quartiles"}
    layout = FeatureLayout((NumericBlock("n", 0, 0.0, 1.0, **bounds),))
    rows, error = np.array([[1e-8]]), np.full((1, 1), 1e-8)
    assert not resolved(layout, rows, error).any()
    assert resolved(layout, rows, error * 1e-5).all()
    assert resolved(FeatureLayout((NumericBlock("n", 0, 0.0, 1e-6, **bounds),)), rows, error).all()
