"""Rows moved to where they lie in the spaces of the layers: Levenberg-Marquardt, each row on its own.

Categories settle most numbers of a row by the first layer's row space. Where they leave directions open, the next
layer's row space settles these: with a few random combinations of its equations for all candidates, which is cheap, and
with all equations of all layers, columns included, for the few that come near.
"""

from collections.abc import Callable

import numpy as np

from leakledger.attacks.gradient.all_layers.layers import TINY
from leakledger.attacks.gradient.all_layers.spaces import Spaces
from leakledger.attacks.gradient.all_layers.tangents import column_moves, columns_of, point_moves
from leakledger.attacks.gradient.exact.activations import ACTIVATIONS
from leakledger.attacks.observed.affine import Array, affine, with_ones

STEPS = 40  # of Levenberg-Marquardt: fewer end before a row, more cost time for starts that lead nowhere
CHUNK = 1024  # rows moved together: memory
SPARE = 24  # equations of the sieve beyond the unknowns: fewer let mixtures through, more cost time
# By which the damping changes after a good step and a bad one: milder is slower, harsher swings.
EASED, STIFFENED = 0.2, 5.0
FIRST, LARGEST = 1e-3, 10.0  # the damping that steps begin with, and the one at which a row stands still
RIDGE = 1e-13  # relative, so that directions that nothing sees can be solved: larger would damp good steps
GAINED = 0.9  # a row that keeps more than this share of its cost, step after step, has arrived or leads nowhere
PATIENCE = 4  # steps without gain, after which it is left alone: fewer lose rows, more cost time

Evaluate = Callable[[Array, Array], tuple[Array, Array]]


def sieved(spaces: Spaces, rows: Array, directions: Array, rng: np.random.Generator) -> Array:
    """Encoded rows (n, d) moved along `directions` (f, d) to roots of some equations of the second layer.

    As they are where the second layer has no telling row space, or no direction is open.
    """
    layer = spaces.second
    if layer is None or not len(directions) or not len(rows):
        return rows
    count = min(len(layer.inputs) - layer.rank, len(directions) + SPARE)
    equations = rng.normal(size=(len(layer.inputs), count))
    equations -= layer.right.T @ (layer.right @ equations)
    equations /= layer.inputs[:, None] * np.linalg.norm(equations, axis=0)
    first, act = affine(spaces.weights, 0), ACTIVATIONS[spaces.activation]
    slopes = directions @ first[:, :-1].T  # (f, H)

    def evaluate(start: Array, shift: Array) -> tuple[Array, Array]:
        z = start + shift @ slopes
        left = act.value(z) @ equations[:-1] + equations[-1]
        moves = act.slope(z)[:, None] * slopes @ equations[:-1]
        return left, moves

    parts = [slice(i, i + CHUNK) for i in range(0, len(rows), CHUNK)]
    shifts = [descended(evaluate, with_ones(rows[p]) @ first.T, len(directions)) for p in parts]
    return np.asarray(rows + np.concatenate(shifts) @ directions)


def moved(spaces: Spaces, rows: Array, directions: Array) -> Array:
    """Encoded rows (n, d) moved along `directions` (f, d) to where they miss all spaces least."""
    if not len(directions) or not len(rows):
        return rows

    def evaluate(start: Array, shift: Array) -> tuple[Array, Array]:
        return residuals(spaces, start + shift @ directions, directions)

    return np.asarray(rows + descended(evaluate, rows, len(directions)) @ directions)


def descended(evaluate: Evaluate, starts: Array, count: int) -> Array:
    """The shifts (n, f) from `starts` (n, m) that leave least of the residuals that `evaluate` has there."""
    shift, active = np.zeros((len(starts), count)), np.arange(len(starts))
    left, slopes = evaluate(starts, shift)
    cost, damping, idle = (left**2).sum(1), np.full(len(starts), FIRST), np.zeros(len(starts), np.int64)
    for _ in range(STEPS):
        trial = shift[active] - steps(left, slopes, damping[active])
        after, turned = evaluate(starts[active], trial)
        less = (after**2).sum(1)
        better, gained = less < cost[active], less < GAINED * cost[active]
        shift[active[better]] = trial[better]
        left[better], slopes[better] = after[better], turned[better]
        cost[active] = np.where(better, less, cost[active])
        damping[active] *= np.where(better, EASED, STIFFENED)
        idle[active] = np.where(gained, 0, idle[active] + 1)
        going = (idle[active] < PATIENCE) & (damping[active] < LARGEST)
        active, left, slopes = active[going], left[going], slopes[going]
        if not len(active):
            break
    return shift


def steps(left: Array, slopes: Array, damping: Array) -> Array:
    """Damped least-squares steps (n, f) for residuals `left` (n, m) with `slopes` (n, f, m)."""
    normal = slopes @ np.swapaxes(slopes, 1, 2)
    size = np.diagonal(normal, axis1=1, axis2=2)
    ridge = (damping[:, None] + RIDGE) * (size + RIDGE * size.mean(1, keepdims=True)) + TINY
    normal = normal + ridge[:, None] * np.eye(slopes.shape[1])
    return np.asarray(np.linalg.solve(normal, slopes @ left[..., None])[..., 0])


def residuals(spaces: Spaces, rows: Array, directions: Array) -> tuple[Array, Array]:
    """What rows (n, d) miss of all spaces (n, m), in standard errors, and how it moves with `directions` (n, f, m)."""
    passed = spaces.passed(rows)
    error = spaces.direction(passed)
    columns = columns_of(spaces.weights, passed, error)
    points, before = point_moves(spaces.weights, passed, directions[None])
    still = np.zeros((len(rows), len(directions), error.shape[1]))
    turned = column_moves(spaces.weights, passed, spaces.activation, columns, before, still)
    left, slopes = list[Array](), list[Array]()
    for layer in spaces.sides:
        outside = layer.points(passed.points[layer.number])
        left.append(outside.left)
        slopes.append(layer.moves(points[layer.number], outside))
    for layer in spaces.full:
        outside = layer.columns(columns[layer.number])
        left.append(outside.left)
        slopes.append(layer.column_moves(turned[layer.number], outside))
    return np.concatenate(left, 1), np.concatenate(slopes, 2)
