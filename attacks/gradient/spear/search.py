"""The search for the rows of a batch, from those already known, if any, to all of them or to a budget of draws.

It works on the last hidden layer: [H | 1] has the rank of the batch even where the rows themselves depend on each
other, as one-hot columns and narrow tables make them. Cheapest first: rows that a pair of neurons shows, one being
active on that row and otherwise on the same rows; then rows whose points lie in the row space (`points`); then masks by
draws, which give all points at once (`masks`). What is recovered leaves the gradient (`deflation`), and the batch that
remains is one of smaller rank.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.deflation import fit, norm, without
from leakledger.attacks.gradient.exact.network import error_basis, forward
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask, no_rows, snapped
from leakledger.attacks.gradient.spear.batch import UnsolvedBatch
from leakledger.attacks.gradient.spear.invert import inverted
from leakledger.attacks.gradient.spear.masks import DividedNeurons, draw_masks
from leakledger.attacks.gradient.spear.points import roots
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.labels import plausible_rows

STARTS = 300  # of the search for points, made together: memory, and how many are spent before what they find is used
# Neurons where the error direction is below this share of its largest entry are too faint to look at. Too small: their
# quotients are rounding; too large: fewer neurons show rows.
CLEAR = 0.02
# How far off a candidate may be before and after its polish. Too small: rounding loses rows; too large: false ones
# enter, and cost a test by deflation each.
ROUGH, FINE = 3e-2, 1e-3
SAME = 1e-2  # candidates whose points are nearer than this, relative to them, are one until the nearer one is gone
FAINT = 1e-6  # points with a share of the bias gradient below this one are lost in rounding
# Least singular value of unit kernels. Too small: masks that follow from others give points of none; too large: rows
# that are nearly dependent are lost.
INDEPENDENT = 1e-3
# The singular value that a true row takes away, relative to the least that stays. Too small: rounding keeps true rows
# out; too large: rows that are nearly right are subtracted and spoil what is left.
GONE = 1e-2


@dataclass(frozen=True, eq=False)
class RecoveredRows:
    """Rows recovered (n,) with their output errors (n, C - 1)."""

    rows: EncodedRows
    error: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def plus(self, other: "RecoveredRows") -> "RecoveredRows":
        return RecoveredRows(self.rows.plus(other.rows), np.concatenate([self.error, other.error]))


def nothing(batch: UnsolvedBatch) -> RecoveredRows:
    return RecoveredRows(no_rows(batch.layout), np.zeros((0, len(batch.weights[f"{batch.layer + 1}.bias"]) - 1)))


@dataclass(frozen=True)
class Budget:
    """How many `starts` of the search for points and `draws` of that for masks are made, and the device for both.

    `advance` hears of starts and draws as they are spent.
    """

    starts: int = 3_000
    draws: int = 20_000
    device: str = "cpu"
    advance: Callable[[int], None] = field(default=lambda spent: None, compare=False, repr=False)


def solve(batch: UnsolvedBatch, known: Array, budget: Budget, rng: np.random.Generator) -> RecoveredRows:
    """The rows of the batch: at most as many as its rank. `known` (n, d), encoded, are those to start from.

    What the gradient does not bear out among them is dropped.
    """
    recovered, left = admitted(batch, nothing(batch), forward(batch.weights, known).points[batch.layer])
    starts, draws = budget.starts, budget.draws
    while left.rank:
        grown, smaller = admitted(left, recovered, shown_by_pairs(left))
        while len(grown) == len(recovered) and starts > 0 and left.layer > 0:
            some, starts = min(starts, STARTS), max(starts - STARTS, 0)
            grown, smaller = admitted(left, recovered, shown_by_roots(left, some, budget, rng))
        if len(grown) == len(recovered):
            grown, smaller, spent = drawn(left, recovered, draws, budget, rng)
            draws -= spent
        if len(grown) == len(recovered):
            break
        recovered, left = grown, smaller
    return recovered


def admitted(batch: UnsolvedBatch, recovered: RecoveredRows, points: Array) -> tuple[RecoveredRows, UnsolvedBatch]:
    """`recovered` and the rows behind `points` (n, in + 1) that `batch` bears out, and the batch without them."""
    new = candidates(batch, points)
    smaller = lessened(batch, new)
    if smaller is None:
        for i in range(len(new)):
            one = RecoveredRows(new.rows.where(np.array([i])), new.error[[i]])
            smaller = lessened(batch, one)
            if smaller is not None:
                later, last = admitted(smaller, recovered.plus(one), points)
                return later, last
        return recovered, batch
    return recovered.plus(new), smaller


def lessened(batch: UnsolvedBatch, new: RecoveredRows) -> UnsolvedBatch | None:
    """What remains of the batch without the rows `new`, unless its rank does not fall by their number."""
    if not len(new):
        return batch
    if len(new) > batch.rank:
        return None
    smaller = without(batch.weights, batch.gradient, new.rows.encoded, new.error)
    rank = batch.rank - len(new)
    values = np.linalg.svd(affine(smaller, batch.layer), compute_uv=False)
    if values[rank] > GONE * np.linalg.norm(batch.space.right, axis=1)[-1]:
        return None
    return UnsolvedBatch(batch.layout, batch.weights, smaller, batch.rows, rank, batch.roundoff)


def candidates(batch: UnsolvedBatch, points: Array) -> RecoveredRows:
    """The different rows of the layout behind `points` that fit the layer, the best first, polished in its space.

    Those that are one row with some label go first: the others may be mixtures of rows that a layer sees alike.
    """
    right = batch.space.right
    right = right / np.linalg.norm(right, axis=1, keepdims=True)
    for tolerance in (ROUGH, FINE):
        encoded, fits = inverted(batch.weights, batch.gradient, points, batch.layer, tolerance)
        rows, valid = snapped(batch.layout, with_ones(encoded[fits]))
        rows = rows.where(valid)
        result = fit(batch.weights, batch.space, rows.encoded, batch.rows)
        order = np.argsort(result.off, kind="stable")
        order = order[result.off[order] < tolerance]
        rows = rows.where(order)
        points = forward(batch.weights, rows.encoded).points[batch.layer]
        kept = first_of_each(points)
        rows, error, single = rows.where(kept), result.error[order][kept], result.single[order][kept]
        points = points[kept] @ right.T @ right
        points = points / points[:, -1:]
    return RecoveredRows(rows.where(single), error[single]) if single.any() else RecoveredRows(rows, error)


def first_of_each(points: Array) -> NDArray[np.int64]:
    """The numbers of the points that are not close to one before them."""
    kept: list[int] = []
    for i, point in enumerate(points):
        if not kept or (np.linalg.norm(points[kept] - point, axis=1) > SAME * np.linalg.norm(point)).all():
            kept.append(i)
    return np.array(kept, np.int64)


def neurons(batch: UnsolvedBatch) -> DividedNeurons | None:
    """The neurons of the layer divided by the one error direction, where they are clear; None for more directions."""
    direction = error_basis(len(batch.weights[f"{batch.layer + 1}.bias"])) @ batch.weights[f"{batch.layer + 1}.weight"]
    if len(direction) != 1:
        return None
    clear = np.abs(direction[0]) > CLEAR * np.abs(direction[0]).max()
    space, weight = batch.space, direction[0][clear, None]
    return DividedNeurons(space.left[clear] / weight, space.left[clear] @ space.right / weight, weight[:, 0])


def shown_by_pairs(batch: UnsolvedBatch) -> Array:
    """Points (m, in + 1) that a neuron has beyond another, or alone."""
    shown = neurons(batch)
    gradients = batch.space.left @ batch.space.right if shown is None else shown.seen
    if shown is not None:
        one, other = np.triu_indices(len(gradients), 1)
        gradients = np.concatenate([gradients, gradients[one] - gradients[other]])
    size = np.abs(gradients[:, -1])
    kept = gradients[size > FAINT * size.max(initial=0)]
    return np.asarray(kept / kept[:, -1:])


def shown_by_roots(batch: UnsolvedBatch, starts: int, budget: Budget, rng: np.random.Generator) -> Array:
    """Points (m, in + 1) in the row space of the layer, from `starts` plausible rows."""
    rows = plausible_rows(batch.layout, starts, rng)
    first = affine(batch.gradient, 0)
    rows = roots(batch.weights, first, batch.space.right, rows, batch.layer, budget.device)
    budget.advance(starts)
    return forward(batch.weights, rows).points[batch.layer]


def drawn(
    batch: UnsolvedBatch, recovered: RecoveredRows, draws: int, budget: Budget, rng: np.random.Generator
) -> tuple[RecoveredRows, UnsolvedBatch, int]:
    """`recovered` and what masks by draws add to it, what remains then, and the draws spent."""
    shown, spent = neurons(batch), 0
    if shown is None:
        return recovered, batch, 0
    for masks, more in draw_masks(shown, draws, rng, budget.device):
        spent += more
        budget.advance(more)
        points = dual_points(shown, masks[rng.permutation(len(masks))], batch.space.right)
        grown, smaller = admitted(batch, recovered, points)
        if len(grown) > len(recovered):
            return grown, smaller, spent
    return recovered, batch, spent


def dual_points(shown: DividedNeurons, masks: Mask, right: Array) -> Array:
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
