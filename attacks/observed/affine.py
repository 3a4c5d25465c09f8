"""An affine layer as one matrix: [W | b] maps [x | 1]. So the gradient of a layer is D^T [X | 1], bias included."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, NDArray[np.float64]]


def affine(weights: Weights, layer: int) -> Array:
    """[W | b] (out, in + 1) of one layer, or of its gradient."""
    return np.column_stack([weights[f"{layer}.weight"], weights[f"{layer}.bias"]])


def with_ones(values: Array) -> Array:
    """[x | 1] (n, d + 1) of rows (n, d)."""
    return np.column_stack([values, np.ones(len(values))])
