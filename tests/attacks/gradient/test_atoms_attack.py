from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.exact.network import forward
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.preprocess.models import ACTIVATIONS, as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, View
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe, rows_of, server_view
from tests.attacks.gradient.amounts import false, table

NOTHING = AuxiliaryKnowledge()
EVERY = sorted(ACTIVATIONS)
# One number by itself is exact beside its deviation, if that is said to be its unit.
STANDARD = FeatureLayout(tuple(replace(b, unit="deviation") if b.feature == "score" else b for b in LAYOUT.blocks))


def attack(view, **options):
    return Atoms(**options).run(view, NOTHING)


def update_of(encoded, **options):
    (update,) = find_gradients(observe(encoded, **options), NOTHING)
    return update


@pytest.mark.parametrize("activation", EVERY)
@pytest.mark.parametrize("count", [1, 8, 16])
def test_every_row_of_a_batch_is_recovered_and_verified_whatever_the_activation(activation, count):
    categories, numbers, encoded = rows_of(STANDARD, count, count)
    (claim,) = attack(observe(encoded, STANDARD, activation=activation, seed=count))
    assert len(claim.numbers) == count
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()
    assert (claim.residual < 1e-5).all()
    assert not claim.number_entropy.any()


@pytest.mark.parametrize("activation", ["tanh", "gelu", "sigmoid"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_agree_in_every_category_are_told_apart(activation, seed):
    categories, numbers, encoded = rows_of(LAYOUT, 10, seed, alike=True)
    (claim,) = attack(observe(encoded, activation=activation, seed=seed))
    assert exact(claim, categories, numbers).all()
    # Numbers are read to about a thousandth of a deviation behind sigmoid, where it is what a certificate asks.
    assert claim.verified.all() if activation != "sigmoid" else claim.verified.mean() >= 0.5


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_row_that_occurs_twice_is_claimed_twice_and_not_verified(activation, label):
    categories, numbers, encoded = rows_of(LAYOUT, 6, 0)
    twice = np.concatenate([encoded[:6], encoded[[0 if label else 1]]])  # labels alternate: alike, and not alike
    (claim,) = attack(observe(twice, activation=activation))
    assert len(claim.numbers) == 7
    assert exact(claim, categories, numbers).all()
    copies = exact(replace(claim), categories[[0]], numbers[[0]])
    assert copies.all()
    same = (claim.categories == categories[0 if label else 1]).all(1)
    assert same.sum() == 2
    assert not claim.verified[same].any()
    assert claim.verified[~same].all()


def behind(spec, weights, encoded, labels):
    """What a server sees of the gradient of such a network."""
    import torch

    told = torch.tensor(encoded, dtype=torch.float32), torch.tensor(labels)
    observed = as_arrays(gradient(spec, as_tensors(weights), *told))
    return server_view(spec, LAYOUT, weights, {"gradient": observed}, len(encoded))


def three_classes(encoded, labels, activation):
    spec = ModelSpec(LAYOUT.width, 3, (100, 100), activation, task="multiclass")
    return behind(spec, initial_weights(spec, np.random.default_rng(0)), encoded, labels)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu"])
def test_a_model_of_three_classes_gives_its_rows_away_too(activation):
    categories, numbers, encoded = rows_of(LAYOUT, 12, 1)
    (claim,) = attack(three_classes(encoded, np.arange(12) % 3, activation))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_neuron_whose_ways_out_cancel_refutes_no_rows(activation):
    categories, numbers, encoded = rows_of(LAYOUT, 12, 1)
    spec = ModelSpec(LAYOUT.width, 2, (100, 100), activation)
    weights = dict(initial_weights(spec, np.random.default_rng(0)))
    weights["2.weight"] = weights["2.weight"].copy()
    weights["2.weight"][:, 7] = 0.09, 0.09002
    (claim,) = attack(behind(spec, weights, encoded, np.arange(12) % 2))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_one_hidden_layer_is_enough():
    categories, numbers, encoded = rows_of(LAYOUT, 8, 2)
    (claim,) = attack(observe(encoded, hidden=(100,), activation="tanh"))
    assert exact(claim, categories, numbers).all()


def test_a_few_rows_without_categories_are_recovered_from_random_starts():
    categories, numbers, encoded = rows_of(NUMERIC, 3, 1)
    (claim,) = attack(observe(encoded, NUMERIC, activation="tanh"))
    assert exact(claim, categories, numbers).all()


@pytest.mark.parametrize("activation", EVERY)
@pytest.mark.parametrize("seed", range(2))
def test_a_gradient_that_is_perturbed_by_a_hundred_thousandth_certifies_nothing(activation, seed):
    encoded = rows_of(LAYOUT, 8, seed)[2]
    update, coins = update_of(encoded, activation=activation, seed=seed), np.random.default_rng(seed)
    noisy = {
        name: g + 1e-5 * np.sqrt((g**2).mean()) * coins.normal(size=g.shape) for name, g in update.gradient.items()
    }
    outcome = Atoms(attempts=1).invert(replace(update, gradient=noisy), NOTHING)
    assert isinstance(outcome, Abstained) or not outcome.verified.any()


@pytest.mark.parametrize("noise", [0.001, 0.1])
def test_a_noisy_gradient_is_abstained_from_with_rank_and_batch_size(noise):
    outcome = attack(observe(rows_of(LAYOUT, 6, 0)[2], noise=noise, activation="tanh"))
    assert isinstance(outcome, Abstained)
    assert "rank" in outcome.reason
    assert "the 6 of the batch" in outcome.reason


@pytest.mark.parametrize(("activation", "noise"), [("sigmoid", 5e-4), ("tanh", 2e-3), ("relu", 2e-3)])
def test_a_first_layer_that_noise_hides_turns_no_code_of_a_row_that_deeper_layers_show(activation, noise):
    """An empty row space has all codes at 0, where one category has its own."""
    grade = CategoricalBlock("grade", 0, 4, codes=np.array([[0.0], [1.0], [2.0], [3.0]]))
    layout = FeatureLayout((grade, CategoricalBlock("city", 1, 8)))
    categories, _, encoded = rows_of(layout, 1, 1)
    update = replace(update_of(encoded, layout=layout, noise=noise, activation=activation, seed=1), noise=noise)
    claim = Atoms(attempts=1).invert(update, NOTHING, encoded)
    assert claim.categories.tolist() == categories.tolist()
    assert claim.verified.all()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_gradient_of_another_network_gives_no_rows(activation):
    encoded = rows_of(LAYOUT, 6, 0)[2]
    view, other = (observe(encoded, seed=seed, activation=activation) for seed in (0, 1))
    swapped = View(view.observers, (other.messages[0], view.messages[1]), view.public)
    assert isinstance(attack(swapped, attempts=1), Abstained)


def test_a_network_without_a_hidden_layer_is_not_applicable():
    outcome = attack(observe(rows_of(LAYOUT, 4, 0)[2], hidden=(), activation="tanh"))
    assert isinstance(outcome, NotApplicable)
    assert "hidden" in outcome.reason


def test_as_many_rows_as_neurons_are_abstained_from():
    outcome = attack(observe(rows_of(LAYOUT, 12, 0)[2], hidden=(10, 10), activation="tanh"))
    assert isinstance(outcome, Abstained)


def test_rows_that_another_attack_knows_are_found_without_a_search():
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    update = update_of(encoded, activation="tanh")
    known = np.concatenate([encoded, (encoded[:4] + encoded[4:]) / 2])  # and mixtures, which are no rows
    claim = Atoms(attempts=0, budget=1).invert(update, NOTHING, known)
    assert len(claim.numbers) == 8
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_a_part_of_the_rows_is_proven_on_its_own():
    categories, numbers, encoded = rows_of(STANDARD, 8, 0)
    update = update_of(encoded, layout=STANDARD, activation="tanh")
    claim = Atoms(attempts=0, budget=1).invert(update, NOTHING, encoded[[1, 5]])
    assert len(claim.numbers) == 2
    assert exact(claim, categories[[1, 5]], numbers[[1, 5]]).all()
    assert claim.verified.all()


def test_the_same_view_gives_the_same_claim():
    view = observe(rows_of(LAYOUT, 10, 3, alike=True)[2], activation="gelu")
    (one,), (other,) = attack(view), attack(view)
    assert np.array_equal(one.numbers, other.numbers)


@pytest.mark.parametrize("options", [{"budget": 0}, {"candidates": 0}, {"attempts": -1}, {"seed": -1}])
def test_settings_out_of_range_are_refused_with_their_value(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Atoms(**options)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(EVERY), st.integers(1, 14), st.integers(0, 10**6), st.booleans())
def test_no_row_that_is_verified_is_false(activation, count, seed, alike):
    categories, numbers, encoded = rows_of(LAYOUT, max(2, count), seed, alike)
    outcome = attack(observe(encoded, activation=activation, seed=seed % 97), attempts=1)
    if not isinstance(outcome, Abstained):
        (claim,) = outcome
        verified = claim.categories[claim.verified], claim.numbers[claim.verified]
        same = (verified[0][:, None] == categories).all(2) & (np.abs(verified[1][:, None] - numbers) < 1e-3).all(2)
        assert same.any(1).all()


def with_a_pair(batch, shared, apart):
    """Encoded rows of a table of skewed amounts, of which the first two have one mask in the layer `shared` and, in the
    layer `apart`, two; with their layout, categories and numbers.
    """
    layout, categories, numbers, encoded = table(0)
    spec = ModelSpec(layout.width, 2, (100, 100), "relu")
    masks = forward(initial_weights(spec, np.random.default_rng(0)), encoded[:600]).active
    same, other = (squareform(pdist(masks[layer], "hamming")) for layer in (shared, apart))
    i, j = np.unravel_index(np.where(same == 0, other, 0).argmax(), same.shape)
    alone = np.flatnonzero((same == 0).sum(1) + (other == 0).sum(1) == 2)
    rows = np.concatenate([[i, j], alone[: batch - 2]])
    return layout, categories[rows], numbers[rows], encoded[rows]


@pytest.mark.parametrize(("shared", "apart"), [(1, 0), (0, 1)])
def test_two_rows_that_one_layer_sees_with_one_mask_are_told_apart_by_another(shared, apart):
    layout, categories, numbers, encoded = with_a_pair(18, shared, apart)
    (update,) = find_gradients(observe(encoded, layout), NOTHING)
    claim = Atoms(attempts=0).invert(update, NOTHING, encoded[2:])
    assert exact(claim, categories, numbers).all()
    assert not false(claim, categories, numbers, numbers.std(0)).any()


@pytest.mark.parametrize("times", [4, 5])
def test_a_row_is_claimed_as_often_as_it_occurs(times):
    categories, numbers, encoded = rows_of(LAYOUT, 6, 0)
    (claim,) = attack(observe(np.concatenate([encoded, np.repeat(encoded[:1], times - 1, 0)])))
    same = (claim.categories == categories[0]).all(1)
    assert same.sum() == times
    assert not claim.verified[same].any()
    assert exact(claim, categories, numbers).all()
