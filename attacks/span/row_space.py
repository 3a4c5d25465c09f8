"""The row space of a first-layer gradient: whether it is exactly the span of the batch's rows, and a basis of it.

For a linear layer, [dL/dW | dL/db] = D^T [X | 1]: D (B, H) are the gradients of the pre-activations, X (B, d) the rows
(Dimitrov et al., SPEAR, NeurIPS 2024). While B is below H and d, and X and D have full rank, the gradient has rank B
and every row [x | 1] lies in its row space.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
GAP = 10.0  # the smallest singular value of the batch must stand out from the largest of the rounding errors by this


@dataclass(frozen=True, eq=False)
class RowSpace:
    """`gradient` (H, d+1) = left @ right up to rounding; `left` (H, r), `right` (r, d+1) with orthonormal rows."""

    gradient: Array = field(repr=False)
    left: Array = field(repr=False)
    right: Array = field(repr=False)

    @property
    def rank(self) -> int:
        return len(self.right)


def row_space(weight: Array, bias: Array, rows: int, tolerance: float) -> RowSpace | str:
    """The row space of [weight (H, d) | bias (H,)], or why it is not the span of `rows` rows.

    `tolerance` times the precision of the gradient's entries counts as zero, relative to the largest singular value.
    """
    gradient = np.column_stack([weight, bias])
    if rows >= min(gradient.shape):
        return f"a batch of {rows} rows does not leave a gap in the spectrum of a {gradient.shape} gradient"
    single = np.array_equal(gradient, gradient.astype(np.float32))
    floor = tolerance * float(np.finfo(np.float32 if single else np.float64).eps)
    left, values, right = np.linalg.svd(gradient, full_matrices=False)
    rank = int((values > floor * values[0]).sum())
    if values[rows] > floor * values[0] or values[rows - 1] < GAP * values[rows]:
        return f"its numerical rank is {rank} and the batch has {rows} rows, or rounding and noise blur the difference"
    return RowSpace(gradient, left[:, :rows] * values[:rows], right[:rows])
