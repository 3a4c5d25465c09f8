"""What gradient matching minimises: a distance between a candidate's gradient g and the observed one s.

*Cosine*: 1 - <g, s> / (|g| |s|) (TabLeak, equation 6, after Geiping et al. 2020). *Squared error*: |g - s|² (Deep
Leakage from Gradients, Zhu et al. 2019, algorithm 1). In both, all parameters are one vector, without weights per layer
or regulariser; the published implementation of TabLeak averages the squares within each tensor first.

In closed form both need nothing of a candidate but <G, S> and |G|², where G = B g is the gradient of the summed loss of
B rows, which is cheaper to have. The cotangent of G is then (ratio * G - S) / divisor.

Shapes: V victims, R restarts. A loss is made for V observed gradients by name, each (V, ...); `observed` is S.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


class Weighed(NamedTuple):
    """The loss of each restart and what the cotangent of its gradient is made of, all (V·R,)."""

    loss: Tensor
    ratio: Tensor
    divisor: Tensor


class Loss(ABC):
    observed: dict[str, Tensor]

    def __init__(self, observed: Tensors) -> None:
        self.observed = dict(observed)

    @abstractmethod
    def between(self, candidate: Tensors, observed: Tensors) -> Tensor:
        """The loss of one candidate's gradient g against one of `observed`."""

    @abstractmethod
    def weigh(self, inner: Tensor, square: Tensor, batch: int) -> Weighed:
        """From <G, S> and |G|² (V·R,) of batches of `batch` rows. `square` is overwritten."""


class Cosine(Loss):
    """S has norm 1; a cosine does not see the factor B. No observed gradient is zero."""

    def __init__(self, observed: Tensors) -> None:
        norm = torch.stack([g.flatten(1).double().norm(dim=1) for g in observed.values()]).norm(dim=0)  # (V,)
        super().__init__(
            {name: (g.double() / norm.view(-1, *[1] * (g.dim() - 1))).to(g.dtype) for name, g in observed.items()}
        )

    def between(self, candidate: Tensors, observed: Tensors) -> Tensor:
        dot = torch.stack([(candidate[name] * observed[name]).sum() for name in observed]).sum()
        square = torch.stack([candidate[name].square().sum() for name in observed]).sum()
        return 1 - dot / square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()

    def weigh(self, inner: Tensor, square: Tensor, batch: int) -> Weighed:
        square.clamp_min_(torch.finfo(square.dtype).tiny)  # of a saturated candidate: its gradient is zero
        norm = square.sqrt()
        return Weighed(1 - (inner / norm), inner / square, norm)


class SquaredError(Loss):
    """S is s itself. A loss far below |s|² is known to the precision of |s|² only."""

    def __init__(self, observed: Tensors) -> None:
        super().__init__(observed)
        self.square = torch.stack([g.flatten(1).square().sum(1) for g in observed.values()]).sum(0)  # (V,)

    def between(self, candidate: Tensors, observed: Tensors) -> Tensor:
        return torch.stack([(candidate[name] - observed[name]).square().sum() for name in observed]).sum()

    def weigh(self, inner: Tensor, square: Tensor, batch: int) -> Weighed:
        own = self.square.repeat_interleave(len(inner) // len(self.square))
        ones = torch.ones_like(inner)
        return Weighed(square / batch**2 - 2 * inner / batch + own, ones / batch, ones * batch / 2)


LOSSES: dict[str, type[Loss]] = {"cosine": Cosine, "squared-error": SquaredError}
