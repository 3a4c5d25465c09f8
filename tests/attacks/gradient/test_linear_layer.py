from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, joint
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import as_arrays, as_tensors, dropout_masks, gradient, initial_weights
from leakledger.preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import encode
from tests.attacks.example import server_view

LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=13.0, low=17.0, high=90.0, unit="deviation"),
        CategoricalBlock("job", 1, 6, shift=(0.1,) * 6, scale=(0.3,) * 6),
        NumericBlock("score", 7),
        CategoricalBlock("city", 8, 6),
    )
)


def rows_of(count, seed=0):
    """Categories (n, 2), numbers (n, 2) in claim units, encoded rows (n, 14)."""
    coins = np.random.default_rng(seed)
    categories = coins.integers(0, 6, (count, 2))
    numbers = np.stack([coins.uniform(17, 90, count), coins.normal(size=count)], -1)
    codes = [LAYOUT.block(name).codebook()[c] for name, c in zip(("job", "city"), categories.T, strict=True)]
    encoded = np.hstack([(numbers[:, :1] - 40) / 13, codes[0], numbers[:, 1:], codes[1]])
    return categories, numbers, encoded


def attack(
    encoded,
    hidden=(40, 20),
    activation="relu",
    bounds=None,
    noise=0.0,
    bias=0.0,
    task="",
    dropout=0.0,
    by=None,
    said=None,
    poisson=False,
    **options,
):
    spec = ModelSpec(LAYOUT.width, 2, hidden, activation, dropout=dropout)
    spec = replace(spec, outputs=1, task=task) if task else spec
    weights = initial_weights(spec, np.random.default_rng(0))
    weights["0.bias"] = weights["0.bias"] + np.float32(bias)
    labels = torch.arange(len(encoded)) % 2 if not task else torch.linspace(-2, 3, len(encoded))
    told = torch.tensor(encoded, dtype=torch.float32), labels
    kept = dropout_masks(spec, len(encoded), np.random.default_rng(2))
    observed = as_arrays(gradient(spec, as_tensors(weights), *told, kept))
    coins = np.random.default_rng(1)
    observed = {k: (g + noise * coins.normal(size=g.shape)).astype(np.float32) for k, g in observed.items()}
    payloads = {"weights": weights}, {"rows": said or len(encoded), "gradient": observed}
    messages = (
        Message(0, "train", 0, "train.model", "server", "ann", None, False, encode(payloads[0]), encode(payloads[0])),
        Message(
            1, "train", 0, "train.gradient", "ann", "server", None, False, encode(payloads[1]), encode(payloads[1])
        ),
    )
    training = TrainingSpec("fedsgd", batch_size=1, sampling="poisson") if poisson else None
    public = PublicFacts(("ann",), "server", layout=LAYOUT, model=spec, training=training)
    view = View(frozenset(["server"]), messages, public)
    return (by or LinearLayer(**options)).run(view, AuxiliaryKnowledge(bounds=bounds or {}))


def true_rows(claim, categories, numbers):
    same = (claim.categories[:, None] == categories).all(2)
    return (same & (np.abs(claim.numbers[:, None] - numbers) < 0.05).all(2)).any(1)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_a_batch_of_one_row_is_read_exactly_whatever_the_activation(activation):
    categories, numbers, encoded = rows_of(1)
    (claim,) = attack(encoded, activation=activation)
    assert np.array_equal(claim.categories, categories)
    assert np.allclose(claim.numbers, numbers, atol=1e-3)
    assert claim.verified.tolist() == [True]
    assert claim.residual[0] < 1e-6


@pytest.mark.parametrize("by", [LinearLayer(), Portfolio()])
@pytest.mark.parametrize("more", [{"task": "regression"}, {"dropout": 0.3}, {"task": "regression", "dropout": 0.3}])
def test_neither_loss_nor_dropout_hides_a_single_row(more, by):
    categories, numbers, encoded = rows_of(1, seed=1)
    (claim,) = attack(encoded, by=by, **more)
    assert true_rows(claim, categories, numbers).tolist() == [True]
    assert claim.verified.tolist() == [True]


def test_a_regression_gives_its_rows_away_as_a_classification_does():
    categories, numbers, encoded = rows_of(6)
    for by in (Span(), Portfolio()):
        (claim,) = attack(encoded, hidden=(100, 20), task="regression", by=by)
        assert true_rows(claim, categories, numbers).tolist() == [True] * 6
        assert claim.verified.all()


@pytest.mark.parametrize("by", [LinearLayer(), Span(), Portfolio()])
def test_nothing_is_proven_where_the_number_of_rows_is_a_guess(by):
    """Two rows of one mask mix in one ratio on all neurons, and look like one."""
    _, _, encoded = rows_of(1)
    twice = np.vstack([encoded, encoded + 0.01 * (np.arange(LAYOUT.width) == 0)])
    of = {"hidden": (100,), "task": "regression", "by": by, "said": 1}
    (sure,), (claim,) = (attack(twice, poisson=poisson, **of) for poisson in (False, True))
    assert sure.verified.tolist() == [True]  # of one row, as it is said to be
    assert claim.verified.tolist() == [False]
    assert (claim.category_entropy == 1).all()


def test_dropout_leaves_rows_to_neurons_and_no_proof():
    categories, numbers, encoded = rows_of(4, seed=2)
    (claim,) = attack(encoded, hidden=(200, 20), bias=-0.6, dropout=0.5, by=Portfolio())
    assert true_rows(claim, categories, numbers).sum() >= 2
    assert not claim.verified.any()
    (claim,) = attack(encoded, dropout=0.5, by=Span())
    assert true_rows(claim, categories, numbers).all()
    assert not claim.verified.any()


@pytest.mark.parametrize("seed", range(5))
def test_neurons_that_one_row_activates_give_it_away_and_what_is_verified_is_true(seed):
    """A negative bias leaves most neurons to one row or none."""
    categories, numbers, encoded = rows_of(5, seed)
    (claim,) = attack(encoded, hidden=(200, 20), bias=-0.6)
    assert claim.verified.any()
    assert true_rows(claim, categories, numbers)[claim.verified].all()


def test_a_claim_holds_no_more_rows_than_the_batch_and_none_twice():
    _, _, encoded = rows_of(4)
    (claim,) = attack(encoded, hidden=(200, 20), bias=-0.6)
    rows = np.column_stack([claim.categories, claim.numbers.round(2)])
    assert len(rows) == len(np.unique(rows, axis=0)) <= 4


def test_a_mean_of_two_rows_that_neurons_agree_on_is_not_verified():
    """Two rows of one job and city are active together on many neurons, in one ratio where the masks behind agree."""
    _, _, encoded = rows_of(1)
    pair = np.concatenate([encoded, encoded])
    pair[:, 0], pair[:, 7] = [0.2, 0.21], [0.3, 0.29]
    outcome = attack(pair, bias=2.0)
    assert isinstance(outcome, Abstained) or not outcome[0].verified.any()


def test_a_row_that_only_one_neuron_shows_is_a_candidate():
    (claim,) = attack(rows_of(1)[2], hidden=(1, 20), bias=9.0)
    assert claim.verified.tolist() == [False]
    assert claim.category_entropy.all()


def test_rows_outside_granted_bounds_are_not_claimed():
    _, numbers, encoded = rows_of(1)
    assert isinstance(attack(encoded, bounds={"score": (numbers[0, 1] + 1, numbers[0, 1] + 2)}), Abstained)
    assert isinstance(attack(encoded, bounds={"score": (numbers[0, 1] - 1, numbers[0, 1] + 1)}), list)


def test_a_noisy_gradient_verifies_nothing():
    outcome = attack(rows_of(1)[2], noise=0.001)
    assert isinstance(outcome, Abstained) or not outcome[0].verified.any()


def test_a_network_without_hidden_layer_is_not_applicable():
    assert isinstance(attack(rows_of(2)[2], hidden=()), NotApplicable)
    categories, numbers, encoded = rows_of(1)
    (claim,) = attack(encoded, hidden=())  # of one row there is nothing to mix
    assert true_rows(claim, categories, numbers).tolist() == [True]


@pytest.mark.parametrize("options", [{"residual": 0.0}, {"rank_tolerance": -1.0}])
def test_settings_out_of_range_are_refused_with_their_value(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        LinearLayer(**options)


def test_a_row_that_neurons_show_with_a_faint_share_of_another_too_is_verified_once():
    categories, numbers, encoded = rows_of(2)
    spec = ModelSpec(LAYOUT.width, 2, (100,))
    weights = initial_weights(spec, np.random.default_rng(0))
    active = encoded @ weights["0.weight"].T + weights["0.bias"] > 0
    errors = np.array([[1.0], [-4e-3]]) * (weights["1.weight"][0] - weights["1.weight"][1])
    both = (active * errors).T @ np.hstack([encoded, np.ones((2, 1))])
    shown = {"0.weight": both[:, :-1], "0.bias": both[:, -1], "1.weight": np.zeros((2, 100)), "1.bias": np.zeros(2)}
    gradient = {name: part.astype(np.float32) for name, part in shown.items()}
    (claim,) = LinearLayer().run(server_view(spec, LAYOUT, weights, {"gradient": gradient}, 2), AuxiliaryKnowledge())
    first = (claim.categories == categories[0]).all(1) & (np.abs(claim.numbers - numbers[0]) < 1e-3).all(1)
    assert first.sum() == 2
    assert claim.verified[first].sum() == 1


@pytest.mark.parametrize(("many", "whose"), [(4, "P1+P2+P3+P4"), (12, "12 clients together")])
def test_of_a_sum_over_many_clients_a_reason_says_how_many_and_not_all_their_names(many, whose):
    spec = ModelSpec(LAYOUT.width, 2, (40,))
    weights = {k: np.asarray(w, float) for k, w in initial_weights(spec, np.random.default_rng(0)).items()}
    told = {k: np.zeros_like(w) for k, w in weights.items()}
    victim, labels = joint([f"P{i + 1}" for i in range(many)]), np.zeros(many, int)
    update = ObservedUpdate(victim, 3, many, LAYOUT, spec, labels, weights, told, 2**-24)
    gave_up = LinearLayer().invert(update, AuxiliaryKnowledge())
    assert gave_up == Abstained(f"no neuron of {whose} in round 3 shows a valid row")
