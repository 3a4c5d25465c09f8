"""The row space of a first-layer gradient: whether it is exactly the span of the batch's rows, and a basis of it.

For a linear layer, [dL/dW | dL/db] = D^T [X | 1]: D (B, H) are the gradients of the pre-activations, X (B, d) the rows
(Dimitrov et al., SPEAR, NeurIPS 2024). While B is below H and d, and X and D have full rank, the gradient has rank B
and every row [x | 1] lies in its row space.

The same holds of a sum of gradients over local steps (FedAvg), however the rows are split in batches: D is then the sum
of what each row had in every step. Weights come rounded, and their difference over the learning rate carries that
rounding as `noise`, far above the rounding of a gradient.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.update import ObservedUpdate

# Roundings of the gradient's entries that count as zero beside its largest singular value. Too small: sums in the
# client's own arithmetic look like further rows; too large: faint rows are lost.
RANK_TOLERANCE = 64.0
# By how much the batch's smallest singular value must stand out from the largest that rounding makes. Too small: the
# basis is turned by rounding; too large: batches with faint rows are refused.
GAP = 10.0
# Of the basis that a gradient without noise gives. Too small: float32 rounding is taken for a signal; too large: false
# candidates are told apart from true ones later, or never.
PRECISION = 1e-7
# Standard deviations, or estimates of a largest one, that noise is taken to stay below. Too small: noise passes for a
# row; too large: faint rows drown in the allowance.
SURE = 2.0
TINY = 1e-300  # keeps a quotient by a gradient of zero finite


@dataclass(frozen=True, eq=False)
class RowSpace:
    """`gradient` (H, d+1) = left @ right up to rounding; `left` (H, r), `right` (r, d+1) with orthonormal rows.

    `noise`: the standard deviation of further errors in each entry. `rate`: the gradient is a sum along a way on which
    the weights moved by -rate * gradient; 0 where they stood still. `roundoff`: the unit roundoff of the entries.
    """

    gradient: Array = field(repr=False)
    left: Array = field(repr=False)
    right: Array = field(repr=False)
    noise: float = 0.0
    rate: float = 0.0
    roundoff: float = 0.0

    @property
    def rank(self) -> int:
        return len(self.right)

    @cached_property
    def entry_errors(self) -> Array:
        """(H, d+1) standard deviations of the errors in the entries: the noise, and the rounding of sums.

        What is left of the gradient outside the row space says whether the rounding is worse than reckoned.
        """
        rounding = rounding_errors(self.gradient, self.roundoff)
        outside = float(np.linalg.norm(self.gradient - self.left @ self.right))
        open = np.prod([max(0.0, 1 - self.rank / n) for n in rounding.shape])
        expected = float(np.sqrt(open * ((rounding**2).sum() + rounding.size * self.noise**2)))
        worse = max(1.0, outside / expected) if expected > 0 else 1.0
        return np.asarray(np.hypot(worse * rounding, self.noise))

    @property
    def precision(self) -> float:
        """How far noise may turn `right` in the direction that it hides best; coordinates are as precise."""
        if not self.noise:
            return PRECISION
        return max(PRECISION, SURE * self.noise / float(np.linalg.norm(self.left, axis=0).min()))


def rounding_errors(gradient: Array, roundoff: float) -> Array:
    """(H, d+1) standard deviations of what rounding leaves in the entries of a gradient.

    A sum of rounded terms is as imprecise as its terms are large, which an entry that happens to be small does not
    show: its row and column do.
    """
    size = np.abs(gradient)
    lines = np.sqrt(np.outer((size**2).mean(1), (size**2).mean(0)))
    return np.asarray(roundoff * np.maximum(size, lines / max(float(np.sqrt((size**2).mean())), TINY)))


def row_space(update: ObservedUpdate, tolerance: float) -> RowSpace | str:
    """The row space of the update's first layer [dL/dW (H, d) | dL/db (H,)], or why it is not the span of its rows.

    `tolerance` times the roundoff of the gradient's entries counts as zero, relative to the largest singular value; and
    so does what noise in every entry makes.
    """
    rows, noise = update.rows, update.noise
    gradient = affine(update.gradient, 0)
    if rows >= min(gradient.shape):
        return f"a batch of {update.size} does not leave a gap in the spectrum of a {gradient.shape} gradient"
    if not gradient.any():
        return "its first layer is zero: no row activates a neuron"
    floor = tolerance * update.roundoff
    left, values, right = np.linalg.svd(gradient, full_matrices=False)
    floor = max(floor, SURE * noise * float(np.sqrt(gradient.shape).sum()) / float(values[0]))
    rank = int((values > floor * values[0]).sum())
    if values[rows] > floor * values[0] or values[rows - 1] <= GAP * values[rows]:  # both 0: few neurons ever moved
        return f"its numerical rank is {rank} and the batch has {update.size}, or noise and rounding blur it"
    return RowSpace(gradient, left[:, :rows] * values[:rows], right[:rows], noise, update.rate, update.roundoff)
