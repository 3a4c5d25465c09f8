"""The certificate number by number: standard errors that are those of the errors, and what they leave verified."""

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.exact import certificate
from leakledger.attacks.gradient.exact.certificate import determined_rows, deviations, resolved
from leakledger.attacks.gradient.exact.numbers import determined
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.observed.row_space import row_space
from leakledger.preprocess.views import FeatureLayout, NumericBlock
from tests.attacks.example import DOUBLE, observe, update_of
from tests.attacks.gradient.amounts import false, table
from tests.attacks.gradient.test_span_polish import COLUMNS, LAYOUT, NEURONS, NUMBERS, ROWS, batch

NOTHING = AuxiliaryKnowledge()
NOISE = 1e-6


def alone(space, encoded):
    """The numbers of rows by the row space alone, without kernels."""
    return determined(space, LAYOUT, encoded, np.zeros((0, space.rank)), np.zeros((len(encoded), 0), bool))


def test_standard_errors_of_single_rows_are_those_of_their_numbers():
    """100 batches, 1,500 numbers that start off by 1e-3."""
    off = []
    for seed in range(100):
        space, _, _, encoded = batch(seed, NOISE)
        start = encoded.copy()
        start[:, COLUMNS] += 1e-3
        rows, errors = alone(space, start)
        off.append((rows - encoded)[:, COLUMNS] / errors)
    assert 0.9 < np.mean(np.square(off)) < 1.1
    assert np.abs(off).max() < 4.5


def test_standard_errors_of_rounding_cover_the_errors_of_a_gradient_in_float32():
    off = []
    for seed in range(20):
        _, _, _, encoded = batch(seed, 0.0)
        coins = np.random.default_rng(seed)
        signals = (coins.normal(size=(ROWS, NEURONS)) * (coins.random((ROWS, NEURONS)) < 0.5)).astype(np.float32)
        gradient = (signals.T @ np.column_stack([encoded, np.ones(ROWS)]).astype(np.float32)).astype(np.float64)
        space = row_space(update_of(gradient, ROWS, LAYOUT), 64)
        rows, errors = alone(space, encoded.astype(np.float32).astype(np.float64))
        off.append((rows - encoded.astype(np.float32))[:, COLUMNS] / errors)
    assert np.abs(off).max() < 4
    assert np.sqrt(np.mean(np.square(off))) > 0.05  # nor are they far too large


def test_rows_that_are_not_in_the_space_have_no_finite_errors_and_stay():
    space, _, _, other = batch(0, NOISE)
    absent = np.flatnonzero(~other[:, NUMBERS:].any(0))[0]
    other[:, NUMBERS:] = np.eye(9)[absent]
    rows, errors = alone(space, other)
    assert np.isinf(errors).all()
    assert np.array_equal(rows, other)


def narrow():
    """A batch of two rows of one category, so that their difference is open but for each other's kernel."""
    layout = FeatureLayout((NumericBlock("a", 0), NumericBlock("b", 1)))
    encoded = np.array([[0.0, 1.0], [1.0, 3.0]])
    signals = np.random.default_rng(0).normal(size=(2, 12))
    signals[0, :4], signals[1, 4:8] = 0, 0
    gradient = signals.T @ np.column_stack([encoded, np.ones(2)])
    return layout, encoded, row_space(update_of(gradient, 2, layout, DOUBLE), 64)


def test_a_direction_that_nothing_sees_is_open_until_a_kernel_of_the_other_row_settles_it():
    layout, encoded, space = narrow()
    none = determined(space, layout, encoded, np.zeros((0, 2)), np.zeros((2, 0), bool))[1]
    assert np.isinf(none).all()
    points = np.column_stack([encoded, np.ones(2)]) @ space.right.T
    kernels = np.linalg.inv(points.T)
    kernels /= np.linalg.norm(kernels, axis=1, keepdims=True)
    start = encoded + np.array([[0.5, 1.0], [-0.5, -1.0]])  # along the open direction
    rows, errors = determined(space, layout, start, kernels, ~np.eye(2, dtype=bool))
    assert np.abs(rows - encoded).max() < 1e-9
    assert (errors < 1e-9).all()


def block(**fields):
    return FeatureLayout((NumericBlock("n", 0, **fields),))


RANGE = block(shift=0.0, scale=1e6, low=0.0, high=1e6, integer=True, unit="range")
DEVIATION = block(shift=0.0, scale=1e6, low=0.0, high=1e7, integer=True, unit="deviation")
SKEWED = np.array([[0.01], [0.012], [0.014], [0.011], [0.015], [0.01], [0.012], [0.9]])


def test_the_deviation_of_a_column_scaled_by_its_range_is_what_rows_show_without_the_outermost():
    assert deviations(RANGE, SKEWED)[0] == pytest.approx(SKEWED[:7].std())
    assert deviations(DEVIATION, SKEWED)[0] == 1
    assert deviations(RANGE, SKEWED[:1])[0] == 0
    assert deviations(block(), SKEWED)[0] < 0.01  # of a column that may be scaled by anything
    assert deviations(block(unit="deviation"), SKEWED)[0] == 1  # whatever that is


@pytest.mark.parametrize(("error", "sure"), [(1e-6, False), (1e-8, True)])
def test_where_a_scale_of_1_stands_in_for_a_deviation_that_was_lost_rows_tell_the_deviation(error, sure):
    """A secure sum leaves nothing of a deviation of a thousandth beside a mean of 1e9."""
    rows = np.array([[0.0004], [-0.0009], [0.0012], [0.0001]])
    assert resolved(block(shift=1e9, scale=1.0, unit="deviation"), rows, np.full(rows.shape, error / 4)).all() == sure
    assert resolved(block(shift=1e9, scale=2.0, unit="deviation"), rows, np.full(rows.shape, error / 4)).all()
    assert resolved(block(unit="deviation"), rows, np.full(rows.shape, error / 4)).all() == sure  # or a secret scale
    constant = np.full(rows.shape, 1e-7)
    assert resolved(block(shift=1e9, scale=1.0, unit="deviation"), constant, np.full(rows.shape, error / 4)).all()


def test_a_scale_of_1_that_is_a_public_range_stands_in_for_nothing():
    """Codes of target encoding are rates, whose range is 1: in a batch most may be equal."""
    rows, error = np.array([[0.2], [0.2], [0.2], [0.20001]]), np.full((4, 1), 1e-8)
    assert resolved(block(shift=0.0, scale=1.0, low=0.0, high=1.0, unit="range"), rows, error).all()
    assert not resolved(block(shift=0.0, scale=1.0, unit="deviation"), rows, error).any()


@pytest.mark.parametrize(
    ("layout", "error", "sure"),
    [
        (DEVIATION, 2e-4, True),  # within a thousandth of a deviation at four standard errors
        (DEVIATION, 3e-4, False),
        (RANGE, 2e-4, False),  # 140,000 of a million may be 139,829
        (RANGE, 4e-7, True),
        (RANGE, 6e-7, False),
    ],
)
def test_a_number_is_certified_by_its_own_error(layout, error, sure):
    assert resolved(layout, SKEWED, np.full((8, 1), error)).tolist() == [sure] * 8
    one = np.zeros((8, 1))
    one[3] = error
    assert resolved(layout, SKEWED, one).tolist() == [True] * 3 + [sure] + [True] * 4


def test_a_number_that_is_promised_to_be_whole_and_surely_is_not_is_not_certified():
    layout = block(shift=0.0, scale=10.0, low=0.0, high=10.0, integer=True)
    rows = np.array([[0.3], [0.35]])
    assert resolved(layout, rows, np.full((2, 1), 1e-4)).tolist() == [True, False]


def test_the_only_value_of_a_constant_column_is_certain():
    layout = block(shift=3.0, scale=1.0, low=3.0, high=3.0)
    assert resolved(layout, np.zeros((2, 1)), np.full((2, 1), np.inf)).all()


CASES = ((3, 0), (17, 2))  # tables and batches of which the residual alone certified false rows


@pytest.mark.parametrize(("number", "seed"), CASES)
def test_no_row_of_skewed_whole_amounts_is_verified_falsely(number, seed):
    layout, categories, numbers, encoded = table(number)
    drawn = np.random.default_rng(seed).choice(len(encoded), 16, replace=False)
    view, deviation = observe(encoded[drawn], layout, seed=seed), numbers.std(0, ddof=1)
    for attack in (Span(), LinearLayer()):
        outcome = attack.run(view, NOTHING)
        for claim in outcome if isinstance(outcome, list) else ():
            assert not false(claim, categories[drawn], numbers[drawn], deviation).any()


def test_most_rows_of_skewed_whole_amounts_are_verified_by_some_attack():
    layout, categories, numbers, encoded = table(5)
    drawn = np.random.default_rng(0).choice(len(encoded), 16, replace=False)
    (claim,) = Spear().run(observe(encoded[drawn], layout), NOTHING)
    assert claim.verified.sum() >= 14
    assert not false(claim, categories[drawn], numbers[drawn], numbers.std(0, ddof=1)).any()


def test_kernels_of_rows_that_stay_open_settle_no_other_row(monkeypatch):
    """Where the row behind a kernel is not determined itself, the kernel may be of a mixture."""
    space, weight, bias, encoded = batch(0, 0.0)
    assert np.isfinite(determined_rows(space, LAYOUT, weight, bias, encoded)[1]).all()
    given = []

    def first_open(space, layout, rows, kernels, others):
        given.append(len(kernels))
        errors = np.zeros((len(rows), len(COLUMNS)))
        errors[0] = np.inf if len(rows) == ROWS else 0
        return rows, errors

    monkeypatch.setattr(certificate, "determined", first_open)
    errors = determined_rows(space, LAYOUT, weight, bias, encoded)[1]
    assert given == [ROWS, ROWS - 1]
    assert np.isinf(errors[0]).all()
    assert not errors[1:].any()


def test_an_attack_whose_numbers_are_unsure_says_so(monkeypatch):
    layout, _, _, encoded = table(3)
    drawn = np.random.default_rng(1).choice(len(encoded), 4, replace=False)
    view = observe(encoded[drawn], layout, seed=1)
    (claim,) = Spear().run(view, NOTHING)
    assert isinstance(claim, RecordsClaim)
    assert claim.verified.all()
    monkeypatch.setattr(certificate, "SURE", 1e9)
    (claim,) = Spear().run(view, NOTHING)
    assert not claim.verified.any()
    assert (claim.number_entropy == 1).all()
