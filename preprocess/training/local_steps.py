"""Local steps of SGD and Adam with the gradient written out.

One forward pass z_l = W_l a_l + b_l and one backward pass d_l = (W_{l+1}^T d_{l+1}) * f'(z_l); the gradient of layer l
is d_l^T a_l. All parameters lie in one tensor and all gradients in another, so that a step of an optimizer is a few
operations on these. On the small networks of tables, whose steps are a few microseconds of arithmetic, that is several
times as fast as a graph built and an optimizer called for each step.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.activation_norms import SCALE, SHIFT, error_of_sums, moved, standardised_by
from leakledger.preprocess.models import ACTIVATIONS, DERIVATIVES, parameters
from leakledger.preprocess.views import ModelSpec, TrainingSpec

Step = tuple[Tensor, Tensor, Sequence[Tensor] | None]
"""Rows (n, inputs), labels (n,), and the masks of hidden units under dropout, each (n, width)."""

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8  # of Adam (Kingma and Ba, ICLR 2015): the defaults of PyTorch


class Hidden(NamedTuple):
    """A hidden layer in the forward pass: what its activation took (n, H), and under a norm the standardised sums
    (n, H) with what they were multiplied by.
    """

    taken: Tensor
    standard: Tensor | None = None
    sharp: Tensor | None = None


def descend(spec: ModelSpec, training: TrainingSpec, weights: dict[str, Tensor], steps: Iterable[Step]) -> None:
    """Puts into `weights` what they are after one step on the mean loss of each batch; the running statistics of batch
    norm move with them. A proximal term adds mu / 2 |w - w_0|^2 to each loss, w_0 the weights given.
    """
    together, learned = _laid_out(parameters(spec, weights))
    total, gradient = _laid_out({name: torch.zeros_like(w) for name, w in learned.items()})
    weights |= learned
    begun = together.clone()
    optimizer = _Adam(together) if training.optimizer == "adam" else None
    with torch.no_grad():
        for number, (rows, labels, kept) in enumerate(steps, 1):
            into_gradient(spec, weights, rows, labels, kept, gradient)
            if training.proximal:
                total.add_(together - begun, alpha=training.proximal)
            moved_by = total if optimizer is None else optimizer.direction(total, number)
            together.sub_(moved_by, alpha=training.learning_rate)


def into_gradient(
    spec: ModelSpec,
    weights: dict[str, Tensor],
    rows: Tensor,
    labels: Tensor,
    kept: Sequence[Tensor] | None,
    gradient: dict[str, Tensor],
) -> None:
    """Writes the gradient of the mean loss of one batch, by the name of each parameter; `kept` as in `models.forward`.
    The running statistics of batch norm move, in `weights`.
    """
    count, activation, slope = len(spec.hidden) + 1, ACTIVATIONS[spec.activation], DERIVATIVES[spec.activation]
    inputs, passed = [rows], list[Hidden]()
    for i in range(count - 1):
        hidden = _hidden(spec, weights, i, _sums(weights, i, inputs[-1]))
        units = activation(hidden.taken)
        passed.append(hidden)
        inputs.append(units if kept is None else units * kept[i])
    error = error_of_mean(spec, _sums(weights, count - 1, inputs[-1]), labels)
    for i in reversed(range(count)):
        torch.mm(error.T, inputs[i], out=gradient[f"{i}.weight"])
        torch.sum(error, 0, out=gradient[f"{i}.bias"])
        if i:
            below = error @ weights[f"{i}.weight"]
            below = below if kept is None else below * kept[i - 1]
            error = _behind_norm(spec, weights, i - 1, passed[i - 1], below * slope(passed[i - 1].taken), gradient)


def error_of_mean(spec: ModelSpec, outputs: Tensor, labels: Tensor) -> Tensor:
    """(n, outputs) the derivative of `models.mean_loss` by the outputs of the last layer."""
    if spec.task == "regression":
        off = outputs - labels.to(outputs.dtype)[:, None]
        return torch.sign(off) / len(outputs) if spec.loss == "mae" else 2 * off / len(outputs)
    if outputs.shape[1] == 1:
        return (torch.sigmoid(outputs) - labels.to(outputs.dtype)[:, None]) / len(outputs)
    return (torch.softmax(outputs, -1) - functional.one_hot(labels, outputs.shape[1])) / len(outputs)


def _laid_out(tensors: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """One tensor that holds all of these, and its parts by name, in their shapes."""
    whole = torch.cat([t.reshape(-1) for t in tensors.values()])
    parts = torch.split(whole, [t.numel() for t in tensors.values()])
    return whole, {name: part.view(t.shape) for (name, t), part in zip(tensors.items(), parts, strict=True)}


def _sums(weights: dict[str, Tensor], layer: int, inputs: Tensor) -> Tensor:
    return torch.addmm(weights[f"{layer}.bias"], inputs, weights[f"{layer}.weight"].T)


def _hidden(spec: ModelSpec, weights: dict[str, Tensor], layer: int, sums: Tensor) -> Hidden:
    """What the activation takes; the running statistics of batch norm move."""
    if spec.norm == "none":
        return Hidden(sums)
    if spec.norm == "batch":
        weights |= moved(weights, layer, sums)
    standard, sharp = standardised_by(spec, sums)
    if spec.norm == "instance":
        return Hidden(standard, standard, sharp)
    taken = torch.addcmul(weights[f"{layer}.{SHIFT}"], standard, weights[f"{layer}.{SCALE}"])
    return Hidden(taken, standard, sharp)


def _behind_norm(
    spec: ModelSpec,
    weights: dict[str, Tensor],
    layer: int,
    hidden: Hidden,
    error: Tensor,
    gradient: dict[str, Tensor],
) -> Tensor:
    """The error of the sums, of that of what the activation took; the gradient of scale and shift is written."""
    if hidden.standard is None or hidden.sharp is None:
        return error
    of_standard = error
    if spec.norm != "instance":
        of_standard = error * weights[f"{layer}.{SCALE}"]
        torch.sum(error * hidden.standard, 0, out=gradient[f"{layer}.{SCALE}"])
        torch.sum(error, 0, out=gradient[f"{layer}.{SHIFT}"])
    return error_of_sums(spec, hidden.standard, hidden.sharp, of_standard)


class _Adam:
    """The moments of Adam: running means of the gradient and of its square."""

    def __init__(self, like: Tensor) -> None:
        self._mean, self._square = torch.zeros_like(like), torch.zeros_like(like)

    def direction(self, gradient: Tensor, number: int) -> Tensor:
        """By what the weights move at a learning rate of 1, in the step with this number, from 1 on."""
        self._mean.lerp_(gradient, 1 - DECAY)
        self._square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - SQUARE_DECAY)
        mean = self._mean / (1 - DECAY**number)
        return mean.div_((self._square / (1 - SQUARE_DECAY**number)).sqrt_().add_(EPSILON))
