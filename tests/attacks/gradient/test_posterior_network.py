"""Inner products and norms of gradients that are never built, against gradients that are."""

import numpy as np
import pytest
import torch

from leakledger.attacks.gradient.posterior.network import DERIVATIVES, RowGradients
from leakledger.preprocess.models import ACTIVATIONS, as_tensors, gradient, initial_weights
from leakledger.preprocess.views import ModelSpec


def network(activation="relu", hidden=(7, 5), classes=3):
    spec = ModelSpec(6, classes, hidden, activation)
    weights = {n: np.float64(w) for n, w in initial_weights(spec, np.random.default_rng(0)).items()}
    return spec, weights, RowGradients(spec, weights, "cpu")


def built(spec, weights, row, label):
    """Per layer (out, in + 1): the gradient of one row, by autograd."""
    one = gradient(spec, as_tensors(weights), row[None], label[None])
    return [torch.cat([one[f"{i}.weight"], one[f"{i}.bias"][:, None]], 1) for i in range(len(spec.hidden) + 1)]


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_a_derivative_is_that_of_its_activation(activation):
    z = torch.linspace(-3, 3, 61, dtype=torch.float64).add(0.01).requires_grad_()
    (expected,) = torch.autograd.grad(ACTIVATIONS[activation](z).sum(), z)
    assert torch.allclose(DERIVATIVES[activation](z.detach()), expected, atol=1e-6)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("logits", [3, 1])
def test_shares_are_those_of_gradients_that_were_built(activation, hidden, weighted, logits):
    spec, weights, own = network(activation, hidden, logits)
    coins = torch.Generator().manual_seed(1)
    rows, labels = torch.randn(2, 4, 6, generator=coins), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]]) % own.classes
    residual = [torch.randn(2, *g.shape, generator=coins) for g in built(spec, weights, rows[0, 0], labels[0, 0])]
    counts = [torch.rand(r.shape[1:], generator=coins) if weighted else torch.ones(r.shape[1:]) for r in residual]
    given = counts if weighted else None
    heard = [r * n for r, n in zip(residual, counts, strict=True)]
    share = own.share(own.first(rows, heard, given), labels, heard, given)
    products = own.products(share, rows, share, rows, given)
    for c in range(2):
        every = [built(spec, weights, rows[c, m], labels[c, m]) for m in range(4)]
        for m, layers in enumerate(every):
            inner = sum((g * r[c] * n).sum() for g, r, n in zip(layers, residual, counts, strict=True))
            assert share.inner[c, m] == pytest.approx(float(inner), abs=1e-5)
            square = sum((g**2 * n).sum() for g, n in zip(layers, counts, strict=True))
            assert share.square[c, m] == pytest.approx(float(square), rel=1e-5)
            for k, others in enumerate(every):
                cross = sum((g * h * n).sum() for g, h, n in zip(layers, others, counts, strict=True))
                assert products[c, m, k] == pytest.approx(float(cross), abs=1e-5)
    assert torch.allclose(own.square(own.first(rows), labels), share.norm)


def test_a_sum_of_rows_is_that_of_their_gradients_times_their_factors():
    spec, weights, own = network()
    rows, labels, factor = torch.randn(1, 3, 6), torch.tensor([[0, 2, 1]]), torch.tensor([[1.0, 0.5, 0.0]])
    sums = own.sums(rows, labels, factor)
    for layer, total in enumerate(sums):
        expected = sum(
            f * built(spec, weights, x, y)[layer] for f, x, y in zip(factor[0], rows[0], labels[0], strict=True)
        )
        assert torch.allclose(total[0], expected, atol=1e-6)
