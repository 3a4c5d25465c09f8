"""The fast sum of clipped row gradients against the obvious one: each row on its own, by `torch.func`."""

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.models import ACTIVATIONS, as_tensors, forward, initial_weights, mean_loss
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.fedsgd import FedSGD
from leakledger.preprocess.training.row_gradients import row_products, summed_gradient
from leakledger.preprocess.views import ModelSpec, TrainingSpec

SPECS = [
    *(ModelSpec(6, 3, (6, 4), "relu", "multiclass", norm=norm) for norm in ("layer", "group", "instance")),
    ModelSpec(6, 1, (7,), task="regression", loss="mae"),
    *(ModelSpec(6, 3, (5, 4), activation, "multiclass") for activation in ACTIVATIONS),
    ModelSpec(6, 1, (7,), task="regression"),
    ModelSpec(6, 2, ()),
]


def batch(spec, n, seed=0):
    coins = np.random.default_rng(seed)
    x = coins.normal(size=(n, spec.inputs)).astype(np.float32) * coins.uniform(0.1, 10, (n, 1)).astype(np.float32)
    y = coins.normal(size=n) if spec.task == "regression" else coins.integers(spec.outputs, size=n)
    weights = initial_weights(spec, coins)
    weights = {name: w + np.float32(0.3 * (".norm." in name)) for name, w in weights.items()}
    return weights, torch.from_numpy(x), torch.from_numpy(y)


def each_row(spec, weights, x, y):
    """Name -> (n, ...) the gradient of the loss of each row, and (n,) their norms."""

    def loss(w, row, label):
        return mean_loss(spec, forward(spec, w, row[None]), label[None])

    found = vmap(grad(loss), in_dims=(None, 0, 0))(as_tensors(weights, dtype=torch.float64), x.double(), y)
    return found, torch.sqrt(sum((g.flatten(1) ** 2).sum(1) for g in found.values()))


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.activation}-{s.norm}-{s.loss}-{len(s.hidden)}")
def test_the_clipped_sum_is_that_of_the_rows_clipped_one_by_one(spec):
    weights, x, y = batch(spec, 9)
    found, norms = each_row(spec, weights, x, y)
    for clip_norm in (float(norms.min()) / 2, float(norms.median()), float(norms.max()) * 2):
        shrink = (clip_norm / norms).clamp(max=1)
        total = summed_gradient(spec, weights, x, y, clip_norm)
        for name, g in found.items():
            torch.testing.assert_close(total[name], torch.einsum("n,n...->...", shrink, g), rtol=1e-10, atol=1e-12)
    free = summed_gradient(spec, weights, x, y)
    for name, g in found.items():
        torch.testing.assert_close(free[name], g.sum(0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_no_row_alone_is_longer_than_the_norm_and_short_ones_are_left_as_they_are(seed):
    spec = ModelSpec(6, 2, (5,))
    weights, x, y = batch(spec, 12, seed)
    _, norms = each_row(spec, weights, x, y)
    clip_norm = float(norms.median())
    for i in range(len(x)):
        alone = FedSGD().client(
            spec,
            TrainingSpec(),
            GlobalModel(weights),
            Encoded(x.numpy()[i : i + 1], y.numpy()[i : i + 1]),
            [np.array([0])],
            clip_norm,
        )
        length = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in alone.gradient.values()))
        assert alone.rows == 1
        assert length <= clip_norm * (1 + 1e-6)
        assert length == pytest.approx(min(clip_norm, float(norms[i])), rel=1e-6)


def test_the_sum_over_no_rows_is_zero_in_every_tensor_and_finite():
    spec = ModelSpec(6, 2, (5,))
    weights, x, y = batch(spec, 4)
    total = summed_gradient(spec, weights, x[:0], y[:0], 0.5)
    assert {n: tuple(g.shape) for n, g in total.items()} == {n: w.shape for n, w in weights.items()}
    assert all((g == 0).all() for g in total.values())


def test_a_row_of_no_gradient_is_no_division_by_zero():
    spec = ModelSpec(2, 1, (), task="regression")
    weights = {"0.weight": np.zeros((1, 2), np.float32), "0.bias": np.zeros(1, np.float32)}
    total = summed_gradient(spec, weights, torch.ones(1, 2), torch.zeros(1), 1e-9)
    assert all((g == 0).all() for g in total.values())


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.activation}-{s.norm}-{s.loss}-{len(s.hidden)}")
def test_inner_products_are_those_of_the_rows_clipped_one_by_one(spec):
    weights, x, y = batch(spec, 7)
    found, norms = each_row(spec, weights, x, y)
    clip_norm = float(norms.median())
    flat = torch.cat([g.flatten(1) for g in found.values()], 1) * (clip_norm / norms).clamp(max=1)[:, None]
    torch.testing.assert_close(row_products(spec, weights, x, y, clip_norm), flat @ flat.T, rtol=1e-9, atol=1e-12)


def test_no_row_has_a_gradient_of_its_own_under_batch_norm():
    spec = ModelSpec(6, 2, (5,), norm="batch")
    weights, x, y = batch(spec, 4)
    with pytest.raises(ValueError, match="batch norm mixes the rows of a batch"):
        summed_gradient(spec, weights, x, y)
