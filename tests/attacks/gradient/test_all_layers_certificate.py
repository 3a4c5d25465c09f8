"""The certificate of known atoms: what it refuses, and what the linear system over all layers says of rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.all_layers.batch import FoundRows, remaining
from leakledger.attacks.gradient.all_layers.certificate import certified, number_errors, of_all
from leakledger.attacks.gradient.all_layers.gram import Problem, coefficients
from leakledger.attacks.gradient.all_layers.labels import decided, errors_of
from leakledger.attacks.gradient.all_layers.polish import LEFT, Guess, explained, polished, priced
from leakledger.attacks.gradient.atoms.search import lessened
from leakledger.attacks.gradient.exact.activations import ACTIVATIONS
from leakledger.attacks.gradient.exact.network import forward
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.preprocess import models
from tests.attacks.example import LAYOUT, observe, rows_of

SMOOTH = ["tanh", "gelu", "sigmoid"]


@pytest.mark.parametrize("name", sorted(models.ACTIVATIONS))
def test_every_activation_has_the_derivatives_that_autograd_gives(name):
    z = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
    value = models.ACTIVATIONS[name](z)
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    own = ACTIVATIONS[name]
    assert np.allclose(own.value(z.detach().numpy()), value.detach().numpy(), atol=1e-12)
    assert np.allclose(own.slope(z.detach().numpy()), slope.detach().numpy(), atol=1e-12)
    if slope.requires_grad:
        (bend,) = torch.autograd.grad(slope.sum(), z)
        assert np.allclose(own.bend(z.detach().numpy()), bend.numpy(), atol=1e-12)


def batch(activation, count=8, seed=0):
    """A batch before it is solved, and its rows with their labels."""
    categories, _, encoded = rows_of(LAYOUT, count, seed)
    (update,) = find_gradients(observe(encoded, activation=activation, seed=seed), AuxiliaryKnowledge())
    found = FoundRows(EncodedRows(categories, encoded), np.eye(2, dtype=np.int64)[np.arange(count) % 2])
    return remaining(update, update.gradient, count, [count] * 3), found


def problem_of(whole):
    spaces = whole.spaces
    return Problem(spaces.weights, whole.gradient, spaces.activation, spaces.layers)


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
def test_the_rows_of_a_batch_are_certified(activation):
    whole, found = batch(activation)
    rows, residual, proven, exact = certified(whole, found, lessened(whole, found))
    assert proven.all()
    assert exact.all()
    assert (residual < 1e-5).all()
    assert np.abs(rows.encoded - found.rows.encoded).max() < 1e-5


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
def test_a_changed_label_refuses_the_certificate(activation):
    whole, found = batch(activation)
    counts = found.counts.copy()
    counts[3] = counts[3, ::-1]
    changed = FoundRows(found.rows, counts)
    assert lessened(whole, changed) is None
    assert not of_all(whole, changed)[2].any()


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
def test_a_changed_category_refuses_the_certificate(activation):
    whole, found = batch(activation)
    encoded = found.rows.encoded.copy()
    encoded[2, 10:18] = np.roll(encoded[2, 10:18], 1)
    changed = FoundRows(EncodedRows(found.rows.categories, encoded), found.counts)
    assert lessened(whole, changed) is None
    assert not of_all(whole, changed)[2].any()


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
@pytest.mark.parametrize("step", [1.0, -1.0])
def test_one_whole_number_off_leaves_far_more_of_the_gradient_than_rounding(activation, step):
    whole, found = batch(activation)
    encoded = found.rows.encoded.copy()
    encoded[1, 0] += step / 13
    problem = priced(problem_of(whole), encoded, found.counts, 8)
    held = explained(problem, Guess(encoded, found.counts, np.zeros((8, 2)), 8), [])
    true = explained(problem, Guess(found.rows.encoded, found.counts, np.zeros((8, 2)), 8), [])
    assert true.left < LEFT < 1e3 < held.left
    assert lessened(whole, FoundRows(EncodedRows(found.rows.categories, encoded), found.counts)) is None


@pytest.mark.parametrize("activation", SMOOTH)
def test_numbers_that_are_off_are_fitted_to_all_layers_with_their_standard_errors(activation):
    whole, found = batch(activation)
    encoded = found.rows.encoded.copy()
    encoded[:, [0, 18]] += 0.02 * np.random.default_rng(0).normal(size=(8, 2))
    problem = priced(problem_of(whole), encoded, found.counts, 8)
    rows, error, _ = polished(problem, LAYOUT, encoded, found.counts, 8)
    off = np.abs(rows - found.rows.encoded)[:, [0, 18]]
    assert off.max() < 1e-5
    assert (off <= 5 * error + 1e-7).all()


@pytest.mark.parametrize("activation", [*SMOOTH, "relu"])
def test_a_false_affine_combination_of_rows_has_coefficient_zero(activation):
    whole, found = batch(activation)
    rows = found.rows.encoded
    mixture = rows[0] + rows[1] - rows[2]  # in the row space of the first layer
    errors, off = coefficients(problem_of(whole), np.concatenate([rows, [mixture]]))
    p = forward(whole.update.weights, rows, activation).probabilities
    assert np.allclose(errors[:8], errors_of(p, found.counts, 8), rtol=1e-4, atol=1e-7)
    assert np.abs(errors[8]).max() < 1e-4 * np.abs(errors[:8]).max()
    assert np.isfinite(off).all()
    assert whole.spaces.missed(mixture[None]) > 1e3 > 30 > whole.spaces.missed(rows).max()


def test_numbers_have_no_finite_standard_error_where_no_layer_leaves_a_vector_out():
    _, _, encoded = rows_of(LAYOUT, 40, 0)
    (update,) = find_gradients(observe(encoded, hidden=(4, 4), activation="tanh"), AuxiliaryKnowledge())
    whole = remaining(update, update.gradient, 40, [40] * 3)
    assert not whole.spaces.sides
    assert np.isinf(number_errors(whole, encoded)).all()


def test_copies_of_a_row_have_no_finite_standard_error():
    whole, found = batch("tanh")
    _, off = coefficients(problem_of(whole), found.rows.encoded[[0, 1, 1, 2]])
    assert np.isinf(off[[1, 2]]).all()


def test_a_row_that_occurs_twice_has_twice_the_errors_of_its_label():
    p = np.array([[0.3, 0.7], [0.3, 0.7], [0.3, 0.7], [0.3, 0.7]])
    counts = np.array([[1, 0], [0, 1], [2, 0], [1, 1]])
    got, clear = decided(p, errors_of(p, counts, 8), np.full(4, 1e-6), 8)
    assert clear.all()
    assert (got == counts).all()
    _, clear = decided(p, 0.9 * errors_of(p, counts, 8), np.full(4, 1e-6), 8)
    assert not clear.any()


@pytest.mark.parametrize("activation", SMOOTH)
def test_a_perturbed_gradient_refuses_the_certificate_of_the_true_rows(activation):
    whole, found = batch(activation)
    coins = np.random.default_rng(0)
    noisy = {
        n: g + 1e-5 * np.sqrt((g**2).mean()) * coins.normal(size=g.shape) for n, g in whole.update.gradient.items()
    }
    update = replace(whole.update, gradient=noisy)
    again = remaining(update, noisy, 8, [8] * 3)
    assert isinstance(again, str) or not of_all(again, found)[2].any()
