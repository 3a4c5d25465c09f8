"""What a batch's gradient is without the rows that are known: exact deflation, layer by layer.

A row that is known has known slopes of its activations and inputs in every layer; of its share D_i^T [h_i | 1] of a
gradient only its C - 1 output errors are unknown. In a layer of full rank they follow from one identity: with G = D^T P
and independent rows, P G^+ D^T is the identity, so p G^+ d = 1 for the true d, which lies in the column space of G.
(The rank falls by one for no other scale: Wedderburn.) Mean cross-entropy leaves C possible errors per row, one per
label; where one of them fits it is used, as it is exact, and proves that the row occurs once.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.network import depth, error_of_labels, forward, signals
from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array, Weights, affine

# How far the errors of a row may be from those of a label, relative to them. Too small: rounding hides that a row
# occurs once; too large: two rows that a layer sees alike pass for one.
LABEL = 1e-3
# Singular values above this share of the largest span the row space of a layer. Too small: rounding adds directions in
# which nothing is; too large: faint rows are cut off.
IN_ROW_SPACE = 1e-6


@dataclass(frozen=True, eq=False)
class FactoredGradient:
    """The gradient of one layer (out, in + 1) in the batch's own coordinates: gradient = left @ right, rank r.

    `left` (out, r) has orthonormal columns, `right` (r, in + 1) orthogonal rows.
    """

    gradient: Array = field(repr=False)
    left: Array = field(repr=False)
    right: Array = field(repr=False)

    @property
    def rank(self) -> int:
        return len(self.right)


def factored(gradient: Array, rank: int) -> FactoredGradient:
    left, values, right = np.linalg.svd(gradient, full_matrices=False)
    return FactoredGradient(gradient, left[:, :rank], values[:rank, None] * right[:rank])


@dataclass(frozen=True, eq=False)
class LayerFit:
    """How rows (n,) fit a layer: the output `error` (n, C - 1) of each; `off` (n,), how far its point and its column of
    D are out of the layer's spaces, relative to their lengths; `residual` (n,), the relative change of the gradient
    that would put them in; `single` (n,), whether the error is that of one row with some label.
    """

    error: Array = field(repr=False)
    off: Array
    residual: Array
    single: Mask


def fit(weights: Weights, layer: FactoredGradient, rows: Array, batch: int, activation: str = "relu") -> LayerFit:
    """The fit of encoded rows (n, d), each on its own, to the last hidden layer of a batch of `batch` rows."""
    last = depth(weights) - 1
    passed = forward(weights, rows, activation)
    points, basis = passed.points[last], signals(weights, passed)[last]  # (n, in + 1), (n, C - 1, out)
    values = np.linalg.norm(layer.right, axis=1)
    right = layer.right / values[:, None]
    direction = least_outside(basis - basis @ layer.left @ layer.left.T)
    columns = np.einsum("nk,nkw->nw", direction, basis)
    seen, shown = points @ right.T, columns @ layer.left  # (n, r)
    outside = np.stack([norm(points - seen @ right), norm(columns - shown @ layer.left.T)])
    off = np.divide(outside, [norm(points), norm(columns)], out=np.ones(outside.shape), where=outside > 0).max(0)
    pull = np.stack([norm(seen / values), norm(shown / values)]) * np.linalg.norm(values)
    residual = np.divide(outside, pull, out=np.full(outside.shape, np.inf), where=pull > 0).max(0)
    product = (seen / values * shown).sum(1)[:, None]
    error = np.divide(direction, product, out=np.zeros(direction.shape), where=product != 0)
    exact, single = error_of_one(passed.probabilities, error, batch)
    return LayerFit(np.where(single[:, None], exact, error), off, residual, single)


def least_outside(outside: Array) -> Array:
    """The unit error (n, C - 1) whose column of D lies the least outside: `outside` (n, C - 1, out) has each part."""
    return np.asarray(np.linalg.svd(np.swapaxes(outside, 1, 2), full_matrices=False)[2][:, -1])


def error_of_one(probabilities: Array, error: Array, batch: int) -> tuple[Array, Mask]:
    """The error (n, C - 1) of one row with some label that is nearest to `error`, and whether it is that."""
    possible = error_of_labels(probabilities, batch)  # (n, C, C - 1)
    nearest = norm(possible - error[:, None]).argmin(1)
    exact = possible[np.arange(len(error)), nearest]
    return exact, norm(exact - error) <= LABEL * norm(exact)


def norm(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=-1))


def without(
    weights: Weights, gradient: Weights, rows: Array, error: Array, activation: str = "relu"
) -> dict[str, NDArray[np.float64]]:
    """`gradient` less the share of encoded `rows` (n, d) with output errors `error` (n, C - 1), in every layer."""
    passed = forward(weights, rows, activation)
    left = {}
    for layer, basis in enumerate(signals(weights, passed)):
        share = np.einsum("nk,nkw->nw", error, basis).T @ passed.points[layer]
        remaining = affine(gradient, layer) - share
        left[f"{layer}.weight"], left[f"{layer}.bias"] = remaining[:, :-1], remaining[:, -1]
    return left
