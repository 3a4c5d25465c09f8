"""Whole batches that were found in any way: the true one is proven, no other is taken for it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.all_layers import whole
from leakledger.attacks.gradient.all_layers.whole import held
from leakledger.attacks.gradient.exact.rows import EncodedRows, with_codes
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.preprocess.models import as_arrays, as_tensors, forward, gradient, initial_weights
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock
from tests.attacks.example import LAYOUT, exact, observe, rows_of, server_view

SMOOTH = ["tanh", "gelu", "sigmoid"]
NUMERIC = [block.start for block in LAYOUT.numeric]


def update_of(encoded, layout=LAYOUT, known=True, **network):
    labels = {("ann", 0): np.arange(len(encoded)) % 2} if known else {}
    (update,) = find_gradients(observe(encoded, layout, **network), AuxiliaryKnowledge(labels=labels))
    return update


def rough(encoded, seed=0, by=0.05, columns=NUMERIC):
    """The rows with numbers that are off by about so much."""
    off = np.zeros_like(encoded)
    off[:, columns] = by * np.random.default_rng(seed).normal(size=(len(encoded), len(columns)))
    return encoded + off


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
def test_true_rows_in_any_order_with_rough_numbers_are_proven_with_exact_ones(activation, known):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 1)
    update = update_of(encoded, activation=activation, known=known)
    order = np.random.default_rng(0).permutation(8)
    claim = held(update, EncodedRows(categories[order], rough(encoded)[order]))
    assert claim is not None
    assert claim.verified.all()
    assert exact(claim, categories, numbers).all()
    assert np.array_equal(claim.categories, categories[order])


def test_more_rows_than_any_layer_has_neurons_are_told_from_others_and_not_proven():
    """Output errors of a dozen rows depend on each other in eight neurons, so that no row stands by itself."""
    categories, numbers, encoded = rows_of(LAYOUT, 12, 2)
    update = update_of(encoded, hidden=(8, 8), activation="tanh")
    claim = held(update, EncodedRows(categories, rough(encoded, by=0.01)))
    assert claim is not None
    assert exact(claim, categories, numbers).all()
    assert not claim.verified.any()
    other = categories.copy()
    other[3, 1] = (other[3, 1] + 1) % 8
    assert held(update, with_codes(LAYOUT, other, rough(encoded, by=0.01))) is None


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "leaky-relu"])
def test_no_batch_with_another_category_explains_a_gradient(activation):
    for seed in range(3):
        categories, _, encoded = rows_of(LAYOUT, 6, seed)
        update = update_of(encoded, hidden=(30, 20), activation=activation, seed=seed)
        coins = np.random.default_rng(seed)
        for changed in range(1, 4):
            other = categories.copy()
            for row in coins.choice(6, changed, replace=False):
                k = coins.integers(categories.shape[1])
                size = LAYOUT.categorical[k].size
                other[row, k] = (other[row, k] + coins.integers(1, size)) % size
            assert held(update, with_codes(LAYOUT, other, rough(encoded, seed, 0.01))) is None


def test_a_part_of_a_batch_and_one_of_a_guessed_size_are_left_alone():
    categories, _, encoded = rows_of(LAYOUT, 4, 0)
    update, rows = update_of(encoded, activation="tanh"), EncodedRows(categories, encoded)
    assert held(update, rows) is not None
    assert held(update, rows.where(np.arange(3))) is None
    assert held(replace(update, guessed_size=True), rows) is None
    assert held(replace(update, assumed_size=True), rows) is None


def test_noise_leaves_more_than_rows_explain():
    categories, _, encoded = rows_of(LAYOUT, 4, 0)
    update = update_of(encoded, activation="tanh", noise=1e-5)
    assert held(update, EncodedRows(categories, encoded)) is None


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("noise", [1e-6, 1e-4])
def test_no_more_is_left_of_a_gradient_than_its_noise_where_that_is_known(activation, noise):
    """Entries are about 4e-3: of the largest noise tens of times as much would be left by all kinds of rows."""
    for seed in range(2):
        categories, _, encoded = rows_of(LAYOUT, 4, seed)
        update = replace(update_of(encoded, activation=activation, noise=noise, seed=seed), noise=noise)
        assert held(update, EncodedRows(categories, encoded)) is not None
        for row, k in np.ndindex(categories.shape):
            other = categories.copy()
            other[row, k] = (other[row, k] + 1) % LAYOUT.categorical[k].size
            assert held(update, with_codes(LAYOUT, other, encoded)) is None


def test_a_network_that_tells_less_than_there_is_to_choose_proves_nothing():
    """A neuron of three numbers and the errors of its output tell five of a dozen rows, each of which has two."""
    layout = FeatureLayout((NumericBlock("age", 0), NumericBlock("score", 1)))
    _, _, encoded = rows_of(layout, 12, 0)
    rows = EncodedRows(np.zeros((12, 0), np.int64), encoded)
    small = update_of(encoded, layout, hidden=(1,), activation="tanh")
    assert held(small, rows) is None
    assert held(update_of(encoded, layout, hidden=(40, 40), activation="tanh"), rows) is not None


@pytest.mark.parametrize("spare", [-(10**9), whole.SPARE])
def test_it_is_counted_what_rows_may_be_chosen_from(monkeypatch, spare):
    """Ten rows of 2^10 values each are 100 bits, of which a gradient of two neurons tells no more."""
    monkeypatch.setattr(whole, "SPARE", spare)
    codes = np.random.default_rng(0).normal(size=(1024, 1))
    layout = FeatureLayout((CategoricalBlock("code", 0, 1024, codes=codes),))
    categories, _, encoded = rows_of(layout, 10, 0)
    update = update_of(encoded, layout, hidden=(2,), activation="tanh")
    assert (held(update, EncodedRows(categories, encoded)) is None) == (spare > 0)


def test_rows_far_beyond_what_squares_hold_are_no_error():
    categories, _, encoded = rows_of(LAYOUT, 4, 0)
    update = update_of(encoded, activation="tanh")
    huge = encoded.copy()
    huge[:, NUMERIC] = 1e200
    assert held(update, EncodedRows(categories, huge)) is None


def test_numbers_that_no_layer_determines_are_no_error():
    """One neuron leaves no direction of its layer out, and tells no two rows apart."""
    categories, _, encoded = rows_of(LAYOUT, 2, 0)
    update = update_of(encoded, hidden=(1,), activation="tanh")
    claim = held(update, EncodedRows(categories, encoded))
    assert claim is None or not claim.verified.any()


def test_a_batch_that_no_neuron_of_the_first_layer_passes_on_is_no_error():
    layout = FeatureLayout((NumericBlock("age", 0), NumericBlock("score", 1)))
    encoded = np.array([[0.5, 0.2]])
    updates = (update_of(encoded, layout, hidden=(2, 30), seed=seed) for seed in range(100))
    update = next(u for u in updates if not u.gradient["0.bias"].any())
    assert held(update, EncodedRows(np.zeros((1, 0), np.int64), encoded)) is None


CODES = np.linspace(-1.5, 1.5, 8)


def faint(seed, scale, rows=6):
    """Rows of ordinal codes that a network is sure of but for two, which drown the shares of the others, and what is
    worked out of their gradient where noise is in it.
    """
    coins = np.random.default_rng(seed)
    blocks = (CategoricalBlock(f"c{i}", i, 8, codes=CODES[:, None]) for i in range(10))
    layout, categories = FeatureLayout(tuple(blocks)), coins.integers(0, 8, (rows, 10))
    spec, encoded = ModelSpec(10, 2, (300,), "gelu"), torch.tensor(CODES[categories], dtype=torch.float32)
    weights = initial_weights(spec, coins)
    weights = {**weights, "1.weight": np.float32(scale) * weights["1.weight"]}
    labels = forward(spec, as_tensors(weights), encoded).argmax(1)
    labels[:2] = 1 - labels[:2]
    told = as_arrays(gradient(spec, as_tensors(weights), encoded, labels))
    view = server_view(spec, layout, weights, {"gradient": told}, rows)
    (update,) = find_gradients(view, AuxiliaryKnowledge(labels={("ann", 0): labels.numpy()}))
    noised = {name: g + 1e-8 * coins.normal(size=g.shape) for name, g in update.gradient.items()}
    return replace(update, gradient=noised, noise=1e-8), categories


def test_a_wrong_code_of_a_faint_row_is_not_proven_by_what_little_it_leaves():
    """What is left is small in the mean over all entries, and all of it is of one row and one column."""
    explained = 0
    for seed in (0, 6):
        update, categories = faint(seed, scale=16)
        true = held(update, EncodedRows(categories, CODES[categories]))
        assert true is not None
        assert true.verified.all()
        for row, column in np.ndindex(categories.shape):
            other = categories.copy()
            other[row, column] += 1 if other[row, column] < 7 else -1
            claim = held(update, EncodedRows(other, CODES[other]))
            if claim is not None:
                explained += 1
                assert not claim.verified[row]
    assert explained
