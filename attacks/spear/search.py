"""The search for the rows of a batch, from those already known, if any, to all of them or to a budget of draws.

It works on the last hidden layer: [H | 1] has the rank of the batch even where the rows themselves depend on each
other, as one-hot columns and narrow tables make them. Cheapest first: rows that a pair of neurons shows, one being
active on that row and otherwise on the same rows; then rows whose points lie in the row space (`points`); then masks by
draws, which give all points at once (`masks`). Whatever is found leaves the gradient (`rest`), and the problem that
remains is one of smaller rank.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attacks.labels import plausible_rows
from attacks.span.row_space import Array
from attacks.span.rows import Mask, Rows, snapped
from attacks.spear.invert import inverted
from attacks.spear.masks import Neurons, draw_masks
from attacks.spear.network import Weights, affine, depth, error_basis, forward, with_one
from attacks.spear.points import roots
from attacks.spear.rest import Layer, factored, fit, norm, without
from preprocess.views import FeatureLayout

STARTS = 300  # of the search for points, made together
CLEAR = 0.02  # neurons where the error direction is below this share of its largest entry are too faint to look at
ROUGH, FINE = 3e-2, 1e-3  # how far off a candidate may be before and after its polish
SAME = 1e-2  # candidates whose points are nearer than this, relative to them, are one until the nearer one is gone
FAINT = 1e-6  # points with a share of the bias gradient below this one are lost in rounding
INDEPENDENT = 1e-3  # least singular value of unit kernels
GONE = 1e-2  # the singular value that a true row takes away, relative to the least that stays


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of `rows` rows, its gradient in every layer of a network, of rank `rank` in the last hidden one."""

    layout: FeatureLayout
    weights: Weights = field(repr=False)
    gradient: Weights = field(repr=False)
    rows: int
    rank: int

    @property
    def layer(self) -> int:
        return depth(self.weights) - 1

    @property
    def space(self) -> Layer:
        return factored(affine(self.gradient, self.layer), self.rank)


@dataclass(frozen=True, eq=False)
class Found:
    """Rows found (n,) with their output errors (n, C - 1)."""

    rows: Rows
    error: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def plus(self, other: "Found") -> "Found":
        rows = Rows(
            np.concatenate([self.rows.categories, other.rows.categories]),
            np.concatenate([self.rows.encoded, other.rows.encoded]),
        )
        return Found(rows, np.concatenate([self.error, other.error]))


def nothing(problem: Problem) -> Found:
    layout = problem.layout
    rows = Rows(np.zeros((0, len(layout.categorical)), np.int64), np.zeros((0, layout.width)))
    return Found(rows, np.zeros((0, len(problem.weights[f"{problem.layer + 1}.bias"]) - 1)))


@dataclass(frozen=True)
class Budget:
    """How many `starts` of the search for points and `draws` of that for masks are made, and the device for both.

    `advance` hears of starts and draws as they are spent.
    """

    starts: int = 3_000
    draws: int = 20_000
    device: str = "cpu"
    advance: Callable[[int], None] = field(default=lambda spent: None, compare=False, repr=False)


def solve(problem: Problem, known: Array, budget: Budget, coins: np.random.Generator) -> Found:
    """The rows of the batch: at most as many as its rank. `known` (n, d), encoded, are those to start from.

    What the gradient does not bear out among them is dropped.
    """
    found, rest = admitted(problem, nothing(problem), forward(problem.weights, known).points[problem.layer])
    starts, draws = budget.starts, budget.draws
    while rest.rank:
        grown, smaller = admitted(rest, found, shown_by_pairs(rest))
        while len(grown) == len(found) and starts > 0 and rest.layer > 0:
            some, starts = min(starts, STARTS), max(starts - STARTS, 0)
            grown, smaller = admitted(rest, found, shown_by_roots(rest, some, budget, coins))
        if len(grown) == len(found):
            grown, smaller, spent = drawn(rest, found, draws, budget, coins)
            draws -= spent
        if len(grown) == len(found):
            break
        found, rest = grown, smaller
    return found


def admitted(rest: Problem, found: Found, points: Array) -> tuple[Found, Problem]:
    """`found` and the rows behind `points` (n, in + 1) that `rest` bears out; what the gradient is without them."""
    new = candidates(rest, points)
    smaller = lessened(rest, new)
    if smaller is None:
        for i in range(len(new)):
            one = Found(new.rows.where(np.array([i])), new.error[[i]])
            smaller = lessened(rest, one)
            if smaller is not None:
                later, last = admitted(smaller, found.plus(one), points)
                return later, last
        return found, rest
    return found.plus(new), smaller


def lessened(rest: Problem, new: Found) -> Problem | None:
    """What remains of the problem without the rows `new`, unless its rank does not fall by their number."""
    if not len(new):
        return rest
    if len(new) > rest.rank:
        return None
    smaller = without(rest.weights, rest.gradient, new.rows.encoded, new.error)
    rank = rest.rank - len(new)
    values = np.linalg.svd(affine(smaller, rest.layer), compute_uv=False)
    if values[rank] > GONE * np.linalg.norm(rest.space.right, axis=1)[-1]:
        return None
    return Problem(rest.layout, rest.weights, smaller, rest.rows, rank)


def candidates(rest: Problem, points: Array) -> Found:
    """The different rows of the layout behind `points` that fit the layer, the best first, polished in its space.

    Those that are one row with some label go first: the others may be mixtures of rows that a layer sees alike.
    """
    right = rest.space.right
    right = right / np.linalg.norm(right, axis=1, keepdims=True)
    for tolerance in (ROUGH, FINE):
        encoded, fits = inverted(rest.weights, rest.gradient, points, rest.layer, tolerance)
        rows, valid = snapped(rest.layout, with_one(encoded[fits]))
        rows = rows.where(valid)
        result = fit(rest.weights, rest.space, rows.encoded, rest.rows)
        order = np.argsort(result.off, kind="stable")
        order = order[result.off[order] < tolerance]
        rows = rows.where(order)
        points = forward(rest.weights, rows.encoded).points[rest.layer]
        kept = first_of_each(points)
        rows, error, single = rows.where(kept), result.error[order][kept], result.single[order][kept]
        points = points[kept] @ right.T @ right
        points = points / points[:, -1:]
    return Found(rows.where(single), error[single]) if single.any() else Found(rows, error)


def first_of_each(points: Array) -> NDArray[np.int64]:
    """The numbers of the points that are not close to one before them."""
    kept: list[int] = []
    for i, point in enumerate(points):
        if not kept or (np.linalg.norm(points[kept] - point, axis=1) > SAME * np.linalg.norm(point)).all():
            kept.append(i)
    return np.array(kept, np.int64)


def neurons(rest: Problem) -> Neurons | None:
    """The neurons of the layer divided by the one error direction, where they are clear; None for more directions."""
    direction = error_basis(len(rest.weights[f"{rest.layer + 1}.bias"])) @ rest.weights[f"{rest.layer + 1}.weight"]
    if len(direction) != 1:
        return None
    clear = np.abs(direction[0]) > CLEAR * np.abs(direction[0]).max()
    space, weight = rest.space, direction[0][clear, None]
    return Neurons(space.left[clear] / weight, space.left[clear] @ space.right / weight, weight[:, 0])


def shown_by_pairs(rest: Problem) -> Array:
    """Points (m, in + 1) that a neuron has beyond another, or alone."""
    shown = neurons(rest)
    gradients = rest.space.left @ rest.space.right if shown is None else shown.seen
    if shown is not None:
        one, other = np.triu_indices(len(gradients), 1)
        gradients = np.concatenate([gradients, gradients[one] - gradients[other]])
    size = np.abs(gradients[:, -1])
    kept = gradients[size > FAINT * size.max(initial=0)]
    return np.asarray(kept / kept[:, -1:])


def shown_by_roots(rest: Problem, starts: int, budget: Budget, coins: np.random.Generator) -> Array:
    """Points (m, in + 1) in the row space of the layer, from `starts` plausible rows."""
    rows = plausible_rows(rest.layout, starts, coins)
    first = affine(rest.gradient, 0)
    rows = roots(rest.weights, first, rest.space.right, rows, rest.layer, budget.device)
    budget.advance(starts)
    return forward(rest.weights, rows).points[rest.layer]


def drawn(
    rest: Problem, found: Found, draws: int, budget: Budget, coins: np.random.Generator
) -> tuple[Found, Problem, int]:
    """`found` and what masks by draws add to it, what remains then, and the draws spent."""
    shown, spent = neurons(rest), 0
    if shown is None:
        return found, rest, 0
    for masks, more in draw_masks(shown, draws, coins, budget.device):
        spent += more
        budget.advance(more)
        points = dual_points(shown, masks[coins.permutation(len(masks))], rest.space.right)
        grown, smaller = admitted(rest, found, points)
        if len(grown) > len(found):
            return grown, smaller, spent
    return found, rest, spent


def dual_points(shown: Neurons, masks: Mask, right: Array) -> Array:
    """The points (r, in + 1) of the rows with r independent ones of `masks` (m, n); none where they are fewer."""
    weighted = shown.left * shown.weight[:, None]
    kernels = np.linalg.lstsq(weighted, (masks * shown.weight).T, rcond=None)[0].T  # (m, r)
    chosen: list[Array] = []
    for kernel in kernels:
        if len(chosen) == len(right):
            break
        extended = np.array([*chosen, kernel])
        if np.linalg.svd(extended / norm(extended)[:, None], compute_uv=False)[-1] > INDEPENDENT:
            chosen.append(kernel)
    if len(chosen) < len(right):
        return np.zeros((0, right.shape[1]))
    points = np.linalg.solve(np.array(chosen).T, right)
    points = points[points[:, -1] != 0]
    return np.asarray(points / points[:, -1:])
