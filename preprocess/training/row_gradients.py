"""The sum of the gradients of rows, each clipped on its own, without ever holding the gradient of a single row.

The gradient of one row at a linear layer z = W a + b is d a^T for the weights and d for the bias, with d = dL/dz: its
squared norm is |d|^2 (|a|^2 + 1), and that of the whole network is the sum over layers (Goodfellow, "Efficient
Per-Example Gradient Computations", 2015, section 4). So one forward and one backward pass give all norms, and the
clipped sum over rows i with factors c_i is (c D)^T A for each layer. The scale and shift of an activation norm
y = scale * x + shift belong to single units: their gradients of a row are e * x and e themselves, with e = dL/dy.

Under batch norm x depends on all rows of a batch, and no row has a gradient of its own: that is refused.

Everything is computed in float64: the bound on a row then holds up to the rounding of what is sent, in float32.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.activation_norms import SCALE, SHIFT, standardised
from leakledger.preprocess.models import ACTIVATIONS, as_tensors, parameters, summed_loss
from leakledger.preprocess.views import ModelSpec


@dataclass(frozen=True, eq=False)
class RowFactors:
    """What the gradients of rows are made of: of each linear layer the `inputs` a (n, in) and `deltas` dL/dz (n, out);
    of the parameters of norms, by name, the gradients themselves (n, H) as `own`.
    """

    inputs: list[Tensor]
    deltas: list[Tensor]
    own: dict[str, Tensor]


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
    found = row_factors(spec, as_tensors(weights, dtype=torch.float64), rows.to(torch.float64), labels)
    shrink = torch.ones(len(rows), dtype=torch.float64)
    if clip_norm is not None:
        shrink = clip_norm / row_norms(found).clamp(min=clip_norm)  # (n,)
    total: dict[str, Tensor] = {}
    for i, (a, d) in enumerate(zip(found.inputs, found.deltas, strict=True)):
        clipped = d * shrink[:, None]
        total |= {f"{i}.weight": clipped.T @ a, f"{i}.bias": clipped.sum(0)}
    total |= {name: shrink @ g for name, g in found.own.items()}
    return {name: total[name] for name in parameters(spec, weights)}


def row_norms(found: RowFactors) -> Tensor:
    """(n,) the L2 norms, over all tensors, of the gradients of rows."""
    squares = [(d**2).sum(1) * ((a**2).sum(1) + 1) for a, d in zip(found.inputs, found.deltas, strict=True)]
    squares += [(g**2).sum(1) for g in found.own.values()]
    return torch.stack(squares).sum(0).sqrt()


def row_products(
    spec: ModelSpec, weights: Mapping[str, NDArray[np.floating]], rows: Tensor, labels: Tensor, clip_norm: float
) -> Tensor:
    """(n, n) the inner products of the gradients of rows, each clipped to `clip_norm`, in float64."""
    found = row_factors(spec, as_tensors(weights, dtype=torch.float64), rows.to(torch.float64), labels)
    parts = [(d @ d.T) * (a @ a.T + 1) for a, d in zip(found.inputs, found.deltas, strict=True)]
    products = torch.stack([*parts, *(g @ g.T for g in found.own.values())]).sum(0)
    shrink = clip_norm / products.diagonal().sqrt().clamp(min=clip_norm)  # (n,)
    return products * shrink[:, None] * shrink


def row_factors(spec: ModelSpec, weights: Mapping[str, Tensor], rows: Tensor, labels: Tensor) -> RowFactors:
    """Of each row's own loss. Raises ValueError under batch norm."""
    if spec.norm == "batch":
        raise ValueError("batch norm mixes the rows of a batch: no row has a gradient of its own; use another norm")
    activation = ACTIVATIONS[spec.activation]
    inputs, sums, standard, scaled = [rows], list[Tensor](), list[Tensor](), list[Tensor]()
    for i in range(len(spec.hidden) + 1):
        z = functional.linear(inputs[-1], weights[f"{i}.weight"], weights[f"{i}.bias"])
        sums.append(z if i else z.requires_grad_())  # weights need no gradient: the graph begins here
        if i == len(spec.hidden):
            break
        x = z if spec.norm == "none" else standardised(spec, z)
        y = x * weights[f"{i}.{SCALE}"] + weights[f"{i}.{SHIFT}"] if f"{i}.{SCALE}" in weights else x
        standard.append(x.detach())
        scaled.append(y)
        inputs.append(activation(y))
    learned = [i for i in range(len(spec.hidden)) if f"{i}.{SCALE}" in weights]
    loss = summed_loss(spec, sums[-1], labels)
    found = torch.autograd.grad(loss, [*sums, *(scaled[i] for i in learned)])
    own: dict[str, Tensor] = {}
    for i, e in zip(learned, found[len(sums) :], strict=True):
        own |= {f"{i}.{SCALE}": e * standard[i], f"{i}.{SHIFT}": e}
    return RowFactors([a.detach() for a in inputs], list(found[: len(sums)]), own)
