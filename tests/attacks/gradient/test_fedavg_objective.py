import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.gradient.matching.objective import ClosedFormObjective
from leakledger.attacks.gradient.tableak_fedavg.objective import (
    AutogradUpdateObjective,
    simulated_update,
    update_objective,
)
from leakledger.attacks.gradient.tableak_fedavg.unrolled import UnrolledObjective
from leakledger.attacks.observed.update import Schedule
from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import draw_batches
from leakledger.preprocess.training.fedavg import FedAvg
from leakledger.preprocess.views import ModelSpec, TrainingSpec

RATES, PROXIMAL = st.sampled_from([0.01, 0.5]), st.sampled_from([0.0, 0.8])
SCHEDULES = st.builds(Schedule, st.integers(2, 5), st.integers(1, 3), st.integers(1, 5), RATES, PROXIMAL)


def problem(schedule, activation="relu", hidden=(6, 5), classes=3, victims=2, restarts=3, seed=0):
    """Random weights, observed updates of norm 1 and labels of some victims, and candidate rows for each."""
    spec = ModelSpec(4, classes, hidden, activation)
    coins = np.random.default_rng(seed)
    torch.manual_seed(seed)
    each = [initial_weights(spec, coins) for _ in range(victims)]
    weights = {n: torch.tensor(np.stack([w[n] for w in each]), dtype=torch.float64) for n in each[0]}
    observed = {n: torch.randn_like(w) for n, w in weights.items()}
    norm = torch.stack([o.flatten(1).square().sum(1) for o in observed.values()]).sum(0).sqrt()
    observed = {n: o / norm.view(-1, *[1] * (o.dim() - 1)) for n, o in observed.items()}
    labels = torch.randint(0, classes, (victims, schedule.total))
    return spec, weights, observed, labels, torch.randn(victims, restarts, schedule.total, 4, dtype=torch.float64)


@settings(max_examples=15, deadline=None)
@given(
    SCHEDULES,
    st.sampled_from(["relu", "leaky-relu"]),
    st.sampled_from([(), (6,), (6, 5), (3, 4, 5)]),
    st.integers(0, 2**16),
)
def test_the_unrolled_objective_and_its_gradient_are_those_of_autograd(schedule, activation, hidden, seed):
    spec, weights, observed, labels, rows = problem(schedule, activation, hidden, seed=seed)
    slope = {"relu": 0.0, "leaky-relu": 0.01}[activation]
    fast = UnrolledObjective(len(hidden) + 1, slope, schedule, weights, observed, labels, rows.shape[1])
    slow = AutogradUpdateObjective(spec, schedule.steps, schedule.rate, weights, observed, labels, schedule.kept)
    for candidates in (rows, rows.flip(1)):  # a second call finds nothing left over from the first
        for found, expected in zip(fast(candidates), slow(candidates), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_objective_of_the_true_update_is_zero_at_the_rows_and_positive_elsewhere(activation):
    schedule = Schedule(4, 2, 3, 0.1)
    spec, weights, _, labels, rows = problem(schedule, activation)
    of_victims = [
        simulated_update(spec, schedule.steps, 0.1, {n: w[v] for n, w in weights.items()}, rows[v, 0], labels[v])
        for v in range(2)
    ]
    observed = {n: 7 * torch.stack([u[n] for u in of_victims]) for n in weights}  # its length does not matter
    losses, gradients = update_objective(spec, schedule, weights, observed, labels, rows.shape[1])(rows)
    torch.testing.assert_close(losses[:, 0], torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)
    assert (losses[:, 1:] > 1e-3).all()
    assert gradients.shape == rows.shape


def test_each_kind_of_training_gets_the_fastest_objective_for_it():
    for schedule, activation, kind in (
        (Schedule(4, 1, 4, 0.1), "relu", ClosedFormObjective),
        (Schedule(4, 2, 4, 0.1), "relu", UnrolledObjective),
        (Schedule(4, 2, 4, 0.1), "tanh", AutogradUpdateObjective),
    ):
        spec, weights, observed, labels, _ = problem(schedule, activation)
        assert isinstance(update_objective(spec, schedule, weights, observed, labels, 3), kind)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 9), st.integers(1, 3), st.integers(1, 9) | st.none(), st.sampled_from([0, 3]), st.integers(0, 2**16)
)
def test_simulated_training_on_the_true_batches_ends_at_the_weights_that_the_client_sends(rows, epochs, size, mu, seed):
    coins = np.random.default_rng(seed)
    spec = ModelSpec(4, 2, (6, 5))
    training = TrainingSpec("fedavg", 1, 0.05, size, epochs, proximal=mu)
    weights = initial_weights(spec, coins)
    data = Encoded(coins.normal(size=(rows, 4)).astype(np.float32), coins.integers(0, 2, rows))
    batches = draw_batches(training, data, coins)
    sent = FedAvg().client(spec, training, GlobalModel(weights), data, batches)

    schedule = Schedule(rows, epochs, min(size or rows, rows), 0.05, mu)
    assert [b - a for a, b in schedule.steps] == [len(b) for b in batches]
    order = np.concatenate(batches)
    tensors = {n: torch.tensor(w, dtype=torch.float64) for n, w in weights.items()}
    x, y = torch.tensor(data.rows[order], dtype=torch.float64), torch.tensor(data.labels[order])
    update = simulated_update(spec, schedule.steps, schedule.rate, tensors, x, y, schedule.kept)
    for name, after in sent.weights.items():
        np.testing.assert_allclose((tensors[name] - 0.05 * update[name]).numpy(), after, atol=2e-6)
