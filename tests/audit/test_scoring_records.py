import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.attacks.base import RecordsClaim
from leakledger.audit.cells import Cells
from leakledger.audit.scoring.metrics import advantage
from leakledger.audit.scoring.records import certificates, compare, from_marginals, match, measure, prior_only, proven
from tests.audit import example

DEVIATIONS = np.array([1.0, 10.0])


def batches(rows=5):
    return st.builds(
        Cells,
        arrays(np.int64, (rows, 3), elements=st.integers(0, 3)),
        arrays(np.float64, (rows, 2), elements=st.floats(-20, 20)),
    )


def cost(claimed, actual, order):
    moved = claimed.take(np.asarray(order))
    differ = (moved.categories != actual.categories).sum() + (
        np.abs(moved.numbers - actual.numbers) > 0.319 * DEVIATIONS * (1 + 1e-5)
    ).sum()
    return int(differ)


@given(batches(), batches())
def test_matching_is_the_best_of_all_orders(claimed, actual):
    best = min(cost(claimed, actual, order) for order in itertools.permutations(range(5)))
    true, order = match(claimed, actual, DEVIATIONS)
    assert list(true) == list(range(5))
    assert cost(claimed, actual, order) == best


@given(batches(), batches(), st.permutations(range(5)))
def test_scores_do_not_depend_on_the_order_of_claimed_rows(claimed, actual, order):
    a = measure(claimed, actual, DEVIATIONS)["accuracy"]
    b = measure(claimed.take(np.asarray(order)), actual, DEVIATIONS)["accuracy"]
    assert a == pytest.approx(b)


@given(batches(), st.permutations(range(5)))
def test_the_truth_itself_scores_perfectly_in_any_order(actual, order):
    values = measure(actual.take(np.asarray(order)), actual, DEVIATIONS)
    assert values["accuracy"] == values["exact_rows"] == 1
    assert values["rmse"] <= 0.001  # and every row is beside itself


def certain_of(cells):
    """A claim that says that every row of `cells` is proven."""
    empty = np.zeros((len(cells), 3)), np.zeros((len(cells), 2))
    return RecordsClaim("P1", 0, cells.categories, cells.numbers, *empty, (), None, np.ones(len(cells), bool))


@given(batches(), batches(3), st.permutations(range(5)), st.permutations(range(3)))
def test_no_metric_depends_on_the_order_of_claims_or_of_the_truth(actual, claimed, order, other):
    moved, turned = actual.take(np.asarray(order)), claimed.take(np.asarray(other))
    assert measure(turned, moved, DEVIATIONS) == pytest.approx(measure(claimed, actual, DEVIATIONS))
    certified = certificates(certain_of(turned), moved, DEVIATIONS)
    assert certified == certificates(certain_of(claimed), actual, DEVIATIONS)


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6]), min_size=5, max_size=5), st.permutations(range(5)))
def test_of_the_truth_in_another_order_nothing_is_false(values, order):
    """Rows that are all close to each other, in which an order that ignores distances is no worse."""
    actual = Cells(np.zeros((5, 3), np.int64), np.column_stack([values, np.arange(5) / 10]))
    claimed = actual.take(np.asarray(order))
    scores = measure(claimed, actual, DEVIATIONS)
    assert (scores["accuracy"], scores["identical_rows"], scores["rmse"]) == (1, 1, 0)
    assert certificates(certain_of(claimed), actual, DEVIATIONS) == {"verified_rows": 1, "false_verified": 0}


def test_a_true_row_is_no_false_certificate_where_the_best_assignment_moves_it():
    """The row at 0 is claimed as it is; but beside it -0.3 would have no close match, 0.3 and -0.3 being too far."""
    actual = Cells(np.zeros((2, 3), np.int64), np.array([[0.0, 0.0], [0.3, 0.0]]))
    claimed = Cells(np.zeros((2, 3), np.int64), np.array([[0.0, 0.0], [-0.3, 0.0]]))
    assert measure(claimed, actual, DEVIATIONS)["accuracy"] == 1
    assert measure(claimed, actual, DEVIATIONS)["identical_rows"] == 0.5
    assert certificates(certain_of(claimed), actual, DEVIATIONS)["false_verified"] == 0.5


def test_a_row_that_is_claimed_twice_and_held_once_is_false_once():
    actual = Cells(np.zeros((3, 3), np.int64), np.array([[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]))
    claimed = actual.take(np.array([0, 0]))
    assert certificates(certain_of(claimed), actual, DEVIATIONS) == {"verified_rows": 2 / 3, "false_verified": 0.5}


@given(batches(), st.integers(0, 4), st.sampled_from([-1.0, 1.0]))
def test_a_certificate_that_is_off_by_more_than_a_thousandth_of_a_deviation_is_false(actual, row, side):
    wrong = actual.numbers.copy()
    wrong[row, 0] += side * 100
    claimed = Cells(actual.categories, wrong)
    assert certificates(certain_of(claimed), actual, DEVIATIONS)["false_verified"] == pytest.approx(0.2)


@given(batches(), batches())
def test_the_worst_record_is_whole_where_a_row_is_exact_and_never_below_the_mean(claimed, actual):
    values = measure(claimed, actual, DEVIATIONS)
    assert (values["worst_record"] == 1) == (values["exact_rows"] > 0)
    assert values["worst_record"] >= values["accuracy"]


def test_the_worst_record_is_the_row_with_most_right_cells():
    actual = Cells(np.array([[0, 1], [2, 2], [3, 3]]), np.array([[1.0], [5.0], [9.0]]))
    claimed = Cells(np.array([[0, 1], [2, 0]]), np.array([[4.0], [5.0]]))
    assert measure(claimed, actual, np.array([2.0]))["worst_record"] == pytest.approx(2 / 3)


def test_luck_favours_the_best_of_many_rows_in_the_baseline_as_in_the_attack():
    truth = example.truth()
    actual = truth.batch(truth.parties[0], 0)
    prior = prior_only(actual, truth, np.random.default_rng(0), 50)
    assert prior.metrics["worst_record"] > prior.metrics["accuracy"] + 0.1
    coins = np.random.default_rng(1)
    luck = [measure(from_marginals(truth.population, len(actual), coins), actual, truth.deviations) for _ in range(200)]
    best = [m["worst_record"] for m in luck]
    assert prior.metrics["worst_record"] == pytest.approx(np.mean(best), abs=4 * np.std(best) / np.sqrt(50))


def test_the_prior_by_cells_has_the_mean_of_its_accuracy():
    truth = example.truth()
    prior = prior_only(truth.batch(truth.parties[0], 0), truth, np.random.default_rng(0), 7)
    assert np.hstack([prior.categories, prior.numbers]).mean() == pytest.approx(prior.metrics["accuracy"])
    assert prior.categories.mean() == pytest.approx(prior.metrics["categorical_accuracy"])


def test_the_tolerance_is_a_closed_interval_of_0_319_standard_deviations():
    actual = Cells(np.zeros((1, 0), np.int64), np.array([[0.0, 0.0]]))
    at = Cells(actual.categories, np.array([[0.319, -3.19]]))
    beyond = Cells(actual.categories, np.array([[0.3191, -3.191]]))
    assert measure(at, actual, DEVIATIONS)["accuracy"] == 1
    assert measure(beyond, actual, DEVIATIONS)["accuracy"] == 0


def test_a_known_batch_scores_as_worked_out_by_hand():
    actual = Cells(np.array([[0, 1], [2, 2]]), np.array([[1.0], [5.0]]))
    claimed = Cells(np.array([[2, 2], [0, 0]]), np.array([[5.1], [3.0]]))
    values = measure(claimed, actual, np.array([2.0]))
    assert values["accuracy"] == pytest.approx(4 / 6)  # row 1: one category right; row 2: all right
    assert values["exact_rows"] == 0.5
    assert values["categorical_accuracy"] == 0.75
    assert values["numeric_accuracy"] == 0.5
    assert values["rmse"] == pytest.approx(np.sqrt((1.0**2 + 0.05**2) / 2))


def test_a_row_without_a_claim_is_all_wrong():
    actual = Cells(np.array([[0], [1], [2], [3]]), np.array([[0.0], [1.0], [2.0], [3.0]]))
    values = measure(actual.take(np.array([2])), actual, np.array([1.0]))
    assert {values[m] for m in ("accuracy", "exact_rows", "identical_rows", "numeric_accuracy")} == {0.25}
    assert "rmse" not in values
    assert measure(actual.take(np.array([], int)), actual, np.array([1.0]))["accuracy"] == 0


def test_an_identical_row_has_numbers_within_a_thousandth_of_a_deviation():
    actual = Cells(np.array([[0], [1]]), np.array([[0.0], [1.0]]))
    claimed = Cells(actual.categories, np.array([[0.0009], [1.0011]]))
    assert measure(claimed, actual, np.array([1.0]))["identical_rows"] == 0.5


@given(batches(3), batches(5), st.permutations(range(5)))
def test_rows_claimed_beyond_those_that_there_are_count_as_nothing(actual, others, order):
    """The whole truth among five rows more is perfect, wherever it stands; the best of many is no worse than few."""
    several = Cells(np.vstack([actual.categories, others.categories]), np.vstack([actual.numbers, others.numbers]))
    values = measure(several.take(np.array([*order, 5, 6, 7])), actual, DEVIATIONS)
    assert values["accuracy"] == values["exact_rows"] == values["identical_rows"] == values["worst_record"] == 1
    assert values["rmse"] <= 0.001
    few = measure(others.take(np.arange(3)), actual, DEVIATIONS)["accuracy"]
    assert measure(others, actual, DEVIATIONS)["accuracy"] >= few


def test_each_true_row_has_one_claimed_row_at_most_and_the_best_ones_are_taken():
    actual = Cells(np.array([[0, 0], [1, 1]]), np.zeros((2, 0)))
    claimed = Cells(np.array([[0, 0], [0, 0], [1, 2], [3, 3]]), np.zeros((4, 0)))
    true, order = match(claimed, actual, np.zeros(0))
    assert list(true) == [0, 1]
    assert order[0] in (0, 1)
    assert order[1] == 2
    assert measure(claimed, actual, np.zeros(0))["accuracy"] == 0.75


def test_proven_rows_that_find_no_true_row_are_false_though_they_are_more_than_there_are():
    actual = Cells(np.array([[0, 0, 0], [1, 1, 1]]), np.zeros((2, 2)))
    claimed = certain_of(Cells(np.repeat(np.arange(5)[:, None], 3, axis=1), np.zeros((5, 2))))
    assert certificates(claimed, actual, DEVIATIONS) == {"verified_rows": 1.0, "false_verified": 0.6}
    matched = compare(Cells(claimed.categories, claimed.numbers), actual, DEVIATIONS)
    assert proven(claimed, matched) == (5, 3)


def test_the_baseline_keeps_marginals_and_breaks_the_rows():
    population = Cells(np.repeat([[0, 0], [1, 1]], 500, axis=0), np.repeat([[0.0], [1.0]], 500, axis=0))
    drawn = from_marginals(population, 4000, np.random.default_rng(0))
    assert drawn.categories.mean(0) == pytest.approx([0.5, 0.5], abs=0.03)
    assert (drawn.categories[:, 0] == drawn.categories[:, 1]).mean() == pytest.approx(0.5, abs=0.03)


def test_advantage_is_0_at_the_baseline_1_at_perfection_and_undefined_without_room():
    assert advantage("accuracy", 0.6, 0.6) == 0
    assert advantage("accuracy", 1.0, 0.6) == 1
    assert advantage("rmse", 0.0, 1.4) == 1
    assert advantage("rmse", 0.7, 1.4) == pytest.approx(0.5)
    assert advantage("accuracy", 1.0, 1.0) is None


def test_a_false_row_that_is_marked_verified_counts_against_the_attack():
    actual = Cells(np.array([[0], [1], [2], [3]]), np.array([[0.0], [1.0], [2.0], [3.0]]))
    numbers = np.array([[0.0], [1.002], [2.0]])  # the second is off by more than a thousandth
    empty = np.zeros((3, 1))
    verified = np.array([True, True, False])
    claim = RecordsClaim("P1", 0, actual.categories[:3], numbers, empty, empty, (), None, verified)
    assert certificates(claim, actual, np.array([1.0])) == {"verified_rows": 0.5, "false_verified": 0.5}
    around = np.array([2, 0, 1])  # the marks belong to rows as claimed, in whatever order
    turned = replace(claim, categories=claim.categories[around], numbers=numbers[around], verified=verified[around])
    assert certificates(turned, actual, np.array([1.0])) == {"verified_rows": 0.5, "false_verified": 0.5}
    true_only = replace(turned, verified=np.array([True, True, False]))
    assert certificates(true_only, actual, np.array([1.0])) == {"verified_rows": 0.5, "false_verified": 0.0}
    assert certificates(replace(claim, verified=None), actual, np.array([1.0])) == {}
    assert certificates(replace(claim, verified=~verified & False), actual, np.array([1.0])) == {"verified_rows": 0.0}


@given(st.permutations(range(5)))
def test_a_part_of_the_truth_is_matched_with_itself_where_all_rows_are_close(order):
    actual = Cells(np.zeros((5, 3), np.int64), np.column_stack([np.arange(5) / 20, np.zeros(5)]))
    some = np.asarray(order[:3])
    true, claimed = match(actual.take(some), actual, DEVIATIONS)
    assert np.array_equal(some[claimed], true)
