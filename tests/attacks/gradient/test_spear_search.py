"""Masks, roots and deflation on batches whose rows are known."""

import numpy as np
import pytest

from leakledger.attacks.gradient.exact.deflation import factored, fit, without
from leakledger.attacks.gradient.exact.network import error_basis, error_of_labels, forward, signals
from leakledger.attacks.gradient.spear.masks import DividedNeurons, distinct, draw_masks
from leakledger.attacks.gradient.spear.points import roots
from leakledger.attacks.observed.affine import affine
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import ModelSpec

WIDTH = 8


def known_batch(rows, classes=2, seed=0, hidden=(60, 60)):
    """Weights, gradient, rows (n, d) and output errors (n, C - 1) of a batch in double precision."""
    coins = np.random.default_rng(seed)
    weights = {k: w.astype(np.float64) for k, w in initial_weights(ModelSpec(WIDTH, classes, hidden), coins).items()}
    encoded = coins.normal(size=(rows, WIDTH))
    passed = forward(weights, encoded)
    error = error_of_labels(passed.probabilities, rows)[np.arange(rows), coins.integers(0, classes, rows)]
    zero = {k: 0 * w for k, w in weights.items()}
    gradient = {k: -g for k, g in without(weights, zero, encoded, error).items()}
    return weights, gradient, encoded, error


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("hidden", [(60,), (60, 50), (30, 40, 50)])
def test_signals_times_errors_are_the_gradients_of_the_pre_activations(classes, hidden):
    """Against central differences of the loss in the biases."""
    weights, gradient, encoded, error = known_batch(5, classes, 1, hidden)
    labels = np.linalg.norm(
        error_of_labels(forward(weights, encoded).probabilities, 5) - error[:, None], axis=2
    ).argmin(1)
    for name in weights:
        if name.endswith("bias"):
            for j in (0, 1):
                loss = []
                for step in (1e-6, -1e-6):
                    moved = {**weights, name: weights[name] + step * np.eye(len(weights[name]))[j]}
                    loss.append(-np.log(forward(moved, encoded).probabilities[np.arange(5), labels]).mean())
                assert (loss[0] - loss[1]) / 2e-6 == pytest.approx(gradient[name][j], abs=1e-7)


def test_masks_by_draws_are_activation_patterns_of_rows():
    weights, gradient, encoded, _ = known_batch(10)
    layer = factored(affine(gradient, 1), 10)
    direction = (error_basis(2) @ weights["2.weight"])[0]
    neurons = DividedNeurons(layer.left / direction[:, None], layer.left @ layer.right / direction[:, None], direction)
    masks, spent = list(draw_masks(neurons, 5000, np.random.default_rng(0), "cpu"))[-1]
    active = forward(weights, encoded).active[1]
    assert spent == 5000 - 2 * 2048
    assert len(masks) >= 5
    assert (masks[:, None] == active).all(2).any(1).all()


def test_neurons_of_equal_gradients_count_once_and_dead_ones_not_at_all():
    seen = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1e-9, 0.0]])
    assert distinct(seen).tolist() == [1, 3]


@pytest.mark.parametrize("classes", [2, 4])
def test_roots_are_rows_of_the_batch(classes):
    weights, gradient, encoded, _ = known_batch(10, classes)
    starts = np.random.default_rng(1).normal(size=(200, WIDTH))
    right = factored(affine(gradient, 1), 10).right
    found = roots(weights, affine(gradient, 0), right, starts, 1, "cpu")
    distance = np.abs(found[:, None] - encoded).max(2)
    assert len(found) > 20
    assert (distance.min(1) < 1e-4).mean() > 0.95
    assert (distance.min(0) < 1e-4).sum() >= 8


@pytest.mark.parametrize("classes", [2, 4])
def test_rows_of_the_batch_fit_with_their_own_errors_and_others_do_not(classes):
    weights, gradient, encoded, error = known_batch(12, classes)
    layer = factored(affine(gradient, 1), 12)
    own = fit(weights, layer, encoded, 12)
    assert own.single.all()
    assert (own.off < 1e-8).all()
    assert np.allclose(own.error, error)
    other = fit(weights, layer, encoded + 0.1, 12)
    assert (other.off > 1e-3).all()


def test_two_equal_rows_fit_as_one_that_is_not_single():
    weights, gradient, encoded, error = known_batch(6)
    twice = without(weights, gradient, encoded[:1], -error[:1])
    result = fit(weights, factored(affine(twice, 1), 6), encoded, 6)
    assert result.single.tolist() == [False] + [True] * 5
    assert np.allclose(result.error[0], 2 * error[0])


@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_without_known_rows_is_that_of_the_others_in_every_layer(classes):
    weights, gradient, encoded, error = known_batch(9, classes)
    rest = without(weights, gradient, encoded[:5], error[:5])
    alone = without(weights, {k: 0 * w for k, w in weights.items()}, encoded[5:], -error[5:])
    assert all(np.allclose(rest[k], alone[k]) for k in rest)
    assert np.linalg.matrix_rank(affine(rest, 1), rtol=1e-12) == 4
    basis = signals(weights, forward(weights, encoded[5:]))[1]
    left = factored(affine(rest, 1), 4).left
    columns = np.einsum("nk,nkw->nw", error[5:], basis)
    assert np.allclose(columns @ left @ left.T, columns)
