import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.tableak_fedavg.objective import simulated_update
from leakledger.attacks.gradient.tableak_fedavg.surrogate import surrogate
from leakledger.attacks.observed.update import ObservedUpdate, Schedule
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import FeatureLayout, ModelSpec, NumericBlock
from tests.attacks.example import DOUBLE

SPEC = ModelSpec(6, 2, (20, 20))
LAYOUT = FeatureLayout(tuple(NumericBlock(f"n{i}", i) for i in range(6)))


def trained(schedule, seed=0):
    """A training of a client, and its rows (T, d), as float64."""
    coins = np.random.default_rng(seed)
    weights = {n: w.astype(np.float64) for n, w in initial_weights(SPEC, coins).items()}
    rows, labels = coins.normal(size=(schedule.rows, 6)), coins.integers(0, 2, schedule.rows)
    order = np.concatenate([coins.permutation(schedule.rows) for _ in range(schedule.epochs)])
    total = gradient(schedule, weights, rows[order], labels[order])
    seen = LAYOUT, SPEC, labels[order], weights, total, DOUBLE
    return ObservedUpdate("ann", 0, schedule.rows, *seen, schedule=schedule), rows[order]


def gradient(schedule, weights, rows, labels):
    tensors = {n: torch.tensor(w) for n, w in weights.items()}
    given = torch.tensor(rows), torch.tensor(labels)
    return {n: u.numpy() for n, u in simulated_update(SPEC, schedule.steps, schedule.rate, tensors, *given).items()}


def angle(one, other):
    """1 - cosine of two updates."""
    a, b = (np.concatenate([u.ravel() for u in update.values()]) for update in (one, other))
    return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**16))
def test_it_is_one_step_over_the_rows_of_the_first_epoch_with_the_same_update(rows, epochs, batch, seed):
    training, _ = trained(Schedule(rows, epochs, batch, 0.01), seed)
    one = surrogate(training)
    assert one.schedule == Schedule(rows, 1, rows, 0.01)
    np.testing.assert_array_equal(one.labels, training.labels[:rows])
    assert one.gradient is training.gradient
    assert (one.victim, one.round, one.evidence) == (training.victim, training.round, training.evidence)


@pytest.mark.parametrize("batch", [8, 2])
def test_its_gradient_at_the_true_rows_points_where_the_whole_training_went(batch):
    for rate, bound in ((1e-4, 1e-4), (1e-2, 1e-2)):
        training, rows = trained(Schedule(8, 5, batch, rate))
        one = surrogate(training)
        assert angle(gradient(one.schedule, one.weights, rows[:8], one.labels), training.gradient) < bound


def test_it_stands_in_the_middle_of_the_way_because_gradients_there_are_nearest_to_their_mean():
    at_middle, at_start = [], []
    for seed in range(10):
        training, rows = trained(Schedule(8, 10, 8, 0.05), seed)
        one = surrogate(training)
        after = {n: w - 0.05 * training.gradient[n] for n, w in training.weights.items()}
        for name, w in one.weights.items():
            np.testing.assert_allclose(w, (training.weights[name] + after[name]) / 2)
        at_middle.append(angle(gradient(one.schedule, one.weights, rows[:8], one.labels), training.gradient))
        at_start.append(angle(gradient(one.schedule, training.weights, rows[:8], one.labels), training.gradient))
    assert 3 * np.mean(at_middle) < np.mean(at_start)
