"""The objective of gradient matching: how far a candidate batch's gradient is from the observed one.

Two losses (`matching.losses`) and two implementations that answer alike. `AutogradObjective` differentiates
twice and takes every model. `ClosedFormObjective` takes piecewise linear networks, whose second derivative vanishes,
and evaluates all restarts of all victims in a few matrix products.

Shapes: V victims, R restarts, B rows per batch, d columns.
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap
from torch.nn.functional import one_hot

from leakledger.attacks.gradient.matching.layers import Affine, matching_layer
from leakledger.attacks.gradient.matching.losses import LOSSES, Loss
from leakledger.preprocess.models import forward, mean_loss
from leakledger.preprocess.views import ModelSpec

Tensors = Mapping[str, Tensor]

# Piecewise linear activations by their slope below zero; above zero it is 1.
SLOPE_BELOW_ZERO = {"relu": 0.0, "leaky-relu": 0.01}


class Objective(Protocol):
    """Takes candidate batches (V, R, B, d); returns their losses (V, R) and the gradients of these (V, R, B, d).

    What it returns may be overwritten by the next call.
    """

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]: ...


def piecewise_linear(spec: ModelSpec) -> bool:
    """Whether the network is piecewise linear in its rows: its activations are, and no norm stands before them."""
    return spec.activation in SLOPE_BELOW_ZERO and spec.norm == "none"


def matching_objective(
    spec: ModelSpec, weights: Tensors, observed: Tensors, labels: Tensor, restarts: int, loss: str = "cosine"
) -> Objective:
    """The objective for V victims with weights and observed gradients by name, each (V, ...), and labels (V, B).

    The task is classification with one logit per class; no victim's observed gradient is zero. `loss` is one of
    `LOSSES`.
    """
    kind = LOSSES[loss](observed)
    if piecewise_linear(spec):
        return ClosedFormObjective(spec, weights, kind, labels, restarts)
    return AutogradObjective(spec, weights, kind, labels)


class AutogradObjective:
    """The objective as it is defined, differentiated by autograd."""

    def __init__(self, spec: ModelSpec, weights: Tensors, loss: Loss, labels: Tensor) -> None:
        self.spec, self.weights, self.loss, self.labels = spec, dict(weights), loss, labels
        over_restarts = vmap(grad_and_value(self._loss), in_dims=(0, None, None, None))
        self._evaluate = vmap(over_restarts)

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        gradient, loss = self._evaluate(rows, self.weights, self.loss.observed, self.labels)
        return loss, gradient

    def _loss(self, rows: Tensor, weights: dict[str, Tensor], observed: dict[str, Tensor], labels: Tensor) -> Tensor:
        """One candidate batch (B, d)."""
        candidate = grad(lambda w: mean_loss(self.spec, forward(self.spec, w, rows), labels))(weights)
        return self.loss.between(candidate, observed)


class ClosedFormObjective:
    """The same for piecewise linear activations, without autograd."""

    def __init__(self, spec: ModelSpec, weights: Tensors, loss: Loss, labels: Tensor, restarts: int) -> None:
        batch = labels.shape[1]
        self.loss, self.slope = loss, SLOPE_BELOW_ZERO[spec.activation]
        self.layers = [
            matching_layer(_affine(weights, i), _affine(loss.observed, i), restarts, batch)
            for i in range(len(spec.hidden) + 1)
        ]
        dtype = self.layers[0].z.dtype
        self.targets = one_hot(labels, spec.outputs).to(dtype).unsqueeze(1)  # (V, 1, B, classes)
        self.slopes = [torch.empty_like(layer.z) for layer in self.layers[:-1]]

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self._forward(rows)
        self._backward(probabilities, rows.shape)
        inner = torch.stack([layer.inner() for layer in self.layers]).sum(0)  # (V·R,)
        square = torch.stack([layer.square() for layer in self.layers]).sum(0)
        weighed = self.loss.weigh(inner, square, rows.shape[2])
        self._second_order(weighed.ratio, probabilities)
        gradient = self.layers[0].input_bar.view(rows.shape)
        return weighed.loss.view(rows.shape[:2]), gradient.div_(weighed.divisor.view(*rows.shape[:2], 1, 1))

    def _forward(self, rows: Tensor) -> Tensor:
        """Leaves each layer its input; returns class probabilities (V, R·B, classes)."""
        a = rows.flatten(1, 2)
        for layer, slope in zip(self.layers, self.slopes, strict=False):
            z = layer.forward(a)
            a = z.mul_(torch.sign(z, out=slope).clamp_min_(self.slope))
        return torch.softmax(self.layers[-1].forward(a), -1)

    def _backward(self, probabilities: Tensor, shape: torch.Size) -> None:
        """Leaves each layer its D of the summed loss: B times that of the mean."""
        last = self.layers[-1]
        torch.sub(probabilities.view(*shape[:3], -1), self.targets, out=last.delta.view(*shape[:3], -1))
        for below, above, slope in zip(self.layers[-2::-1], self.layers[::-1], self.slopes[::-1], strict=False):
            torch.bmm(above.delta, above.own.weight, out=below.delta).mul_(slope)

    def _second_order(self, ratio: Tensor, probabilities: Tensor) -> None:
        """Pushes the cotangent ratio * dW - S of each candidate gradient back through both passes."""
        bar = self.layers[0].push(ratio)
        for layer, slope in zip(self.layers[1:], self.slopes, strict=True):  # the backward pass, reversed
            through = bar.mul_(slope)
            bar = layer.push(ratio).baddbmm_(through, layer.own.weight.mT)
        bar = bar.sub_((probabilities * bar).sum(-1, keepdim=True)).mul_(probabilities)
        for i in range(len(self.layers) - 1, -1, -1):  # the forward pass, reversed
            bar = self.layers[i].pull(bar)
            if i:
                bar.mul_(self.slopes[i - 1])


def _affine(tensors: Tensors, index: int) -> Affine:
    return Affine(tensors[f"{index}.weight"], tensors[f"{index}.bias"].unsqueeze(1))
