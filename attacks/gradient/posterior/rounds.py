"""Gradients of the same rows at several models, as those of a few networks, and these as the one of a wider network.

Where a client sends a gradient of the very same rows in each of R rounds (`observed.repeats`), the likelihoods of all
rounds count together.

*Models that are near.* The mean of k rounds' gradients is, to first order, the gradient at the mean of their models,
with noise less by sqrt(k), whatever k is, and costs no more than one round. What that is off by is estimated with rows
of the prior; rounds are parted in two, and these again, where it is more than `FAINT` of the noise that is left
(`parted`). Half of it would cost more than the rounds it saves: with 16 rounds as five models, three in four cells are
right where 16 models have 94 %.

*Models that are not.* The first layers of several models have one input, the row: side by side they are one first layer
of as many times more units. Above it each model goes on by itself, so that the layers of all of them are a list, in
which each has errors and inputs of its own. Inner products and norms of gradients are sums over that list (`network`),
and everything that works with them reads all models as one (`GradientsOfRounds`).

Clipping cuts the gradient of a row in each round by itself. So it is done here, in the errors: what is one gradient to
the rest is then cut already.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import encoded, from_prior
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import First, RowGradients, squares
from leakledger.attacks.observed.repeats import models_of

# Of the noise that is left, along the gradients of rows: what a mean of rounds may be off by. Too small: hardly any
# rounds count as one; too large: it passes for what rows say.
FAINT = 0.1
DRAWN = 4  # batches of the prior that it is estimated with


class Round(NamedTuple):
    """What one model, or the mean of several, is evidence of."""

    network: RowGradients
    evidence: Evidence


class GradientsOfRounds(RowGradients):
    """Several `networks` of one shape side by side: each row's gradient in each of them cut to `clip_norm`, if to any,
    and times its `scales`.

    Its layers: the first ones of all networks as one, then what is above in each.
    """

    def __init__(self, networks: Sequence[RowGradients], scales: Sequence[float], clip_norm: float | None) -> None:
        one = networks[0]
        self.scales, self.clip_norm = tuple(scales), clip_norm
        self.single, self.classes = one.single, one.classes
        self.activation, self.derivative = one.activation, one.derivative
        self.weights = side_by_side([n.weights for n in networks])
        self.biases = side_by_side([n.biases for n in networks])

    def errors(self, first: First, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        befores = first.before.chunk(len(self.scales), -1)
        each = [self._in_network(k, First(before, None, first.square), labels) for k, before in enumerate(befores)]
        errors = side_by_side([errors for errors, _ in each], dim=-1)
        return errors, [given for _, inputs in each for given in inputs]

    def _in_network(self, k: int, first: First, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The errors and inputs in network `k`, of rows as its own first layer sees them."""
        deep = (len(self.weights) - 1) // len(self.scales)
        own = slice(1 + k * deep, 1 + (k + 1) * deep)
        errors, inputs = self.above(first.before, labels, self.weights[own], self.biases[own])
        factor = torch.full_like(first.square, self.scales[k])
        if self.clip_norm is not None:
            factor = factor * (self.clip_norm / squares(first, errors, inputs).clamp_min(1e-30).sqrt()).clamp(max=1)
        return [factor[..., None] * error for error in errors], inputs


def side_by_side(each: Sequence[Sequence[Tensor]], dim: int = 0) -> list[Tensor]:
    """The layers of several networks as those of one: the first ones joined along `dim`, then all others."""
    return [torch.cat([layers[0] for layers in each], dim), *(layer for layers in each for layer in layers[1:])]


def of_rounds(
    rounds: Sequence[tuple[RowGradients, Evidence]],
    cells: Sequence[Cell],
    labels: Tensor | None,
    most: int,
    coins: torch.Generator,
) -> Round:
    """What several rounds are evidence of together, of rows with `labels` (B,) where they are known, by at most so many
    models; by fewer where rows are many.

    Raises ValueError for what is no sum of all rows with normal errors alone.
    """
    each = [Round(*one) for one in rounds]
    if any(e.intervals is not None or e.weights is not None or e.shrunk or e.choices is not None for _, e in each):
        raise ValueError("rounds count together only as sums of all rows with normal errors")
    parts = sorted(parted(each, drawn_rows(each[0], cells, labels, coins)), key=lambda part: part.evidence.noise)
    networks, told = zip(*parts[: models_of(len(rounds), parts[0].evidence.rows, most)], strict=True)
    scales = [told[0].noise / e.noise for e in told]
    total = side_by_side([[scale * t for t in e.total] for scale, e in zip(scales, told, strict=True)])
    together = replace(told[0], total=total, labels=labels, clip_norm=None)
    return Round(GradientsOfRounds(networks, scales, told[0].clip_norm), together)


def drawn_rows(
    one: Round, cells: Sequence[Cell], labels: Tensor | None, coins: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Some batches of the prior: their columns (DRAWN, B, D) and labels (DRAWN, B)."""
    network, evidence = one
    shape, device = (DRAWN, evidence.rows), str(network.weights[0].device)
    if labels is None:
        chances = evidence.label_prior.exp().expand(DRAWN, -1)
        labels = torch.multinomial(chances, evidence.rows, replacement=True, generator=coins)
    rows = from_prior(cells, DRAWN * evidence.rows, coins, device).view(*shape, len(cells))
    return encoded(network, cells, rows), labels.expand(shape)


def parted(rounds: Sequence[Round], drawn: tuple[Tensor, Tensor]) -> list[Round]:
    """The means of rounds one after another, as many as may count as one."""
    mean = _mean(rounds)
    if len(rounds) == 1 or _off(rounds, mean, *drawn) <= FAINT:
        return [mean]
    half = len(rounds) // 2
    return [*parted(rounds[:half], drawn), *parted(rounds[half:], drawn)]


def _mean(rounds: Sequence[Round]) -> Round:
    networks, each = zip(*rounds, strict=True)
    network = copy(networks[0])
    network.weights = _means([n.weights for n in networks])
    network.biases = _means([n.biases for n in networks])
    noise = math.sqrt(sum(e.noise**2 for e in each)) / len(each)
    return Round(network, replace(each[0], total=_means([e.total for e in each]), noise=noise))


def _off(rounds: Sequence[Round], mean: Round, rows: Tensor, labels: Tensor) -> float:
    """How far the mean of the gradients of rounds is from that at the mean of their models, for batches `rows`
    (C, B, D) with `labels` (C, B): along the gradient of a row, in units of the noise, in the root mean square over
    rows.
    """
    ones, clip_norm = torch.ones_like(rows[..., 0]), mean.evidence.clip_norm
    own, *each = (GradientsOfRounds([n], [1.0], clip_norm) for n in (mean.network, *(r.network for r in rounds)))
    sums = _means([network.sums(rows, labels, ones) for network in each])
    off = [one - other for one, other in zip(sums, own.sums(rows, labels, ones), strict=True)]
    share = own.share(own.first(rows, off), labels, off)
    along = share.inner / (share.square.clamp_min(1e-30).sqrt() * mean.evidence.noise)
    return float((along**2).mean().sqrt())


def _means(each: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The mean of each layer over all of these."""
    return [torch.stack(layers).mean(0) for layers in zip(*each, strict=True)]
