"""Rows as roots: the rows x whose inputs [h(x) | 1] of a layer lie in the row space of that layer's gradient.

Every row of the batch is one, and few other rows are while the rank is well below the width: of in + 1 coordinates, all
but the rank are equations, and a row of the table has fewer unknowns than that. The map h is linear wherever no neuron
changes sides, so that Levenberg-Marquardt ends exactly where it ends in the region of a row. Starts are rows drawn from
what the layout makes public; the layer must not be the first one, where all mixtures of rows are roots.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from leakledger.attacks.gradient.exact.deflation import IN_ROW_SPACE
from leakledger.attacks.observed.affine import Array, with_ones

STEPS = 50  # of Levenberg-Marquardt: fewer end before the region of a row, more cost time for starts that lead nowhere
# Distance from the row space, relative to the length of the point. Too small: roots in float32 gradients are missed;
# too large: points near none are tried.
CONVERGED = 1e-3
EASED, STIFFENED = (
    0.3,
    4.0,
)  # by which the damping changes after a good and a bad step: milder is slower, harsher swings
DAMPING_RANGE = 1e-8, 1e4  # beyond, it is none or stands still
LEAST_RIDGE = 1e-14  # so that a start where nothing is active can be solved; larger would damp good steps


def roots(weights: Mapping[str, Array], first: Array, right: Array, starts: Array, layer: int, device: str) -> Array:
    """The rows (m, d) that `starts` (n, d) lead to, whose points lie in the span of `right` (r, in + 1) at `layer` > 0.

    They are sought in the row space of `first` (out, d + 1), the gradient of the first layer.
    """
    network = [
        (torch.tensor(weights[f"{i}.weight"], device=device), torch.tensor(weights[f"{i}.bias"], device=device))
        for i in range(layer)
    ]
    equations = torch.tensor(np.linalg.svd(right, full_matrices=True)[2][len(right) :], device=device)
    rows, directions = within(first, starts)
    x, free = torch.tensor(rows, device=device), torch.tensor(directions, device=device)
    residual, slope, size = evaluated(network, equations, x, free)
    cost, damping = residual.square().sum(1), torch.ones(len(x), dtype=x.dtype, device=device)
    eye = torch.eye(len(free), dtype=x.dtype, device=device)
    for _ in range(STEPS):
        gram = slope.mT @ slope
        ridge = damping * gram.diagonal(dim1=1, dim2=2).mean(1) + LEAST_RIDGE
        pull = (slope.mT @ residual[..., None])[..., 0]
        step = torch.linalg.solve_ex(gram + ridge[:, None, None] * eye, pull[..., None])[0][..., 0]
        moved = x - step @ free
        after = evaluated(network, equations, moved, free)
        less = after[0].square().sum(1) < cost
        x = torch.where(less[:, None], moved, x)
        residual = torch.where(less[:, None], after[0], residual)
        slope = torch.where(less[:, None, None], after[1], slope)
        size = torch.where(less, after[2], size)
        cost = residual.square().sum(1)
        damping = (damping * torch.where(less, EASED, STIFFENED)).clamp(*DAMPING_RANGE)
    return np.asarray(x[cost < CONVERGED**2 * size].cpu().numpy())


def within(first: Array, starts: Array) -> tuple[Array, Array]:
    """`starts` (n, d) projected to where [x | 1] is in the row space of `first`, and the directions left open."""
    _, values, basis = np.linalg.svd(first, full_matrices=False)
    basis = basis[values > IN_ROW_SPACE * values[0]]
    inside = with_ones(starts) @ basis.T  # (n, r)
    ones = basis[:, -1] / np.linalg.norm(basis[:, -1])
    inside += np.outer((1 / np.linalg.norm(basis[:, -1])) - inside @ ones, ones)
    directions = np.linalg.svd(ones[None], full_matrices=True)[2][1:] @ basis
    return np.asarray(inside @ basis[:, :-1]), np.asarray(directions[:, :-1])


def evaluated(
    network: list[tuple[Tensor, Tensor]], equations: Tensor, rows: Tensor, free: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """How far the points are out of the space (n, e), the slopes (n, e, f) of that in `free` (f, d), |point|² (n,)."""
    hidden, slope = rows, free.mT.expand(len(rows), -1, -1)  # (n, d, f)
    for weight, bias in network:
        before = hidden @ weight.T + bias
        slope = (weight @ slope) * (before > 0)[..., None]
        hidden = before.clamp(min=0)
    residual = hidden @ equations[:, :-1].T + equations[:, -1]
    return residual, equations[:, :-1] @ slope, hidden.square().sum(1) + 1
