"""Local steps of SGD with the gradient written out.

One forward pass z_l = W_l a_l + b_l and one backward pass d_l = (W_{l+1}^T d_{l+1}) * f'(z_l); the gradient of layer l
is d_l^T a_l, which is taken off the weights as it is computed. On the small networks of tables, whose steps are a few
microseconds of arithmetic, that is several times as fast as a graph built and an optimizer called for each step.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.activation_norms import SCALE, SHIFT, error_of_sums, moved, standardised_by
from leakledger.preprocess.models import ACTIVATIONS, DERIVATIVES, parameters
from leakledger.preprocess.views import ModelSpec

Step = tuple[Tensor, Tensor, Sequence[Tensor] | None]
"""Rows (n, inputs), labels (n,), and the masks of hidden units under dropout, each (n, width)."""


class Hidden(NamedTuple):
    """A hidden layer in the forward pass: what its activation took (n, H), and under a norm the standardised sums
    (n, H) with what they were multiplied by.
    """

    taken: Tensor
    standard: Tensor | None = None
    sharp: Tensor | None = None


def descend(
    spec: ModelSpec, weights: dict[str, Tensor], steps: Iterable[Step], rate: float, proximal: float = 0.0
) -> None:
    """Moves `weights`, and the running statistics of batch norm among them, in place: one step of SGD at `rate` on the
    mean loss of each batch. `proximal`: mu of a term mu / 2 |w - w_0|^2 of each loss, w_0 the weights given.
    """
    count, activation, slope = len(spec.hidden) + 1, ACTIVATIONS[spec.activation], DERIVATIVES[spec.activation]
    learned = parameters(spec, weights)
    begun = {name: w.clone() for name, w in learned.items()} if proximal else {}
    with torch.no_grad():
        for rows, labels, kept in steps:
            pulls = {name: learned[name] - w for name, w in begun.items()}
            inputs, passed = [rows], list[Hidden]()
            for i in range(count - 1):
                hidden = _hidden(spec, weights, i, _sums(weights, i, inputs[-1]))
                units = activation(hidden.taken)
                passed.append(hidden)
                inputs.append(units if kept is None else units * kept[i])
            error = error_of_mean(spec, _sums(weights, count - 1, inputs[-1]), labels)
            for i in reversed(range(count)):
                below = error @ weights[f"{i}.weight"] if i else error  # by the weights before this step
                weights[f"{i}.weight"].addmm_(error.T, inputs[i], alpha=-rate)
                weights[f"{i}.bias"].sub_(error.sum(0), alpha=rate)
                if i:
                    below = below if kept is None else below * kept[i - 1]
                    error = _behind_norm(spec, weights, i - 1, passed[i - 1], below * slope(passed[i - 1].taken), rate)
            for name, away in pulls.items():
                learned[name].sub_(away, alpha=rate * proximal)


def error_of_mean(spec: ModelSpec, outputs: Tensor, labels: Tensor) -> Tensor:
    """(n, outputs) the derivative of `models.mean_loss` by the outputs of the last layer."""
    if spec.task == "regression":
        off = outputs - labels.to(outputs.dtype)[:, None]
        return torch.sign(off) / len(outputs) if spec.loss == "mae" else 2 * off / len(outputs)
    if outputs.shape[1] == 1:
        return (torch.sigmoid(outputs) - labels.to(outputs.dtype)[:, None]) / len(outputs)
    return (torch.softmax(outputs, -1) - functional.one_hot(labels, outputs.shape[1])) / len(outputs)


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
    spec: ModelSpec, weights: dict[str, Tensor], layer: int, hidden: Hidden, error: Tensor, rate: float
) -> Tensor:
    """The error of the sums, of that of what the activation took; scale and shift take their step."""
    if hidden.standard is None or hidden.sharp is None:
        return error
    of_standard = error
    if spec.norm != "instance":
        of_standard = error * weights[f"{layer}.{SCALE}"]
        weights[f"{layer}.{SCALE}"].sub_((error * hidden.standard).sum(0), alpha=rate)
        weights[f"{layer}.{SHIFT}"].sub_(error.sum(0), alpha=rate)
    return error_of_sums(spec, hidden.standard, hidden.sharp, of_standard)
