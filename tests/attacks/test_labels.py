import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attacks.labels import plausible_rows, public_frequencies, recover_labels, whole_counts
from preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock

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


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_label_of_a_single_row_is_exact_at_any_network(label):
    spec, _, weights, _ = observed_with_layout([label], classes=3)
    trained = {name: 10 * w for name, w in weights.items()}
    rows = torch.from_numpy(plausible_rows(LAYOUT, 1, np.random.default_rng(1)).astype(np.float32))
    found = as_arrays(gradient(spec, as_tensors(trained), rows, torch.tensor([label])))
    assert list(recover_labels(spec, LAYOUT, trained, found, 1)) == [label]


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


def test_a_regression_has_no_labels_to_recover():
    spec = ModelSpec(LAYOUT.width, 1, (4,), task="regression")
    with pytest.raises(ValueError, match="classifiers only, not regression with 1 output"):
        recover_labels(spec, LAYOUT, {}, {"1.bias": np.zeros(1)}, 4)
