"""Activation norms: what stands between a hidden linear layer and its activation, on a multilayer perceptron.

With z (n, H) the sums of a hidden layer over n rows, x = (z - m) / sqrt(v + 1e-5) goes on as scale * x + shift, with a
scale and a shift per unit that are learned (1 and 0 at first). m and v are mean and variance

* *layer* (Ba, Kiros, Hinton 2016): of each row, over its H units;
* *group* (Wu and He 2018): of each row, over each of G groups of H / G consecutive units;
* *instance* (Ulyanov, Vedaldi, Lempitsky 2016): of each channel of each image, over its pixels. A row of a perceptron
  has no pixels, and over a single number every x would be 0. What remains is what PyTorch's InstanceNorm1d makes of a
  matrix: the row is the one channel and its units are the positions. So it is layer norm without scale and shift;
* *batch* (Ioffe and Szegedy 2015): of each unit, over the rows of the batch in training; in evaluation the *running
  statistics*, which every batch moves by a tenth of the way to its own mean and unbiased variance. They are no
  parameters, they have no gradient, and they belong to the model: state that travels.

A gradient of one row exists under the first three. Batch norm mixes rows: nothing of a batch is a sum over its rows.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from leakledger.preprocess.views import ModelSpec

EPSILON, MOMENTUM = 1e-5, 0.1  # the defaults of PyTorch
SCALE, SHIFT = "norm.weight", "norm.bias"
MEAN, VARIANCE = "norm.running_mean", "norm.running_var"


def check_norm(spec: ModelSpec) -> None:
    """Raises ValueError where a norm would make the same of every row: over groups, or layers, of a single unit."""
    groups = {"layer": 1, "instance": 1, "group": spec.norm_groups}.get(spec.norm)
    if groups is None:
        return
    for width in spec.hidden:
        if groups < 1 or width % groups:
            raise ValueError(
                f"norm_groups is {groups}, and {width} hidden units do not divide into as many equal groups"
            )
        if width // groups < 2:
            raise ValueError(
                f"{spec.norm} norm over a single unit makes 0 of every row: {width} hidden units in {groups} group(s); "
                "use wider layers or fewer groups"
            )


def norm_shapes(spec: ModelSpec, layer: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what the norm of a hidden layer learns."""
    if spec.norm in ("none", "instance"):
        return {}
    return {f"{layer}.{name}": (spec.hidden[layer],) for name in (SCALE, SHIFT)}


def statistic_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Names and shapes of running statistics; none but of batch norm."""
    if spec.norm != "batch":
        return {}
    return {f"{i}.{name}": (width,) for i, width in enumerate(spec.hidden) for name in (MEAN, VARIANCE)}


def standardised(spec: ModelSpec, sums: Tensor) -> Tensor:
    """x (..., n, H) of sums z (..., n, H), in training."""
    return standardised_by(spec, sums)[0]


def standardised_by(spec: ModelSpec, sums: Tensor) -> tuple[Tensor, Tensor]:
    """x (..., n, H) of sums z (..., n, H), and 1 / sqrt(v + 1e-5), which spreads over the numbers it belongs to."""
    parts, over = _parts(spec, sums)
    centred = parts - parts.mean(over, keepdim=True)
    sharp = torch.rsqrt(centred.square().mean(over, keepdim=True) + EPSILON)
    return (centred * sharp).reshape(sums.shape), sharp


def error_of_sums(spec: ModelSpec, x: Tensor, sharp: Tensor, error: Tensor) -> Tensor:
    """dL/dz (n, H) of `error` dL/dx (n, H), x and `sharp` as `standardised_by` has them: (e - mean e - x mean e x)
    times `sharp`, since mean and variance move with each z (Ioffe and Szegedy 2015, section 3).
    """
    (e, over), (parts, _) = _parts(spec, error), _parts(spec, x)
    rest = e - e.mean(over, keepdim=True) - parts * (e * parts).mean(over, keepdim=True)
    return (rest * sharp).reshape(error.shape)


def _parts(spec: ModelSpec, sums: Tensor) -> tuple[Tensor, int]:
    """The numbers (..., n, H), of group norm (..., n, G, H / G), and the axis of mean and variance."""
    if spec.norm == "group":
        return sums.reshape(*sums.shape[:-1], spec.norm_groups, sums.shape[-1] // spec.norm_groups), -1
    return sums, -2 if spec.norm == "batch" else -1


def normalised(
    spec: ModelSpec, weights: Mapping[str, Tensor], layer: int, sums: Tensor, running: bool = False
) -> Tensor:
    """What the activation of a hidden layer takes, of its sums (..., n, H); of batch norm by the running statistics in
    `weights` where `running` is set.
    """
    if spec.norm == "none":
        return sums
    if running and spec.norm == "batch":
        mean, variance = weights[f"{layer}.{MEAN}"], weights[f"{layer}.{VARIANCE}"]
        found = (sums - mean) * torch.rsqrt(variance + EPSILON)
    else:
        found = standardised(spec, sums)
    return found if spec.norm == "instance" else found * weights[f"{layer}.{SCALE}"] + weights[f"{layer}.{SHIFT}"]


def moved(weights: Mapping[str, Tensor], layer: int, sums: Tensor) -> dict[str, Tensor]:
    """The running statistics of a layer after a batch with these sums (n, H). One row has no variance: they stay."""
    names = f"{layer}.{MEAN}", f"{layer}.{VARIANCE}"
    if len(sums) < 2:
        return {name: weights[name] for name in names}
    new = sums.mean(0), sums.var(0)
    return {name: torch.lerp(weights[name], to, MOMENTUM) for name, to in zip(names, new, strict=True)}
