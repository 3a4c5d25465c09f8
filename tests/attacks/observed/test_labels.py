import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.attacks.observed.labels import (
    RECOVERIES,
    counts_from_bias,
    counts_from_weights,
    plausible_cells,
    plausible_rows,
    public_frequencies,
    recover_labels,
    recover_labels_from_weights,
    whole_counts,
)
from leakledger.attacks.observed.labels.weights import handed_out
from leakledger.preprocess.models import ACTIVATIONS, as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock

SHARES = (0.7, 0.2, 0.1)
SCALE = tuple(np.sqrt(np.array(SHARES) * (1 - np.array(SHARES))))
LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=10.0),
        NumericBlock("dose", 1, shift=0.0, scale=5.0, low=0.0, high=5.0),
        CategoricalBlock("ward", 2, 3, ("a", "b", "c"), shift=SHARES, scale=SCALE),
        CategoricalBlock("diet", 5, 4),
    )
)


def observed(labels, seed=0, classes=2, hidden=(50, 50)):
    """The gradient of plausible rows with these labels at a fresh network."""
    coins = np.random.default_rng(seed)
    spec = ModelSpec(LAYOUT.width, classes, hidden, task="multiclass" if classes > 2 else "binary")
    weights = initial_weights(spec, coins)
    rows = torch.from_numpy(plausible_rows(LAYOUT, len(labels), coins).astype(np.float32))
    return spec, weights, as_arrays(gradient(spec, as_tensors(weights), rows, torch.tensor(labels)))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=16), st.integers(0, 50))
def test_counts_of_a_small_batch_at_a_fresh_network_are_exact(labels, seed):
    assert list(recover_labels(*observed_with_layout(labels, seed), len(labels))) == sorted(labels)


def observed_with_layout(labels, seed=0, **options):
    spec, weights, found = observed(labels, seed, **options)
    return spec, LAYOUT, weights, found


def test_counts_of_several_classes_are_exact():
    labels = [0] * 9 + [1] * 2 + [3] * 5
    assert list(recover_labels(*observed_with_layout(labels, classes=4), 16)) == labels


@pytest.mark.parametrize("recover", RECOVERIES.values(), ids=RECOVERIES)
@given(st.data())
def test_the_label_of_a_single_row_is_exact_at_any_network(recover, data):
    classes = data.draw(st.integers(2, 4))
    hidden = tuple(data.draw(st.lists(st.integers(1, 20), max_size=3)))
    spec = ModelSpec(LAYOUT.width, classes, hidden, data.draw(st.sampled_from(sorted(ACTIVATIONS))), "multiclass")
    coins, label = np.random.default_rng(data.draw(st.integers(0, 999))), data.draw(st.integers(0, classes - 1))
    trained = {name: data.draw(st.sampled_from([1, 3])) * w for name, w in initial_weights(spec, coins).items()}
    rows = torch.from_numpy(plausible_rows(LAYOUT, 1, coins).astype(np.float32))
    found = as_arrays(gradient(spec, as_tensors(trained), rows, torch.tensor([label])))
    assert list(recover(spec, LAYOUT, trained, found, 1)) == [label]


@pytest.mark.parametrize("recover", RECOVERIES.values(), ids=RECOVERIES)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(0, 50))
def test_recovered_labels_are_as_many_as_the_rows_and_in_order(recover, labels, seed):
    found = recover(*observed_with_layout(labels, seed, classes=3, hidden=(20,)), len(labels))
    assert len(found) == len(labels)
    assert (np.diff(found) >= 0).all()
    assert set(found) <= {0, 1, 2}


def by_hand(spec, weights, gradient, rows, dummies):
    """Geng et al.: n_c = B p_c - B dW_c / O, one dummy row and one activation at a time."""
    shares, totals = [], []
    for row in dummies:
        for i in range(len(spec.hidden)):
            row = np.maximum(weights[f"{i}.weight"].astype(float) @ row + weights[f"{i}.bias"], 0)
        totals.append(sum(row))
        logits = weights[f"{len(spec.hidden)}.weight"].astype(float) @ row + weights[f"{len(spec.hidden)}.bias"]
        shares.append(np.exp(logits) / np.exp(logits).sum())
    summed = [sum(float(v) for v in line) for line in gradient[f"{len(spec.hidden)}.weight"]]
    return [rows * p - rows * d / np.mean(totals) for p, d in zip(np.mean(shares, 0), summed, strict=True)]


@pytest.mark.parametrize("hidden", [(), (6,), (7, 5)])
def test_counts_from_the_weights_are_those_of_the_formula(hidden):
    spec, _, weights, found = observed_with_layout([0, 0, 1, 2, 2], classes=3, hidden=hidden)
    dummies = np.random.default_rng(3).normal(size=(20, LAYOUT.width))
    counts = counts_from_weights(spec, weights, found, 5, dummies)
    assert counts == pytest.approx(by_hand(spec, weights, found, 5, dummies), rel=1e-5)


def test_counts_from_the_weights_are_exact_over_the_batch_itself_where_activations_do_not_depend_on_the_row():
    labels = [0, 0, 0, 1, 2]
    spec, _, weights, _ = observed_with_layout(labels, classes=3, hidden=(8,))
    rows = np.repeat(plausible_rows(LAYOUT, 1, np.random.default_rng(2)), 5, 0)
    told = torch.from_numpy(rows.astype(np.float32)), torch.tensor(labels)
    found = as_arrays(gradient(spec, as_tensors(weights), *told))
    assert counts_from_weights(spec, weights, found, 5, rows) == pytest.approx([3, 1, 1], abs=1e-4)


def test_a_last_layer_that_is_never_active_leaves_the_mean_probabilities():
    spec, _, weights, found = observed_with_layout([0, 1, 1, 1], hidden=(6,))
    silent = {**weights, "0.bias": np.full(6, -1e6, np.float32), "1.bias": np.zeros(2, np.float32)}
    dummies = np.zeros((3, LAYOUT.width))
    assert counts_from_weights(spec, silent, found, 4, dummies) == pytest.approx([2, 2])


def test_the_bias_is_nearer_to_the_counts_than_the_weights_are():
    errors = {"bias": 0.0, "weights": 0.0}
    for seed in range(10):
        labels = list(np.random.default_rng(seed).integers(0, 2, 16))
        given_ = observed_with_layout(labels, seed)
        spec, _, weights, found = given_
        dummies = np.random.default_rng(seed).normal(size=(500, LAYOUT.width))
        errors["bias"] += abs(counts_from_bias(*given_, 16)[1] - sum(labels))
        errors["weights"] += abs(counts_from_weights(spec, weights, found, 16, dummies)[1] - sum(labels))
    assert errors["bias"] < errors["weights"]


@given(arrays(np.float64, st.integers(2, 6), elements=st.floats(-50, 50)), st.integers(1, 200))
def test_handed_out_counts_are_never_negative_and_sum_to_the_rows(estimates, rows):
    counts = handed_out(estimates, rows)
    assert (counts >= 0).all()
    assert counts.sum() == rows


def test_each_row_is_handed_to_the_class_that_has_the_most_left():
    assert handed_out(np.array([3.6, 2.2, -1.0]), 5).tolist() == [3, 2, 0]
    assert handed_out(np.array([9.0, 0.4]), 8).tolist() == [8, 0]


@given(arrays(np.float64, st.integers(2, 6), elements=st.floats(-50, 50)), st.integers(1, 200))
def test_whole_counts_are_never_negative_and_sum_to_the_rows(estimates, rows):
    counts = whole_counts(estimates, rows)
    assert (counts >= 0).all()
    assert counts.sum() == rows


@given(arrays(np.int64, st.integers(2, 6), elements=st.integers(0, 30)).filter(lambda n: n.sum() > 0))
def test_whole_counts_near_whole_numbers_are_these(counts):
    noise = np.linspace(-0.05, 0.05, len(counts)) * (counts > 0)
    assert list(whole_counts(counts + noise - noise.mean() * (counts > 0), counts.sum())) == list(counts)


def test_frequencies_are_read_from_scaled_one_hot_columns_only():
    assert public_frequencies(LAYOUT.block("ward")) == pytest.approx(SHARES)
    assert public_frequencies(LAYOUT.block("diet")) is None


def test_plausible_rows_follow_what_is_public():
    rows = plausible_rows(LAYOUT, 4000, np.random.default_rng(0))
    wards = (rows[:, 2:5] * SCALE + SHARES).round().mean(0)
    assert wards == pytest.approx(SHARES, abs=0.03)
    assert rows[:, 5:].sum(1) == pytest.approx(1)
    assert (rows[:, 1].min(), rows[:, 1].max()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))
    assert rows[:, 0].std() == pytest.approx(1, abs=0.05)


def test_plausible_rows_are_the_encoding_of_plausible_cells_also_where_features_share_columns():
    bits = np.array([[1.0, 1, 0], [0, 1, 1]])
    blocks = (CategoricalBlock("a", 0, 2, codes=bits), CategoricalBlock("b", 0, 2, codes=bits), NumericBlock("x", 1))
    layout = FeatureLayout(blocks)
    categories, numbers = plausible_cells(layout, 20, np.random.default_rng(5))
    expected = bits[categories[:, 0]] + bits[categories[:, 1]] + numbers * [0, 1, 0]
    assert plausible_rows(layout, 20, np.random.default_rng(5)) == pytest.approx(expected)


@pytest.mark.parametrize("recover", RECOVERIES.values(), ids=RECOVERIES)
def test_a_regression_has_no_labels_to_recover(recover):
    spec = ModelSpec(LAYOUT.width, 1, (4,), task="regression")
    with pytest.raises(ValueError, match="classifiers only, not regression with 1 output"):
        recover(spec, LAYOUT, {}, {"1.bias": np.zeros(1)}, 4)


def test_the_bias_is_the_default_and_the_weights_are_another_technique():
    assert list(RECOVERIES.items()) == [("bias", recover_labels), ("weights", recover_labels_from_weights)]
