"""The two passes of a network over rows, up to the errors of the outputs, which only the labels decide.

With D_l (n, out) the gradients of the pre-activations of layer l and [H_l | 1] its inputs, dL/d[W_l | b_l] = D_l^T
[H_l | 1]. Cross-entropy gives output errors that sum to zero over the classes: in a basis of C - 1 such errors, a row's
column of D_l is linear in C - 1 unknowns once the slopes of its activations are known.
"""

from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.exact.activations import ACTIVATIONS
from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array, Weights, affine, with_ones


@dataclass(frozen=True, eq=False)
class Pass:
    """Rows in a network of L hidden layers: `points[l]` (n, in_l + 1), the inputs [h | 1] of layer l = 0..L;
    `before[l]` (n, out_l) and `slopes[l]` (n, out_l) for l < L: pre-activations, and the derivatives there;
    `probabilities` (n, C).
    """

    points: tuple[Array, ...] = field(repr=False)
    before: tuple[Array, ...] = field(repr=False)
    slopes: tuple[Array, ...] = field(repr=False)
    probabilities: Array = field(repr=False)

    @property
    def active(self) -> tuple[Mask, ...]:
        """(n, out_l) for l < L: which neurons a row makes positive."""
        return tuple(np.asarray(before > 0) for before in self.before)


def depth(weights: Weights) -> int:
    """The number of hidden layers."""
    return len(weights) // 2 - 1


def forward(weights: Weights, rows: Array, activation: str = "relu") -> Pass:
    """The pass of encoded rows (n, d)."""
    points, before, act = [with_ones(rows)], list[Array](), ACTIVATIONS[activation]
    for layer in range(depth(weights)):
        before.append(points[-1] @ affine(weights, layer).T)
        points.append(with_ones(act.value(before[-1])))
    logits = points[-1] @ affine(weights, depth(weights)).T
    shares = np.exp(logits - logits.max(1, keepdims=True))
    slopes = tuple(act.slope(z) for z in before)
    return Pass(tuple(points), tuple(before), slopes, shares / shares.sum(1, keepdims=True))


def error_basis(classes: int) -> Array:
    """(C - 1, C): an orthonormal basis of the output errors that sum to zero."""
    basis: Array = np.linalg.svd(np.ones((1, classes)))[2][1:]
    return basis


def signals(weights: Weights, passed: Pass) -> list[Array]:
    """For each layer l = 0..L, (n, C - 1, out_l): each row's column of D_l for every error of the basis."""
    last = depth(weights)
    basis = error_basis(passed.probabilities.shape[1])
    columns = [np.repeat(basis[None], len(passed.probabilities), 0)]
    for layer in range(last - 1, -1, -1):
        back = columns[0] @ weights[f"{layer + 1}.weight"]
        columns.insert(0, back * passed.slopes[layer][:, None])
    return columns


def error_of_labels(probabilities: Array, rows: int) -> Array:
    """(n, C, C - 1): the error of each row in the basis, for each label, in a mean over `rows` rows."""
    classes = probabilities.shape[1]
    errors = (probabilities[:, None] - np.eye(classes)) / rows
    return np.asarray(errors @ error_basis(classes).T)
