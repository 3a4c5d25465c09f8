"""The activations of `preprocess.models` with their first two derivatives, in float64.

What is propagated back through a layer needs the slope; how it moves with a row, its bend. A kink has none: the
derivatives of piecewise linear activations are those of the side to the left of it, as in PyTorch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from leakledger.attacks.observed.affine import Array

Function = Callable[[Array], Array]
LEAK = 0.01  # the slope of a leaky ReLU below zero: PyTorch's default, which `preprocess.models` uses


@dataclass(frozen=True)
class Activation:
    """An activation, its first derivative and its second, each elementwise."""

    value: Function
    slope: Function
    bend: Function


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _exponential(z: Array) -> Array:
    """exp(z) below zero, and 1 above, where it is not used."""
    return np.asarray(np.exp(np.minimum(z, 0.0)))


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda z: z.clip(0), lambda z: (z > 0).astype(np.float64), np.zeros_like),
    "leaky-relu": Activation(
        lambda z: np.where(z > 0, z, LEAK * z), lambda z: np.where(z > 0, 1.0, LEAK), np.zeros_like
    ),
    "elu": Activation(
        lambda z: np.where(z > 0, z, _exponential(z) - 1),
        lambda z: np.where(z > 0, 1.0, _exponential(z)),
        lambda z: np.where(z > 0, 0.0, _exponential(z)),
    ),
    "gelu": Activation(lambda z: z * ndtr(z), lambda z: ndtr(z) + z * _density(z), lambda z: (2 - z**2) * _density(z)),
    "tanh": Activation(np.tanh, lambda z: 1 - np.tanh(z) ** 2, lambda z: -2 * np.tanh(z) * (1 - np.tanh(z) ** 2)),
    "sigmoid": Activation(
        expit, lambda z: expit(z) * expit(-z), lambda z: expit(z) * expit(-z) * (expit(-z) - expit(z))
    ),
}
