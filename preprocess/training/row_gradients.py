"""The sum of the gradients of rows, each clipped on its own, without ever holding the gradient of a single row.

The gradient of one row at a linear layer z = W a + b is d a^T for the weights and d for the bias, with d = dL/dz: its
squared norm is |d|^2 (|a|^2 + 1), and that of the whole network is the sum over layers (Goodfellow, "Efficient
Per-Example Gradient Computations", 2015, section 4). So one forward and one backward pass give all norms, and the
clipped sum over rows i with factors c_i is (c D)^T A for each layer.

Everything is computed in float64: the bound on a row then holds up to the rounding of what is sent, in float32.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.models import ACTIVATIONS, as_tensors, summed_loss
from leakledger.preprocess.views import ModelSpec


def summed_gradient(
    spec: ModelSpec,
    weights: Mapping[str, NDArray[np.floating]],
    rows: Tensor,
    labels: Tensor,
    clip_norm: float | None = None,
) -> dict[str, Tensor]:
    """The sum over rows (n, inputs) of the gradients g of their losses, each scaled by min(1, `clip_norm` / |g|) where
    that is given; by weight name, in float64. Zeros of no rows.
    """
    inputs, deltas = row_factors(spec, as_tensors(weights, dtype=torch.float64), rows.to(torch.float64), labels)
    if clip_norm is not None:
        norms = row_norms(inputs, deltas)
        shrink = clip_norm / norms.clamp(min=clip_norm)  # (n,)
        deltas = [d * shrink[:, None] for d in deltas]
    total: dict[str, Tensor] = {}
    for i, (a, d) in enumerate(zip(inputs, deltas, strict=True)):
        total |= {f"{i}.weight": d.T @ a, f"{i}.bias": d.sum(0)}
    return total


def row_norms(inputs: list[Tensor], deltas: list[Tensor]) -> Tensor:
    """(n,) the L2 norms, over all tensors, of the gradients of rows with layer inputs (n, in) and dL/dz (n, out)."""
    squares = [(d**2).sum(1) * ((a**2).sum(1) + 1) for a, d in zip(inputs, deltas, strict=True)]
    return torch.stack(squares).sum(0).sqrt()


def row_products(
    spec: ModelSpec, weights: Mapping[str, NDArray[np.floating]], rows: Tensor, labels: Tensor, clip_norm: float
) -> Tensor:
    """(n, n) the inner products of the gradients of rows, each clipped to `clip_norm`, in float64."""
    inputs, deltas = row_factors(spec, as_tensors(weights, dtype=torch.float64), rows.to(torch.float64), labels)
    products = torch.stack([(d @ d.T) * (a @ a.T + 1) for a, d in zip(inputs, deltas, strict=True)]).sum(0)
    shrink = clip_norm / products.diagonal().sqrt().clamp(min=clip_norm)  # (n,)
    return products * shrink[:, None] * shrink


def row_factors(
    spec: ModelSpec, weights: Mapping[str, Tensor], rows: Tensor, labels: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Of each layer, the inputs a (n, in) of rows and the gradients dL/dz (n, out) of each row's own loss."""
    activation = ACTIVATIONS[spec.activation]
    inputs, sums = [rows], []
    for i in range(len(spec.hidden) + 1):
        z = functional.linear(inputs[-1], weights[f"{i}.weight"], weights[f"{i}.bias"])
        sums.append(z if i else z.requires_grad_())  # weights need no gradient: the graph begins here
        inputs.append(activation(sums[-1]))
    loss = summed_loss(spec, sums[-1], labels)
    deltas = torch.autograd.grad(loss, sums)
    return [a.detach() for a in inputs[:-1]], list(deltas)
