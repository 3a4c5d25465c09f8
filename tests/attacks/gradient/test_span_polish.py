import numpy as np
import pytest

from leakledger.attacks.gradient.exact import polish
from leakledger.attacks.gradient.exact.polish import Fit, alternating, excess, held, least_squares, polished
from leakledger.attacks.observed.row_space import row_space
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.example import DOUBLE, update_of

NEURONS, ROWS, NUMBERS = 60, 5, 3
LAYOUT = FeatureLayout((*(NumericBlock(f"n{i}", i) for i in range(NUMBERS)), CategoricalBlock("c", NUMBERS, 9)))
COLUMNS = list(range(NUMBERS))


def batch(seed, noise):
    """A gradient D^T [X | 1] with noise: its row space, weight, bias, and the rows X."""
    coins = np.random.default_rng(seed)
    weight, bias = coins.normal(size=(NEURONS, LAYOUT.width)), coins.normal(size=NEURONS)
    encoded = np.zeros((ROWS, LAYOUT.width))
    encoded[:, COLUMNS] = coins.normal(size=(ROWS, NUMBERS))
    encoded[np.arange(ROWS), NUMBERS + coins.permutation(9)[:ROWS]] = 1
    signals = coins.normal(size=(ROWS, NEURONS)) * (encoded @ weight.T + bias > 0)
    gradient = signals.T @ np.column_stack([encoded, np.ones(ROWS)])
    gradient += noise * coins.normal(size=gradient.shape)
    space = row_space(update_of(gradient, ROWS, LAYOUT, DOUBLE, noise=noise), 64)
    return space, weight, bias, encoded


def test_standard_errors_are_those_of_every_number():
    """200 batches, 3,000 numbers."""
    off = []
    for seed in range(200):
        space, weight, bias, encoded = batch(seed, 1e-5)
        start = encoded.copy()
        start[:, COLUMNS] += 1e-4
        rows, _, error = polished(space, LAYOUT, weight, bias, start)
        off.append((rows - encoded)[:, COLUMNS] / error)
    assert 0.9 < np.mean(np.square(off)) < 1.1
    assert np.abs(off).max() < 4.5


def test_a_step_of_gauss_newton_leaves_the_square_of_the_error():
    space, weight, bias, encoded = batch(0, 0.0)
    off = encoded.copy()
    off[:, COLUMNS] += 1e-4
    fit = held(space, weight, bias, off, COLUMNS)
    off[:, COLUMNS] += fit.solved(0.0)[0].reshape(ROWS, NUMBERS)
    assert fit.left > 1e-10
    assert np.abs(off - encoded).max() < 1e-7


def test_rows_far_off_come_back_to_where_noise_leaves_them():
    space, weight, bias, encoded = batch(6, 1e-6)
    off = encoded.copy()
    off[:, COLUMNS] += 0.1 * np.random.default_rng(0).normal(size=(ROWS, NUMBERS))
    left = [held(space, weight, bias, e, COLUMNS).left for e in (off, encoded)]
    rows, error = least_squares(space, weight, bias, off, COLUMNS)
    assert left[0] > 1e6 * left[1]
    assert np.abs(rows - encoded).max() < 5 * error.max() < 1e-4


def test_right_rows_miss_the_gradient_by_what_noise_leaves_and_wrong_ones_by_more():
    missed = []
    for seed in range(20):
        space, weight, bias, encoded = batch(seed, 1e-5)
        rows = least_squares(space, weight, bias, encoded, COLUMNS)[0]
        missed.append(excess(space, LAYOUT, weight, bias, rows))
        rows[0, 0] += 1e-3
        assert excess(space, LAYOUT, weight, bias, rows) > 10
    assert 0.8 < np.mean(missed) < 1.3


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_batches_with_too_many_numbers_are_fitted_in_turn_and_no_error_is_known(monkeypatch, noise):
    space, weight, bias, encoded = batch(1, noise)
    off = encoded.copy()
    off[:, COLUMNS] += 1e-5
    monkeypatch.setattr(polish, "LARGEST", ROWS * NUMBERS - 1)
    rows, residual, error = polished(space, LAYOUT, weight, bias, off)
    assert np.abs(rows - encoded).max() < np.abs(off - encoded).max() / 2
    assert np.array_equal(rows, alternating(space, weight, bias, off, COLUMNS)[0])
    assert residual < 1e-6
    assert (error == np.inf).all()


def test_rows_without_numbers_stay_as_they_are():
    space, weight, bias, encoded = batch(2, 0.0)
    only = FeatureLayout((CategoricalBlock("c", 0, LAYOUT.width),))
    rows, residual, error = polished(space, only, weight, bias, encoded)
    assert rows is encoded
    assert residual < 1e-12
    assert not error.any()


def test_numbers_that_the_gradient_does_not_determine_have_no_finite_error_and_stay():
    normal = np.array([[4.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])  # the sum of the last two, not each
    step, variance = Fit(0.0, normal, np.array([8.0, 1.0, 1.0])).solved(0.0)
    assert step == pytest.approx([2, 0.5, 0.5])
    assert variance.tolist() == [0.25, np.inf, np.inf]


def test_the_scale_of_unknowns_does_not_matter():
    scale = np.array([1e-5, 1.0, 1e5])
    normal = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    expected = np.linalg.inv(normal)
    for damping in (0.0, 0.5):
        step, variance = Fit(0.0, normal * np.outer(scale, scale), np.ones(3) * scale).solved(damping)
        assert step * scale == pytest.approx(np.linalg.inv(normal / 2 + damping * np.eye(3)).sum(1) / 2)
        assert variance * scale**2 == pytest.approx(np.diag(expected))
