"""Rows that are read off the row space alone, where nothing tells how much each neuron counts them for."""

from itertools import combinations

import numpy as np
import pytest
import torch

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.span.unweighed import smallest
from leakledger.preprocess.models import as_arrays, as_tensors, dropout_masks, gradient, initial_weights
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, TrainingSpec
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe, observe_training, rows_of, server_view

NOTHING = AuxiliaryKnowledge()
TRAINING = TrainingSpec("fedavg", learning_rate=0.1, batch_size=2, local_epochs=5)
BOTH = pytest.mark.parametrize("attack", [Span(), Portfolio()], ids=lambda a: a.technique)


@BOTH
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu", "leaky-relu", "elu"])
def test_local_steps_hide_no_row_behind_any_activation_and_prove_none(attack, activation):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 1)
    (claim,) = attack.run(observe_training(encoded, TRAINING, activation=activation), NOTHING)
    assert exact(claim, categories, numbers, 0.02).all()
    assert len(claim.numbers) == 8
    assert not claim.verified.any()


def one_gradient(encoded, seed=0, layout=LAYOUT, **kind):
    """The view of a server that receives one gradient of a regression, or of a network with dropout."""
    spec = ModelSpec(layout.width, 1 if kind.get("task") == "regression" else 2, (60, 40), **kind)
    weights, coins = initial_weights(spec, np.random.default_rng(seed)), np.random.default_rng(seed + 1)
    told = torch.tensor(encoded, dtype=torch.float32), torch.arange(len(encoded)) % 2
    kept = dropout_masks(spec, len(encoded), coins)
    return server_view(
        spec, layout, weights, {"gradient": as_arrays(gradient(spec, as_tensors(weights), *told, kept))}, len(encoded)
    )


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        {"dropout": 0.2},
        {"dropout": 0.2, "norm": "layer"},
        {"task": "regression", "activation": "tanh"},
        {"task": "regression", "activation": "gelu", "dropout": 0.2},
    ],
    ids=str,
)
def test_neither_dropout_nor_a_regression_hides_a_row_behind_any_activation(attack, kind):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 2)
    (claim,) = attack.run(one_gradient(encoded, **kind), NOTHING)
    assert exact(claim, categories, numbers, 0.01).all()
    assert not claim.verified.any()


def test_of_rows_that_agree_in_every_category_the_categories_are_claimed_once():
    categories, _, encoded = rows_of(LAYOUT, 8, 3, alike=True)
    (claim,) = Span().run(one_gradient(encoded, dropout=0.2), NOTHING)
    assert np.array_equal(np.unique(claim.categories, axis=0), np.unique(categories, axis=0))
    assert np.isnan(claim.residual).all()


def test_single_neurons_count_for_more_where_the_row_space_leaves_numbers_open():
    """Two rows of one kind: the row space has one row of each kind, single neurons show the numbers of all."""
    kinds = FeatureLayout((*NUMERIC.blocks[:3], CategoricalBlock("kind", 3, 3)))
    coins = np.random.default_rng(0)
    categories, numbers = np.array([[0], [0], [1], [2]]), coins.normal(size=(4, 3))
    view = one_gradient(np.hstack([numbers, np.eye(3)[categories[:, 0]]]), layout=kinds, dropout=0.5)
    (by_space,), (best,) = Span().run(view, NOTHING), Portfolio().run(view, NOTHING)
    assert len(by_space.numbers) == 3
    assert not exact(by_space, categories, numbers).any()
    assert exact(best, categories, numbers).all()


def test_numbers_alone_are_not_told_apart_by_their_row_space():
    encoded = np.random.default_rng(0).normal(size=(4, 12))
    outcome = Span().run(one_gradient(encoded, layout=NUMERIC, dropout=0.2), NOTHING)
    assert isinstance(outcome, Abstained)
    assert "directions of the row space open" in outcome.reason


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_a_gradient_that_can_be_computed_again_is_left_to_attacks_that_do_so(activation):
    outcome = Span().run(observe(rows_of(LAYOUT, 4, 0)[2], activation=activation), NOTHING)
    assert isinstance(outcome, NotApplicable)


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_chosen_are_the_smallest_independent_ones(seed):
    coins = np.random.default_rng(seed)
    rows = coins.normal(size=(4, 4))
    mixtures = [rows[i] - rows[j] + rows[k] for i, j, k in ((0, 1, 2), (3, 2, 1), (2, 0, 3))]
    coordinates = np.concatenate([rows, mixtures])[coins.permutation(7)]
    chosen, valid = smallest(coordinates, np.ones(7, bool), 1e-6), np.ones(7, bool)
    size = np.linalg.norm(coordinates, axis=1)
    least = min(size[[*c]].sum() for c in combinations(range(7), 4) if np.linalg.matrix_rank(coordinates[[*c]]) == 4)
    assert size[chosen].sum() == pytest.approx(least)
    valid[chosen[0]] = False
    assert chosen[0] not in smallest(coordinates, valid, 1e-6)
