"""Steps written out against the slow oracle: a graph of the loss, differentiated by autograd."""

import dataclasses

import numpy as np
import pytest
import torch

from leakledger.preprocess.models import (
    ACTIVATIONS,
    DERIVATIVES,
    as_tensors,
    dropout_masks,
    gradient,
    initial_weights,
    moved_statistics,
    parameters,
)
from leakledger.preprocess.training.local_steps import descend
from leakledger.preprocess.views import ModelSpec, TrainingSpec

RATE = 0.1
TASKS = {
    "two logits": {"outputs": 2},
    "one logit": {"outputs": 1},
    "classes": {"outputs": 4, "task": "multiclass"},
    "squared error": {"outputs": 1, "task": "regression"},
    "absolute error": {"outputs": 1, "task": "regression", "loss": "mae"},
}


def spec_of(task="two logits", **options):
    return ModelSpec(inputs=5, hidden=(8, 6), **{**TASKS[task], **options})


def batches(spec, coins, sizes=(7, 3, 2)):
    found = []
    for n in sizes:
        x = torch.from_numpy(coins.normal(size=(n, spec.inputs)).astype(np.float32))
        y = coins.normal(size=n) if spec.task == "regression" else coins.integers(max(spec.outputs, 2), size=n)
        found.append((x, torch.from_numpy(y), dropout_masks(spec, n, coins)))
    return found


def by_autograd(spec, training, weights, steps):
    begun = parameters(spec, weights)
    moving = {name: w.clone() for name, w in begun.items()}
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.SGD
    optimizer = kind(moving.values(), lr=training.learning_rate)
    for x, y, kept in steps:
        step = gradient(spec, {**weights, **moving}, x, y, kept)
        weights = {**weights, **moved_statistics(spec, {**weights, **moving}, x, kept)}
        for name, w in moving.items():
            w.grad = step[name] + training.proximal * (w - begun[name])
        optimizer.step()
    return {**weights, **moving}


def agree(spec, seed=0, **options):
    training = TrainingSpec("fedavg", learning_rate=RATE, **options)
    coins = np.random.default_rng(seed)
    start, steps = as_tensors(initial_weights(spec, coins)), batches(spec, coins)
    found = {name: w.clone() for name, w in start.items()}
    descend(spec, training, found, steps)
    assert found.keys() == start.keys()
    for name, w in by_autograd(spec, training, start, steps).items():
        np.testing.assert_allclose(found[name].numpy(), w.numpy(), atol=2e-6, err_msg=name)


@pytest.mark.parametrize("norm", ["none", "batch", "layer", "group", "instance"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_steps_are_those_of_autograd_under_every_norm_and_activation(norm, activation):
    agree(spec_of(activation=activation, norm=norm))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6)])
def test_steps_are_those_of_autograd_for_every_task_and_depth(task, hidden):
    agree(dataclasses.replace(spec_of(task), hidden=hidden))


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_units_left_out_and_the_pull_to_the_first_weights_are_those_of_autograd(norm):
    agree(spec_of(dropout=0.4, norm=norm), proximal=0.7)


def test_every_activation_has_its_derivative():
    z = torch.linspace(-3, 3, 50, dtype=torch.float64, requires_grad=True)
    for name, activation in ACTIVATIONS.items():
        (slope,) = torch.autograd.grad(activation(z).sum(), z)
        torch.testing.assert_close(DERIVATIVES[name](z.detach()), slope)


@pytest.mark.parametrize("norm", ["none", "layer"])  # under batch norm a bias has no gradient but rounding
def test_steps_of_adam_are_those_of_pytorch(norm):
    agree(spec_of(norm=norm, dropout=0.2), optimizer="adam")
    agree(spec_of("one logit", norm=norm), optimizer="adam", proximal=0.7)
