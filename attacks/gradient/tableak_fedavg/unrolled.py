"""The objective for piecewise linear activations, local training unrolled by hand and reversed without autograd.

With a column of ones beside the activations, a layer with weights and bias is one matrix W (out, in + 1). Step k of
local training has activations a, logits z = a Wᵀ, slopes s of the activation function and class probabilities p, and

    D = (p - y) / b,   D_below = (D W) * s,   G = Dᵀ a,   total = kept * total + G,   W = W₀ - rate * total,

where kept is 1 without a proximal term.

The objective reads the last total. Steps are reversed one by one: with C the cotangent of a step's G,

    D' = a Cᵀ + (D'_below * s) Wᵀ,   z' = p * (D' - sum(p * D')) / b,   a' = D C + z' W,   z'_below = a' * s,

and C becomes kept * C - rate * (Dᵀ (D'_below * s) + z'ᵀ a) for the step before. The second derivative of the activation
is zero almost everywhere, so the slopes are constants.

Shapes: V victims, R restarts, b rows of a local batch. All tensors of a step are (V·R, ...) and are kept for the way
back; they are reused by every evaluation: fresh memory costs more than the arithmetic.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from leakledger.attacks.gradient.matching.objective import Tensors
from leakledger.attacks.observed.update import Schedule


class UnrolledObjective:
    """1 - cosine of simulated and observed updates. `observed` has norm 1 for each victim; labels are (V, T)."""

    def __init__(
        self,
        layers: int,
        slope: float,
        schedule: Schedule,
        weights: Tensors,
        observed: Tensors,
        labels: Tensor,
        restarts: int,
    ) -> None:
        self.rate, self.kept, self.ends = schedule.rate, schedule.kept, schedule.steps
        self.first = [_joined(weights, i, restarts) for i in range(layers)]
        self.seen = [_joined(observed, i, restarts) for i in range(layers)]
        self.total, self.bar = ([torch.empty_like(w) for w in self.first] for _ in range(2))
        classes = self.first[-1].shape[1]
        targets = one_hot(labels, classes).to(self.first[0].dtype).repeat_interleave(restarts, 0)  # (V·R, T, classes)
        self.steps = [
            Step(self.first, slope, targets[:, a:b].contiguous(), k == 0) for k, (a, b) in enumerate(self.ends)
        ]

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (V, R) and their gradients for rows (V, R, T, d)."""
        flat = rows.flatten(0, 1)
        for total in self.total:
            total.zero_()
        for (a, b), step, after in zip(self.ends, self.steps, [*self.steps[1:], None], strict=True):
            step.forward(flat[:, a:b], self.total, self.kept)
            if after is not None:
                for w, first, total in zip(after.weights, self.first, self.total, strict=True):
                    torch.add(first, total, alpha=-self.rate, out=w)
        loss = self._compare()
        gradient = torch.empty_like(flat)
        for (a, b), step in zip(self.ends[::-1], self.steps[::-1], strict=True):
            gradient[:, a:b] = step.reverse(self.bar, self.rate, self.kept)
        return loss.view(rows.shape[:2]), gradient.view(rows.shape)

    def _compare(self) -> Tensor:
        """The loss (V·R,), and the cotangent of the last total in `bar`."""
        pairs = list(zip(self.total, self.seen, strict=True))
        inner = torch.stack([(t * s).sum((1, 2)) for t, s in pairs]).sum(0)
        square = torch.stack([t.square().sum((1, 2)) for t in self.total]).sum(0)
        square.clamp_min_(torch.finfo(square.dtype).tiny)  # of a saturated candidate: its update is zero
        norm = square.sqrt()
        for bar, (total, seen) in zip(self.bar, pairs, strict=True):
            torch.mul(total, (inner / square).view(-1, 1, 1), out=bar).sub_(seen).div_(norm.view(-1, 1, 1))
        return 1 - inner / norm


class Step:
    """One local batch: `forward` adds its gradient to a total, `reverse` takes cotangents of the total back."""

    def __init__(self, weights: list[Tensor], slope: float, targets: Tensor, first: bool) -> None:
        each, batch, _ = targets.shape
        new = weights[0].new_empty
        self.slope, self.targets, self.first = slope, targets, first
        self.weights = weights if first else [torch.empty_like(w) for w in weights]
        self.inputs = [torch.ones_like(new(each, batch, w.shape[2])) for w in weights]  # a, with a column of ones
        self.inputs_bar = [torch.empty_like(a) for a in self.inputs]
        self.through = [torch.zeros_like(a) for a in self.inputs]  # D'_below * s, with a column of zeros
        self.delta, self.delta_bar = ([new(each, batch, w.shape[1]) for w in weights] for _ in range(2))
        self.slopes = [new(each, batch, w.shape[1]) for w in weights[:-1]]

    def forward(self, rows: Tensor, total: list[Tensor], kept: float) -> None:
        inputs, delta = self.inputs, self.delta
        inputs[0][..., :-1] = rows
        for i, slope in enumerate(self.slopes):
            z = torch.bmm(inputs[i], self.weights[i].mT, out=delta[i])
            torch.sign(z, out=slope).clamp_min_(self.slope)
            torch.mul(z, slope, out=inputs[i + 1][..., :-1])
        z = torch.bmm(inputs[-1], self.weights[-1].mT)
        self.probabilities = torch.softmax(z, -1)
        torch.sub(self.probabilities, self.targets, out=delta[-1]).div_(z.shape[1])
        for i, slope in reversed(list(enumerate(self.slopes))):
            torch.bmm(delta[i + 1], self.weights[i + 1][..., :-1], out=delta[i]).mul_(slope)
        for t, d, a in zip(total, delta, inputs, strict=True):
            t.baddbmm_(d.mT, a, beta=kept)

    def reverse(self, bar: list[Tensor], rate: float, kept: float) -> Tensor:
        """The cotangent of the rows; `bar`, that of the total after this step, becomes that of the total before."""
        for i, (a, c) in enumerate(zip(self.inputs, bar, strict=True)):
            d = torch.bmm(a, c.mT, out=self.delta_bar[i])
            if i:
                d.baddbmm_(self.through[i][..., :-1], self.weights[i][..., :-1].mT)
            if i < len(self.slopes):
                torch.mul(d, self.slopes[i], out=self.through[i + 1][..., :-1])
        p, z_bar = self.probabilities, self.delta_bar[-1]
        z_bar.sub_((p * z_bar).sum(-1, keepdim=True)).mul_(p).div_(p.shape[1])
        for i in range(len(bar) - 1, -1, -1):
            a_bar = torch.bmm(self.delta[i], bar[i], out=self.inputs_bar[i])
            a_bar.baddbmm_(z_bar, self.weights[i])
            if not self.first:
                bar[i].baddbmm_(z_bar.mT, self.inputs[i], beta=kept, alpha=-rate)
                if i:
                    bar[i].baddbmm_(self.delta[i].mT, self.through[i], alpha=-rate)
            if i:
                z_bar = torch.mul(a_bar[..., :-1], self.slopes[i - 1], out=self.delta_bar[i - 1])
        return self.inputs_bar[0][..., :-1]


def _joined(tensors: Tensors, index: int, restarts: int) -> Tensor:
    """Weights and biases of one layer (V·R, out, in + 1), the same for all restarts of a victim."""
    weight, bias = tensors[f"{index}.weight"], tensors[f"{index}.bias"]
    return torch.cat([weight, bias.unsqueeze(-1)], -1).repeat_interleave(restarts, 0)
