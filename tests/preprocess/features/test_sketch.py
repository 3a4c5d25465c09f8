"""Equations 1 and 2, and their scaling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.preprocess.features.sketch import bin_numbers, count_bins, scaled, sketch

COLUMN = arrays(np.float64, st.integers(4, 40), elements=st.floats(-1e300, 1e300))


def by_hand(values, bins):
    """Equations 1 and 2 with exact fractions."""
    from fractions import Fraction

    low, high = Fraction(min(values)), Fraction(max(values))
    counts = [0] * bins
    for v in values:
        counts[min(int((Fraction(v) - low) / (high - low) * bins), bins - 1)] += 1
    return counts


def test_the_bins_of_a_worked_example():
    column, labels = np.array([0.0, 1, 2, 10, 5, 5.9, 7]), np.array([0, 0, 0, 0, 1, 1, 1])
    assert sketch("x", column, labels, 2, 2).tolist() == [[[3, 1], [2, 1]]]
    assert sketch("x", column, labels, 2, 2, "feature").tolist() == [[[3, 1], [0, 3]]]


@given(column=arrays(np.float64, st.integers(3, 30), elements=st.integers(-50, 50).map(float)), bins=st.integers(2, 9))
def test_bins_are_those_of_the_equations_with_exact_fractions(column, bins):
    if np.ptp(column) > 0:
        found = np.bincount(bin_numbers("x", column, bins), minlength=bins)
        low, high = column.min(), column.max()
        edges = (column - low) * bins % (high - low) == 0  # on an edge, rounding may take either bin
        assert np.abs(found - by_hand(column.tolist(), bins)).sum() <= 2 * edges.sum()
        assert found.sum() == len(column)


@given(column=COLUMN, bins=st.integers(2, 30), classes=st.integers(2, 4))
def test_every_record_is_counted_once_in_each_problem(column, bins, classes):
    labels = np.resize(np.arange(classes), len(column))
    if np.ptp(column / 2) == 0 or np.bincount(labels, minlength=classes).min() < 2:
        return
    counts = sketch("x", column, labels, classes, bins, "feature")
    assert counts.shape == (1 if classes == 2 else classes, 2, bins)
    assert (counts.sum((1, 2)) == len(column)).all()
    assert np.array_equal(counts, count_bins(bin_numbers("x", column, bins), labels, classes, bins))


def test_each_array_is_scaled_by_its_own_counts():
    counts = np.array([[[0, 2, 4], [5, 5, 5]]], np.float32)
    assert scaled(counts, 10).tolist() == [[[-10, 0, 10], [0, 0, 0]]]


@pytest.mark.parametrize(
    ("column", "labels", "problem"),
    [
        ([1.0, 1, 1, 1], [0, 0, 1, 1], "x does not vary over 2 records"),
        ([1.0, 2, 3, 4], [0, 0, 0, 1], "class 1 has 1 record"),
        ([1.0, 2, 3, 4], [0, 0, 0, 0], "class 1 has 0 records"),
        ([1.0, 2, 3, 4], [0, 0, 2, 1], "labels run from 0 to 2"),
        ([1.0, 2, np.inf, 4], [0, 0, 1, 1], "x has a value that is missing or not finite"),
    ],
)
def test_what_has_no_sketch_is_refused(column, labels, problem):
    with pytest.raises(ValueError, match=problem):
        sketch("x", np.array(column), np.array(labels), 2, 3)


def test_two_sketches_of_fewer_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="there are 1 classes"):
        sketch("x", np.arange(4.0), np.zeros(4, np.int64), 1, 3)
