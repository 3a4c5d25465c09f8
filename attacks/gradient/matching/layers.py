"""One linear layer of every candidate, measured against the observed gradient without autograd.

For a linear layer z = a Wᵀ + b over a batch, with D = dL/dz (B, out), the gradient is dW = Dᵀ a, db = Dᵀ 1. Against the
observed gradient (S, s), which all restarts of a victim share,

    <dW, S> + <db, s> = sum(D * (a Sᵀ + s)),        |dW|² + |db|² = sum((D Dᵀ) * (a aᵀ + 1)),

so a layer needs only B x B Gram matrices and products with shared matrices: no gradient of the layer's size is built
per restart (`GramLayer`). For batches that are large beside the layer, building it is cheaper (`ExplicitLayer`).

Shapes: V victims, R restarts, B rows per batch. Activations are (V, R·B, n), one matrix per victim, or seen as
(V·R, B, n), one per restart. Tensors are reused by every evaluation: fresh memory costs more than the arithmetic.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor


class Affine(NamedTuple):
    """Weights (V, out, in) and biases (V, 1, out) of one layer, or their gradients."""

    weight: Tensor
    bias: Tensor


def matching_layer(own: Affine, seen: Affine, restarts: int, batch: int) -> "Layer":
    """The cheaper kind of layer for these shapes."""
    outputs, inputs = own.weight.shape[1:]
    kind = GramLayer if batch * (inputs + outputs) < inputs * outputs else ExplicitLayer
    return kind(own, seen, restarts, batch)


class Layer(ABC):
    """An evaluation calls `forward`, fills `delta`, then calls `inner`, `square`, `push` and `pull`, once each."""

    def __init__(self, own: Affine, seen: Affine, restarts: int, batch: int) -> None:
        victims, outputs, inputs = own.weight.shape
        self.own, self.seen = own, seen
        self.each = (victims * restarts, batch)
        candidates = restarts * batch
        self.z = own.weight.new_empty(victims, candidates, outputs)
        self.delta, self.delta_bar = torch.empty_like(self.z), torch.empty_like(self.z)
        self.input_bar = own.weight.new_empty(victims, candidates, inputs)

    def forward(self, a: Tensor) -> Tensor:
        self.a = a
        return torch.baddbmm(self.own.bias, a, self.own.weight.mT, out=self.z)

    @abstractmethod
    def inner(self) -> Tensor:
        """<dW, S> + <db, s> of each restart (V·R,)."""

    @abstractmethod
    def square(self) -> Tensor:
        """|dW|² + |db|² of each restart (V·R,)."""

    @abstractmethod
    def push(self, ratio: Tensor) -> Tensor:
        """The cotangent of D from that of the candidate's gradient, C = ratio * dW - S, c alike: a Cᵀ + c."""

    @abstractmethod
    def pull(self, z_bar: Tensor) -> Tensor:
        """The cotangent of a from those of z and of the candidate's gradient: z_bar W + D C."""

    def per_restart(self, t: Tensor) -> Tensor:
        return t.view(*self.each, -1)


class GramLayer(Layer):
    def __init__(self, own: Affine, seen: Affine, restarts: int, batch: int) -> None:
        super().__init__(own, seen, restarts, batch)
        self.gram_in = own.weight.new_empty(len(own.weight) * restarts, batch, batch)
        self.gram_out = torch.empty_like(self.gram_in)

    def inner(self) -> Tensor:
        against = torch.baddbmm(self.seen.bias, self.a, self.seen.weight.mT, out=self.delta_bar)
        return torch.bmm(self.delta.view(self.each[0], 1, -1), against.view(self.each[0], -1, 1)).flatten()

    def square(self) -> Tensor:
        a, d = self.per_restart(self.a), self.per_restart(self.delta)
        torch.bmm(a, a.mT, out=self.gram_in).add_(1)
        torch.bmm(d, d.mT, out=self.gram_out)
        return (self.gram_in * self.gram_out).sum((1, 2))

    def push(self, ratio: Tensor) -> Tensor:
        self.gram_in.mul_(ratio.view(-1, 1, 1))
        self.gram_out.mul_(ratio.view(-1, 1, 1))
        self.per_restart(self.delta_bar).baddbmm_(self.gram_in, self.per_restart(self.delta), beta=-1)
        return self.delta_bar

    def pull(self, z_bar: Tensor) -> Tensor:
        torch.bmm(z_bar, self.own.weight, out=self.input_bar).baddbmm_(self.delta, self.seen.weight, alpha=-1)
        self.per_restart(self.input_bar).baddbmm_(self.gram_out, self.per_restart(self.a))
        return self.input_bar


class ExplicitLayer(Layer):
    def __init__(self, own: Affine, seen: Affine, restarts: int, batch: int) -> None:
        super().__init__(own, seen, restarts, batch)
        self.candidate = Affine(*(t.new_empty(len(t) * restarts, *t.shape[1:]) for t in own))  # dW, db per restart

    def inner(self) -> Tensor:
        d = self.per_restart(self.delta)
        torch.bmm(d.mT, self.per_restart(self.a), out=self.candidate.weight)
        torch.sum(d, 1, keepdim=True, out=self.candidate.bias)
        pairs = zip(self.candidate, self.seen, strict=True)
        return torch.stack([(self._per_victim(g) * s.unsqueeze(1)).sum((2, 3)) for g, s in pairs]).sum(0).flatten()

    def square(self) -> Tensor:
        return torch.stack([g.square().sum((1, 2)) for g in self.candidate]).sum(0)

    def push(self, ratio: Tensor) -> Tensor:
        for g, s in zip(self.candidate, self.seen, strict=True):
            self._per_victim(g.mul_(ratio.view(-1, 1, 1))).sub_(s.unsqueeze(1))
        c = self.candidate
        torch.baddbmm(c.bias, self.per_restart(self.a), c.weight.mT, out=self.per_restart(self.delta_bar))
        return self.delta_bar

    def pull(self, z_bar: Tensor) -> Tensor:
        torch.bmm(z_bar, self.own.weight, out=self.input_bar)
        self.per_restart(self.input_bar).baddbmm_(self.per_restart(self.delta), self.candidate.weight)
        return self.input_bar

    def _per_victim(self, t: Tensor) -> Tensor:
        """(V·R, m, n) as (V, R, m, n)."""
        return t.view(len(self.own.weight), -1, *t.shape[1:])
