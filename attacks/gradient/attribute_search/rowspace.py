"""The row space of a head's first layer: what one gradient tells of the embeddings of its batch.

For the first layer [dL/dW | dL/db] = D^T [E | 1], with D (B, H) the gradients at its H neurons and E (B, d) the
embeddings (Dimitrov et al., SPEAR, NeurIPS 2024). The row of D of record i is r_i (w2 * m_i): the error of its one
logit, times the output weights, on the neurons that are on for it. So the rank is that of the *masks* m_i. Embeddings
of one template lie close together and switch the same neurons, and without dropout a batch shows little more than one
weighted sum of them; dropout draws a mask of its own for each record, and takes that cover away.
"""

from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.row_space import SURE
from leakledger.attacks.observed.update import Arrays

# Singular values below this share of the largest count as zero. Too small: float32 rounding looks like a record; too
# large: records with a small error are lost.
RANK = 3e-6


@dataclass(frozen=True, eq=False)
class SeenSpace:
    """`basis` (r, d + 1): orthonormal rows that span what is seen of [E | 1]."""

    basis: Array = field(repr=False)

    @property
    def rank(self) -> int:
        return len(self.basis)

    def with_points(self, points: Array) -> "SeenSpace":
        """The space that these points span beside it."""
        return SeenSpace(orthonormal(np.concatenate([self.basis, points])))

    def outside(self, points: Array) -> Array:
        """(n, d + 1) the part of points [e | 1] that is not in the row space."""
        return np.asarray(points - points @ self.basis.T @ self.basis)


def seen_space(gradient: Arrays, rows: int, noise: float = 0.0) -> SeenSpace:
    """The row space of the gradient's first layer, of at most so many rows. Raises ValueError for a gradient of 0.

    `noise`: the standard deviation of errors in the entries, whose singular values count as zero, too.
    """
    both = affine(gradient, 0)
    if not both.any():
        raise ValueError("the gradient of its first layer is zero: no record switches a neuron on")
    _, values, right = np.linalg.svd(both, full_matrices=False)
    floor = max(RANK * values[0], SURE * noise * float(np.sqrt(both.shape).sum()))
    if not (rank := min(rows, int((values > floor).sum()))):
        raise ValueError("the gradient of its first layer does not stand out from the errors in it")
    return SeenSpace(right[:rank])


def orthonormal(points: Array) -> Array:
    """Orthonormal rows that span the points, which are independent."""
    return np.asarray(np.linalg.qr(points.T)[0].T)
