"""How the two passes of a network move with a row: the derivatives of its points and of what is propagated back.

With z the pre-activations, h = f(z) and D_l = (D_(l+1) W_(l+1)) f'(z_l): dh = f'(z) dz, dz = W dh, and dD_l =
(dD_(l+1) W_(l+1)) f'(z_l) + (D_(l+1) W_(l+1)) f''(z_l) dz_l. Shapes: n rows, f directions, C classes.
"""

import numpy as np

from leakledger.attacks.gradient.exact.activations import ACTIVATIONS
from leakledger.attacks.gradient.exact.network import Pass, depth
from leakledger.attacks.observed.affine import Array, Weights


def point_moves(weights: Weights, passed: Pass, directions: Array) -> tuple[list[Array], list[Array]]:
    """For each layer l = 0..L the moves of [h_l | 1] (n, f, in_l + 1), and those of its outputs (n, f, out_l) before
    any activation, when rows move by `directions` (n, f, d), or by the same (1, f, d).
    """
    points, before = [padded(np.broadcast_to(directions, (len(passed.probabilities), *directions.shape[1:])))], []
    for layer in range(depth(weights) + 1):
        before.append(points[-1][..., :-1] @ weights[f"{layer}.weight"].T)
        if layer < depth(weights):
            points.append(padded(before[-1] * passed.slopes[layer][:, None]))
    return points, before


def columns_of(weights: Weights, passed: Pass, error: Array) -> list[Array]:
    """For each layer l = 0..L the columns of D_l (n, out_l) of rows with output errors `error` (n, C)."""
    columns = [error]
    for layer in range(depth(weights) - 1, -1, -1):
        columns.insert(0, (columns[0] @ weights[f"{layer + 1}.weight"]) * passed.slopes[layer])
    return columns


def column_moves(
    weights: Weights, passed: Pass, activation: str, columns: list[Array], before: list[Array], error: Array
) -> list[Array]:
    """For each layer l = 0..L the moves of `columns` (n, f, out_l), when pre-activations move by `before` and output
    errors by `error` (n, f, C).
    """
    moves, bend = [error], ACTIVATIONS[activation].bend
    for layer in range(depth(weights) - 1, -1, -1):
        weight = weights[f"{layer + 1}.weight"]
        bent = (columns[layer + 1] @ weight) * bend(passed.before[layer])
        moves.insert(0, (moves[0] @ weight) * passed.slopes[layer][:, None] + bent[:, None] * before[layer])
    return moves


def error_moves(probabilities: Array, before: Array) -> Array:
    """How softmax `probabilities` (n, C) move with their logits, which move by `before` (n, f, C)."""
    mean = (before * probabilities[:, None]).sum(2, keepdims=True)
    return np.asarray(probabilities[:, None] * (before - mean))


def padded(moves: Array) -> Array:
    """Moves of [h | 1], whose last entry never does."""
    return np.concatenate([moves, np.zeros((*moves.shape[:-1], 1))], -1)
