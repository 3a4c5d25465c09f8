"""What a client releases of columns and categories: bounded by declaration, near the truth where noise is faint."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.messages import NoisedGlobalExtremes
from leakledger.preprocess.noise.calibration import Noise
from leakledger.preprocess.noise.categories import declared_domains, kept, noised_table
from leakledger.preprocess.noise.columns import (
    FINE,
    Ranges,
    declared_ranges,
    mean_and_std,
    moments_noise,
    noised_extremes,
    noised_moments,
    rounded,
    total_moments,
)
from leakledger.preprocess.noise.integers import from_generator
from leakledger.preprocess.scalers.federated_minmax import by_places
from leakledger.preprocess.secret import KeyStream, pinned
from tests.preprocess.example import SCHEMA

RANGES = Ranges(("age", "dose"), ((0.0, 100.0), (-5.0, 15.0)))


@given(st.integers(-(2**40), 2**40), st.integers(-FINE, FINE), st.integers(0, 20))
def test_sums_of_neighbours_stay_within_the_sensitivity_after_rounding(total, more, power):
    noise = Noise("discrete-laplace", 1, 2**power)
    one, other = rounded(np.array([total, total + more]), noise).tolist()
    assert abs(one - other) <= noise.sensitivity


def test_no_float_of_a_table_changes_a_sum_by_more_than_the_sensitivity():
    coins, noise = np.random.default_rng(0), Noise("discrete-laplace", 1, 1)
    table = coins.uniform(-1e6, 1e6, (2000, 2))  # most beyond the range
    for row in ([1e300, -1e300], [0.0, -5.0], [1e-300, 15.0]):
        pair = [exact_sums(t, noise) for t in (table, np.vstack([table, [row]]))]
        assert np.abs(pair[0] - pair[1]).max() <= noise.sensitivity


def exact_sums(table, noise):
    unit = np.clip((table - RANGES.middle) / RANGES.half, -1.0, 1.0)
    return rounded(np.rint(unit * FINE).astype(np.int64).sum(axis=0), noise)


def test_with_faint_noise_totals_give_the_pooled_mean_and_deviation():
    coins = np.random.default_rng(1)
    parts = [np.column_stack([coins.uniform(0, 100, n), coins.normal(3, 2, n)]) for n in (30, 80, 200)]
    noise = moments_noise(RANGES, 1e5, 0.0)
    told = [noised_moments(p, RANGES, noise, KeyStream(pinned(i))) for i, p in enumerate(parts)]
    mean, std = mean_and_std(total_moments(*told), RANGES, noise)
    whole = np.vstack(parts)
    np.testing.assert_allclose(mean, whole.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(std, whole.std(axis=0), rtol=1e-2)


def test_whatever_the_noise_leaves_mean_and_deviation_are_within_the_declared_range():
    noise = moments_noise(RANGES, 0.01, 0.0)
    for i in range(50):
        told = total_moments(noised_moments(np.array([[50.0, 3.0]]), RANGES, noise, KeyStream(pinned(i))))
        mean, std = mean_and_std(told, RANGES, noise)
        assert ((mean >= [0, -5]) & (mean <= [100, 15]) & (std > 0) & (std <= RANGES.half)).all()


def test_noise_changes_what_a_client_sends_in_every_number():
    table = np.array([[50.0, 3.0], [20.0, 1.0]])
    noise = moments_noise(RANGES, 1.0, 0.0)
    one, other = (noised_moments(table, RANGES, noise, KeyStream(pinned(i))) for i in range(2))
    assert one.count != other.count
    assert (one.sums != other.sums).all()
    assert (one.squares != other.squares).all()
    many = [noised_extremes(table, RANGES, 1.0, None, KeyStream(pinned(i))).minimum.tolist() for i in range(5)]
    assert len({tuple(m) for m in many}) > 1


@given(st.integers(-50, 50), st.integers(1, 50))
def test_the_ends_of_a_range_are_brought_to_the_ends_however_they_round(low, width):
    ends = low / 10, (low + width) / 10
    unit = Ranges(("x",), (ends,)).unit(np.array(ends)[:, None])
    assert -1 <= unit.min() <= unit.max() <= 1
    np.testing.assert_allclose(unit[:, 0], [-1, 1], atol=1e-12)


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        noised_moments(np.array([[np.nan, 1.0]]), RANGES, moments_noise(RANGES, 1.0, 0.0), KeyStream(pinned(0)))


@pytest.mark.parametrize("ranges", [{"age": (0.0, 99.0)}, {"age": (0.0, 99.0), "dose": (1.0, 1.0)}])
def test_a_range_that_is_missing_or_has_no_width_is_refused_in_one_line_that_says_where_to_declare_it(ranges):
    with pytest.raises(ValueError, match=r"federated-zscore: .*'dose'") as error:
        declared_ranges(("age", "dose"), ranges, "federated-zscore")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (0.0, 5e-324), (1e16, 1e16 + 2)])
def test_a_range_that_float64_cannot_halve_is_refused(ends):
    with pytest.raises(ValueError, match=r"federated-zscore: .*'age'.* no float64") as error:
        declared_ranges(("age",), {"age": ends}, "federated-zscore")
    assert "\n" not in str(error.value)


def test_places_that_are_the_same_number_leave_the_whole_range():
    ranges = declared_ranges(("id",), {"id": (1e16, 1e16 + 8)}, "federated-minmax")
    told = NoisedGlobalExtremes(np.array([10]), np.array([20]))  # of 2^14 places, where there are five numbers
    scaling = by_places(ranges, told)
    assert (scaling.shift.tolist(), scaling.scale.tolist()) == ([1e16], [8.0])


def test_possible_values_are_declared_as_a_domain_or_an_order_and_never_taken_from_rows():
    with pytest.raises(ValueError, match=r"possible values of 'ward'.*domains"):
        declared_domains(SCHEMA, "target")
    schema = replace(SCHEMA, domains={"ward": ("a", "b")}, orders={"diet": ("none", "full")})
    assert declared_domains(schema, "target") == {"ward": ("a", "b"), "diet": ("none", "full")}


def test_a_table_counts_declared_values_held_or_not_and_no_others():
    noise = Noise("discrete-laplace", 1, 1024)  # faint
    told = noised_table(np.array([0, 0, 2, -1, -1]), 4, noise, from_generator(np.random.default_rng(0)))
    assert np.rint(told / 1024).tolist() == [2, 0, 1, 0]
    assert kept("abcd", told, noise, 0.5) == ["a", "c"]
    assert kept("abcd", told, noise, 99) == ["a"]  # a dictionary is never empty
