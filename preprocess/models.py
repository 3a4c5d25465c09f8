"""The model that all parties train: a multilayer perceptron from a `ModelSpec`, its weights as named arrays.

Weights travel as `{name: float32 array}` with the names of the layers in order: `0.weight` (out, in), `0.bias` (out,),
... The initialisation is PyTorch's default for linear layers (Kaiming uniform with a = sqrt(5)): every entry of a layer
is uniform in +-1/sqrt(inputs of the layer).

An activation norm (`activation_norms`) adds `0.norm.weight` and `0.norm.bias` (out,) of each hidden layer; batch norm
also its running statistics, `0.norm.running_mean` and `0.norm.running_var` (out,): state of the model, no parameters.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leakledger.preprocess.activation_norms import (
    MEAN,
    MOMENTUM,
    SCALE,
    VARIANCE,
    check_norm,
    moved,
    norm_shapes,
    normalised,
    statistic_shapes,
)
from leakledger.preprocess.views import ModelSpec

Named = TypeVar("Named")
OF_FIRST_LAYER = (f"0.{MEAN}", f"0.{VARIANCE}")  # the running statistics of the first layer's sums
Weights = dict[str, NDArray[np.float32]]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "leaky-relu": functional.leaky_relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {  # elementwise; at a kink that of the side to the left
    "relu": lambda z: torch.sign(z).clamp_min(0),
    "leaky-relu": lambda z: torch.where(z > 0, 1.0, 0.01).to(z.dtype),
    "elu": lambda z: z.clamp(max=0).exp(),
    "gelu": lambda z: torch.special.ndtr(z) + z * torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi),
    "tanh": lambda z: 1 - torch.tanh(z) ** 2,
    "sigmoid": lambda z: torch.sigmoid(z) * torch.sigmoid(-z),
}
REGRESSION_LOSSES: dict[str, Callable[..., Tensor]] = {"mse": functional.mse_loss, "mae": functional.l1_loss}


def layer_shapes(spec: ModelSpec) -> list[tuple[int, int]]:
    """(out, in) of each linear layer. Raises ValueError for widths below one, an unknown activation, a norm that does
    not fit the widths, and a loss that is none of the task's.
    """
    widths = [spec.inputs, *spec.hidden, spec.outputs]
    if min(widths) < 1:
        raise ValueError(f"every layer needs at least one unit, got widths {widths}")
    if spec.activation not in ACTIVATIONS:
        raise ValueError(f"activation {spec.activation!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    if spec.loss != "mse" and spec.task != "regression":
        raise ValueError(f"loss {spec.loss!r} is that of a regression; a {spec.task} task minimises cross-entropy")
    check_norm(spec)
    return list(zip(widths[1:], widths[:-1], strict=True))


def parameter_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """The shape of everything that is learned, by name. Raises ValueError as `layer_shapes`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (out, inputs) in enumerate(layer_shapes(spec)):
        shapes |= {f"{i}.weight": (out, inputs), f"{i}.bias": (out,)}
        shapes |= norm_shapes(spec, i) if i < len(spec.hidden) else {}
    return shapes


def parameters(spec: ModelSpec, named: Mapping[str, Named]) -> dict[str, Named]:
    """Those that are learned: all but the running statistics of batch norm."""
    state = statistic_shapes(spec)
    return {name: value for name, value in named.items() if name not in state}


def statistics(spec: ModelSpec, named: Mapping[str, Named]) -> dict[str, Named]:
    """The running statistics among them; none but of batch norm."""
    state = statistic_shapes(spec)
    return {name: value for name, value in named.items() if name in state}


def initial_weights(spec: ModelSpec, coins: np.random.Generator) -> Weights:
    """Fresh weights, drawn from `coins`; a norm begins with scale 1, shift 0, running mean 0 and variance 1."""
    weights: Weights = {}
    for i, (out, inputs) in enumerate(layer_shapes(spec)):
        bound = 1 / np.sqrt(inputs)
        weights[f"{i}.weight"] = coins.uniform(-bound, bound, (out, inputs)).astype(np.float32)
        weights[f"{i}.bias"] = coins.uniform(-bound, bound, out).astype(np.float32)
    for name, shape in (parameter_shapes(spec) | statistic_shapes(spec)).items():
        if name not in weights:
            weights[name] = np.full(shape, float(name.endswith((SCALE, VARIANCE))), np.float32)
    return weights


def as_tensors(
    weights: Mapping[str, NDArray[np.floating]], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Weights or gradients as tensors of their own (payload arrays are read-only)."""
    return {name: torch.tensor(np.asarray(a), dtype=dtype, device=device) for name, a in weights.items()}


def as_arrays(tensors: Mapping[str, Tensor]) -> Weights:
    return {name: t.detach().cpu().numpy().astype(np.float32, copy=False) for name, t in tensors.items()}


def check_weights(spec: ModelSpec, weights: Mapping[str, NDArray[np.floating]]) -> None:
    """Raises ValueError, naming the tensor, unless `weights` are finite and have the shapes that `spec` asks for.

    Running statistics of batch norm may be among them.
    """
    expected, state = parameter_shapes(spec), statistic_shapes(spec)
    if statistics(spec, weights):
        expected = expected | state
    if missing := sorted(expected.keys() ^ weights.keys()):
        norm = "" if spec.norm == "none" else f" and {spec.norm} norm"
        raise ValueError(
            f"tensors {missing} do not match a network of widths {[spec.inputs, *spec.hidden, spec.outputs]}{norm}"
        )
    for name, shape in expected.items():
        if np.shape(weights[name]) != shape:
            raise ValueError(f"{name} has shape {np.shape(weights[name])}, the model needs {shape}")
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"{name} holds values that are not finite")


def layers(
    spec: ModelSpec,
    weights: Mapping[str, Tensor],
    rows: Tensor,
    kept: Sequence[Tensor] | None = None,
    running: bool = False,
) -> list[tuple[Tensor, Tensor]]:
    """Of each linear layer, its inputs (..., n, in) and its sums (..., n, out), for rows (..., n, inputs); the last
    sums are the outputs. `kept` and `running` as in `forward`.
    """
    activation, found = ACTIVATIONS[spec.activation], list[tuple[Tensor, Tensor]]()
    for i in range(len(spec.hidden) + 1):
        if i:
            rows = activation(normalised(spec, weights, i - 1, found[-1][1], running))
            rows = rows if kept is None else rows * kept[i - 1]
        found.append((rows, functional.linear(rows, weights[f"{i}.weight"], weights[f"{i}.bias"])))
    return found


def forward(
    spec: ModelSpec,
    weights: Mapping[str, Tensor],
    rows: Tensor,
    kept: Sequence[Tensor] | None = None,
    running: bool = False,
) -> Tensor:
    """Outputs (..., n, outputs) of rows (..., n, inputs); in training with the masks `kept` of hidden units. `running`:
    batch norm goes by its running statistics, as in evaluation, and not by the rows given.
    """
    return layers(spec, weights, rows, kept, running)[-1][1]


def moved_statistics(
    spec: ModelSpec, weights: Mapping[str, Tensor], rows: Tensor, kept: Sequence[Tensor] | None = None
) -> dict[str, Tensor]:
    """The running statistics of batch norm after a training batch (n, inputs); nothing under another norm."""
    if spec.norm != "batch":
        return {}
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for i, (_, sums) in enumerate(layers(spec, weights, rows, kept)[:-1]):
            found |= moved(weights, i, sums)
    return found


def dropout_masks(spec: ModelSpec, rows: int, coins: np.random.Generator | None) -> list[Tensor] | None:
    """Of each hidden layer (rows, width): 0 for a unit that is left out of a row, else 1 / (1 - dropout); None where
    there is no dropout. Raises ValueError for a dropout outside [0, 1), and where there are no coins to draw it by.
    """
    if not 0 <= spec.dropout < 1:
        raise ValueError(f"dropout is {spec.dropout}; it must be at least 0 and below 1")
    if not spec.dropout:
        return None
    if coins is None:
        raise ValueError(f"dropout {spec.dropout} is drawn by a client's coins, and there are none")
    drawn = [coins.random((rows, width), np.float32) >= spec.dropout for width in spec.hidden]
    return [torch.from_numpy(m).float() / (1 - spec.dropout) for m in drawn]


def told_of_batch(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.float64]:
    """(H,) what the one batch that moved a running statistic had: the mean of its sums, or their unbiased variance."""
    return (np.asarray(after, np.float64) - (1 - MOMENTUM) * np.asarray(before, np.float64)) / MOMENTUM


def class_logits(spec: ModelSpec, outputs: Tensor) -> Tensor:
    """(..., n, classes): the outputs themselves, or 0 and the single logit of a binary target. The softmax of these is
    the sigmoid of that, and their cross-entropy the binary one.
    """
    if spec.single_logit:
        return torch.cat([torch.zeros_like(outputs), outputs], -1)
    return outputs


def mean_loss(spec: ModelSpec, outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over rows, or for regression the mean squared or absolute error; labels (n,)."""
    if spec.task == "regression":
        return REGRESSION_LOSSES[spec.loss](outputs[..., 0], labels.to(outputs.dtype))
    return functional.cross_entropy(class_logits(spec, outputs), labels)


def summed_loss(spec: ModelSpec, outputs: Tensor, labels: Tensor) -> Tensor:
    """The same summed over rows (n, outputs); 0 of none."""
    if spec.task == "regression":
        return REGRESSION_LOSSES[spec.loss](outputs[..., 0], labels.to(outputs.dtype), reduction="sum")
    return functional.cross_entropy(class_logits(spec, outputs), labels, reduction="sum")


def gradient(
    spec: ModelSpec,
    weights: Mapping[str, Tensor],
    rows: Tensor,
    labels: Tensor,
    kept: Sequence[Tensor] | None = None,
) -> dict[str, Tensor]:
    """Gradient of the mean loss of one batch, by the name of each parameter; `kept` as in `forward`."""
    leaves = {name: w.detach().requires_grad_() for name, w in parameters(spec, weights).items()}
    loss = mean_loss(spec, forward(spec, leaves, rows, kept), labels)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
