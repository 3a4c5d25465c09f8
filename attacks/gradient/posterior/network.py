"""The gradients of many candidate rows, measured against a residual without being built.

The gradient of one row is g = (d_l [a_l | 1]ᵀ) over the layers l, d_l the error that is propagated back to layer l and
a_l its input. Against a residual R of the size of the weights,

    <R, g> = sum_l d_lᵀ R_l [a_l | 1],        |g|² = sum_l |d_l|² (|a_l|² + 1),

one forward and one backward pass of the row and a product with each R_l (Goodfellow 2015 has the norm). Candidates that
share all cells but one share the product with the first layer too, which is the widest: `First` holds it.

Where entries err by different amounts, each counts by a weight of its own: with these as W, the residual is W R, and

    |g|²_W = sum_l (d_l²)ᵀ W_l [a_l² | 1]

costs no more than the inner product does.

Shapes: C chains, m candidates of each, layers of (out, in + 1) weights with the bias last.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.models import ACTIVATIONS, DERIVATIVES, layer_shapes
from leakledger.preprocess.views import ModelSpec

Weights = Sequence[Tensor] | None
AT_ONCE = 2**23  # numbers of an intermediate result, of which memory holds a few


class First(NamedTuple):
    """Candidate rows x as the first layer sees them: `before` (C, m, out) its outputs, `inner` (C, m, out) the product
    R_0 [x | 1] (None where no residual is asked for), `square` (C, m) |x|² + 1, `weighted` (C, m, out) W_0 [x² | 1]
    (None where all entries count alike).
    """

    before: Tensor
    inner: Tensor | None
    square: Tensor
    weighted: Tensor | None = None


class Share(NamedTuple):
    """What candidates would add to an update: `inner` (C, m) <R, g>, `square` (C, m) |g|², with the weights of entries
    where they have some, and `norm` (C, m) without. Their `errors` (C, m, out) of every layer, and the `inputs`
    (C, m, in) of all but the first.
    """

    inner: Tensor
    square: Tensor
    norm: Tensor
    errors: list[Tensor]
    inputs: list[Tensor]


class RowGradients:
    """The network of a `ModelSpec` for cross-entropy, at given weights; a binary target may have a single logit."""

    def __init__(self, spec: ModelSpec, weights: Mapping[str, NDArray[np.float64]], device: str) -> None:
        self.single, self.classes = spec.single_logit, spec.classes
        self.activation, self.derivative = ACTIVATIONS[spec.activation], DERIVATIVES[spec.activation]
        layers = range(len(layer_shapes(spec)))
        self.weights = [_tensor(weights[f"{i}.weight"], device) for i in layers]
        self.biases = [_tensor(weights[f"{i}.bias"], device) for i in layers]

    def moved(self, by: Sequence[Tensor]) -> "RowGradients":
        """The network whose layers (out, in + 1) are less by this much, the bias last."""
        other = copy(self)
        other.weights = [w - b[:, :-1] for w, b in zip(self.weights, by, strict=True)]
        other.biases = [bias - b[:, -1] for bias, b in zip(self.biases, by, strict=True)]
        return other

    def errors(self, first: First, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The errors (C, m, out_l) of every layer, and the inputs (C, m, in_l) of all but the first, of rows as the
        `first` layer sees them, with `labels` (C, m).
        """
        return self.above(first.before, labels, self.weights[1:], self.biases[1:])

    def above(
        self, before: Tensor, labels: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The same of rows with outputs `before` (C, m, out) of a first layer, under layers of these weights."""
        outputs, inputs = [before], []
        for weight, bias in zip(weights, biases, strict=True):
            inputs.append(self.activation(outputs[-1]))
            outputs.append(functional.linear(inputs[-1], weight, bias))
        error = self._last_error(outputs[-1], labels)
        errors = [error]
        for weight, output in zip(weights[::-1], outputs[-2::-1], strict=True):
            error = (error @ weight) * self.derivative(output)
            errors.append(error)
        return errors[::-1], inputs

    def _last_error(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.single:
            return torch.sigmoid(logits) - labels[..., None]
        return torch.softmax(logits, -1) - functional.one_hot(labels, self.classes)

    def share(self, first: First, labels: Tensor, residual: Sequence[Tensor], weights: Weights = None) -> Share:
        """Inner products with the `residual` (C, out_l, in_l + 1) and squared norms of the gradients of candidates.

        `weights` (out_l, in_l + 1) of entries: the residual is already multiplied by them.
        """
        errors, inputs = self.errors(first, labels)
        assert first.inner is not None
        inner = (errors[0] * first.inner).sum(-1)
        for error, given, rest in zip(errors[1:], inputs, residual[1:], strict=True):
            inner += ((error @ rest[..., :-1]) * given).sum(-1) + (error @ rest[..., -1:])[..., 0]
        norm = squares(first, errors, inputs)
        square = norm if weights is None else _weighted_squares(first, errors, inputs, weights)
        return Share(inner, square, norm, errors, inputs)

    def products(self, one: Share, rows: Tensor, other: Share, others: Tensor, weights: Weights = None) -> Tensor:
        """(C, m, n) inner products of the gradients of candidates `rows` (C, m, D) and `others` (C, n, D)."""
        sides = zip(one.errors, [rows, *one.inputs], other.errors, [others, *other.inputs], strict=True)
        if weights is None:
            return torch.stack([(e @ f.mT) * (a @ b.mT + 1) for e, a, f, b in sides]).sum(0)
        parts = []
        for (e, a, f, b), weight in zip(sides, weights, strict=True):
            some = max(1, AT_ONCE // (e.shape[1] * f.shape[1] * max(weight.shape)))  # chains
            chunks = zip(*(torch.split(side, some) for side in (e, a, f, b)), strict=True)
            parts.append(torch.cat([_weighted_products(weight, *chunk) for chunk in chunks]))
        return torch.stack(parts).sum(0)

    def square(self, first: First, labels: Tensor) -> Tensor:
        """(C, m) the squared norms alone."""
        return squares(first, *self.errors(first, labels))

    def first(self, rows: Tensor, residual: Sequence[Tensor] | None = None, weights: Weights = None) -> First:
        """Whole candidate rows (C, m, D) as the first layer sees them."""
        before = functional.linear(rows, self.weights[0], self.biases[0])
        inner = None if residual is None else rows @ residual[0][..., :-1].mT + residual[0][..., -1][:, None]
        weighted = None if weights is None else functional.linear(rows**2, weights[0][:, :-1], weights[0][:, -1])
        return First(before, inner, (rows**2).sum(-1) + 1, weighted)

    def sums(self, rows: Tensor, labels: Tensor, factor: Tensor) -> list[Tensor]:
        """Per layer (C, out, in + 1): the sum of the gradients of rows (C, m, D), each times its `factor` (C, m)."""
        errors, inputs = self.errors(self.first(rows), labels)
        return [
            torch.cat([e.mT @ a, e.sum(1)[..., None]], -1)
            for e, a in zip((e * factor[..., None] for e in errors), [rows, *inputs], strict=True)
        ]


def _weighted_products(weight: Tensor, e: Tensor, a: Tensor, f: Tensor, b: Tensor) -> Tensor:
    """(C, m, n) of one layer, with errors e (C, m, out) and f (C, n, out), and inputs a (C, m, in) and b (C, n, in)."""
    across = (e[:, :, None] * f[:, None]) @ weight  # (C, m, n, in + 1)
    return (across[..., :-1] * a[:, :, None] * b[:, None]).sum(-1) + across[..., -1]


def squares(first: First, errors: Sequence[Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """(C, m) the squared norms of the gradients with these errors and inputs."""
    total = (errors[0] ** 2).sum(-1) * first.square
    for error, given in zip(errors[1:], inputs, strict=True):
        total += (error**2).sum(-1) * ((given**2).sum(-1) + 1)
    return total


def _weighted_squares(
    first: First, errors: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """(C, m) the same with each entry times its weight."""
    assert first.weighted is not None
    total = (errors[0] ** 2 * first.weighted).sum(-1)
    for error, given, weight in zip(errors[1:], inputs, weights[1:], strict=True):
        total += (error**2 * functional.linear(given**2, weight[:, :-1], weight[:, -1])).sum(-1)
    return total


def _tensor(array: NDArray[np.float64], device: str) -> Tensor:
    return torch.tensor(array, dtype=torch.float32, device=device)
