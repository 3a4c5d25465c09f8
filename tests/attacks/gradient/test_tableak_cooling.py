from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.tableak.cooling import COLDEST, cooling_schedule, last_temperature


@given(st.integers(1, 300), st.integers(0, 300))
def test_what_an_iteration_does_is_the_same_in_any_stretch(iterations, cut):
    cut = min(cut, iterations)
    parts = [
        *cooling_schedule("cool", iterations, range(cut)),
        *cooling_schedule("cool", iterations, range(cut, iterations)),
    ]
    assert parts == list(cooling_schedule("cool", iterations, range(iterations)))


@given(st.integers(10, 500))
def test_only_the_last_tenth_cools_and_it_never_warms_up_or_stands_still(iterations):
    cold, slow = zip(*cooling_schedule("cool", iterations, range(iterations)), strict=True)
    usual = iterations - iterations // 10
    assert set(cold[: usual + 1]) == set(slow[: usual + 1]) == {1.0}
    for factors in (cold, slow):
        tail = factors[usual:]
        assert all(a > b > 0 for a, b in pairwise(tail))
    assert min(cold) > COLDEST


def test_a_long_finish_ends_cold_and_at_rest():
    *_, (cold, slow) = cooling_schedule("cool", 8000, range(8000))
    assert (cold, slow) == (pytest.approx(COLDEST, rel=0.01), pytest.approx(1 / 800))


@pytest.mark.parametrize(("how", "iterations"), [("constant", 500), ("cool", 9)])
def test_the_published_finish_and_a_few_iterations_change_nothing(how, iterations):
    assert set(cooling_schedule(how, iterations, range(iterations))) == {(1.0, 1.0)}


@pytest.mark.parametrize(
    ("how", "iterations", "steps", "factor"),
    [
        ("cool", 100, range(90, 100), COLDEST),
        ("cool", 100, range(80, 90), 1),
        ("cool", 9, range(9), 1),
        ("constant", 100, range(100), 1),
    ],
)
def test_distributions_are_read_cold_after_the_last_iteration_of_a_cool_finish(how, iterations, steps, factor):
    assert last_temperature(how, iterations, steps) == factor
