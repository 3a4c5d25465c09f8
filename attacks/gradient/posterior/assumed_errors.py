"""Errors that are assumed of an update which nobody made noisy, so that chains can move on it.

A chain that is not at the truth hardly moves where every entry counts for what it is in single precision. So normal
errors are assumed, a share of the root mean square of the entries. One enormous number makes that the size of its own
column, and through the activations that it leads to, of all deeper layers: errors like these hide every row but its
own. There each column of each layer has errors by its own entries, and at least by those of its layer's biases, whose
input is 1: a column of which no row holds anything is not exact, either.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Of the entries' root mean square. Smaller: a chain that is not yet at the truth hardly moves; larger: numbers are less
# exact than the update tells.
ASSUMED = 0.02
ENORMOUS = 10.0  # times the biases' gradient, beyond which entries of a column of the first layer are told apart
LEAST = 1e-3  # of the first biases' gradient, below which a layer that hardly moves is not told apart


def even(entries: Array) -> float:
    """The deviation of errors that are alike in all entries."""
    return ASSUMED * _size(entries)


def by_column(layers: Sequence[Array]) -> list[Array] | None:
    """(out, in + 1) per layer, the biases last: deviations of errors by column; None where no column of the first layer
    is so large that it hides others.
    """
    usual = [_size(layer[:, -1]) for layer in layers]
    sizes = [np.maximum(np.sqrt((layer**2).mean(0)), u) for layer, u in zip(layers, usual, strict=True)]
    if not 0 < ENORMOUS * usual[0] < sizes[0].max():
        return None
    own = [ASSUMED * np.maximum(size, LEAST * usual[0]) for size in sizes]
    return [np.broadcast_to(deviations, layer.shape) for deviations, layer in zip(own, layers, strict=True)]


def _size(entries: Array) -> float:
    return float(np.sqrt((entries**2).mean()))
