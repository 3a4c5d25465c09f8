"""Gradients of the same rows at several models, as the gradient of one network that is wider.

Where a client sends a gradient of the very same rows in each of R rounds (`observed.repeats`), the likelihoods of all
rounds count together. The first layers of the R models have one input, the row: side by side they are one first layer
of R times as many units. Above it each model goes on by itself, so that the layers of all of them are a list, in which
each has errors and inputs of its own. Inner products and norms of gradients are sums over that list (`network`), and
everything that works with them reads R rounds as one.

Clipping cuts the gradient of a row in each round by itself. So it is done here, in the errors: what is one gradient to
the rest is then cut already.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import First, RowGradients, squares


class GradientsOfRounds(RowGradients):
    """Several `networks` of one shape side by side; each row's gradient cut to `clip_norm` in each of them, if to any.

    Its layers: the first ones of all networks as one, then what is above in each.
    """

    def __init__(self, networks: Sequence[RowGradients], clip_norm: float | None = None) -> None:
        one = networks[0]
        self.rounds, self.clip_norm = len(networks), clip_norm
        self.single, self.classes = one.single, one.classes
        self.activation, self.derivative = one.activation, one.derivative
        self.weights = side_by_side([n.weights for n in networks])
        self.biases = side_by_side([n.biases for n in networks])

    def errors(self, first: First, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        each = [
            self._of_round(k, before, first, labels) for k, before in enumerate(first.before.chunk(self.rounds, -1))
        ]
        errors = side_by_side([errors for errors, _ in each], dim=-1)
        return errors, [given for _, inputs in each for given in inputs]

    def _of_round(self, k: int, before: Tensor, first: First, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The errors and inputs in network `k`, whose first layer has the outputs `before`."""
        deep = (len(self.weights) - 1) // self.rounds
        own = slice(1 + k * deep, 1 + (k + 1) * deep)
        errors, inputs = self.above(before, labels, self.weights[own], self.biases[own])
        return self._cut(First(before, None, first.square), errors, inputs)

    def _cut(self, first: First, errors: list[Tensor], inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        if self.clip_norm is None:
            return errors, inputs
        norm = squares(first, errors, inputs).clamp_min(1e-30).sqrt()
        factor = (self.clip_norm / norm).clamp(max=1)[..., None]
        return [factor * error for error in errors], inputs


def side_by_side(each: Sequence[Sequence[Tensor]], dim: int = 0) -> list[Tensor]:
    """The layers of several networks as those of one: the first ones joined along `dim`, then all others."""
    return [torch.cat([layers[0] for layers in each], dim), *(layer for layers in each for layer in layers[1:])]


def of_rounds(each: Sequence[Evidence], labels: Tensor | None) -> Evidence:
    """What several rounds are evidence of together, of rows with `labels` (B,), where they are known.

    That rows were clipped is left to the network. Raises ValueError for what is no sum with normal errors alone.
    """
    if any(e.intervals is not None or e.shrunk or e.choices is not None for e in each):
        raise ValueError("rounds count together only as sums of all rows with normal errors")
    noise = min(e.noise for e in each)
    weights = [
        [share * (noise / e.noise) ** 2 for share in e.weights or [torch.ones_like(t) for t in e.total]] for e in each
    ]
    equal = all(e.weights is None and math.isclose(e.noise, noise, rel_tol=1e-6) for e in each)
    return replace(
        each[0],
        total=side_by_side([e.total for e in each]),
        noise=noise,
        labels=labels,
        clip_norm=None,
        weights=None if equal else side_by_side(weights),
        approximate=any(e.approximate for e in each),
    )
