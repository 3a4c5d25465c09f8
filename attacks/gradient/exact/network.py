"""The two passes of a ReLU network over rows, up to the errors of the outputs, which only the labels decide.

With D_l (n, out) the gradients of the pre-activations of layer l and [H_l | 1] its inputs, dL/d[W_l | b_l] = D_l^T
[H_l | 1]. Cross-entropy gives output errors that sum to zero over the classes: in a basis of C - 1 such errors, a row's
column of D_l is linear in C - 1 unknowns once its activation pattern is known.
"""

from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array, Weights, affine, with_ones


@dataclass(frozen=True, eq=False)
class Pass:
    """Rows in a network of L hidden layers: `points[l]` (n, in_l + 1), the inputs [h | 1] of layer l = 0..L;
    `active[l]` (n, out_l) for l < L; `probabilities` (n, C).
    """

    points: tuple[Array, ...] = field(repr=False)
    active: tuple[Mask, ...] = field(repr=False)
    probabilities: Array = field(repr=False)


def depth(weights: Weights) -> int:
    """The number of hidden layers."""
    return len(weights) // 2 - 1


def forward(weights: Weights, rows: Array) -> Pass:
    """The pass of encoded rows (n, d)."""
    points, active = [with_ones(rows)], []
    for layer in range(depth(weights)):
        before = points[-1] @ affine(weights, layer).T
        active.append(before > 0)
        points.append(with_ones(before.clip(0)))
    logits = points[-1] @ affine(weights, depth(weights)).T
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return Pass(tuple(points), tuple(active), shares / shares.sum(1, keepdims=True))


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
        columns.insert(0, back * passed.active[layer][:, None])
    return columns


def error_of_labels(probabilities: Array, rows: int) -> Array:
    """(n, C, C - 1): the error of each row in the basis, for each label, in a mean over `rows` rows."""
    classes = probabilities.shape[1]
    errors = (probabilities[:, None] - np.eye(classes)) / rows
    return np.asarray(errors @ error_basis(classes).T)
