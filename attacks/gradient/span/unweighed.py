"""Rows by their row space alone: where nothing is known of how much each neuron counts a row for.

The kernels of `search` need zeros of ReLU in D, and `recomputed` needs a gradient that can be computed again. Behind
other activations local steps leave neither, nor does dropout, whose masks are the client's own, nor do regressions
without ReLU. But the gradient of the first layer is D^T [X | 1] all the same: the rows of the batch are among the
candidates, the combinations of categories that lie in its row space.

Mixtures may be, too: where rows a, b and c differ in a few features, a - b + c is a row that could be. Any independent
candidates, as many as the batch has rows, span the space and explain the gradient, so nothing here is proven. Claimed
are those whose encoded columns are the smallest together. Numbers of mixtures scatter more (a - b + c has three times
the variance), and in scaled columns values that are rare are large. Independent sets are a matroid, so that the greedy
choice has the least sum (Edmonds 1971).
"""

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.gradient.exact.polish import with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask, snapped
from leakledger.attacks.gradient.span.search import INDEPENDENT, beyond_noise
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.preprocess.views import FeatureLayout

# Candidates to a row of the batch: more are too many mixtures to choose from. Batches of 16 rows of Adult have few, and
# most of what is claimed is right; those of 32 have over 80, and next to nothing would be.
MOST = 32.0
# And above that the rows claimed are no account of the whole batch, so that others are asked.
FEW = 4.0


def in_row_space(space: RowSpace, layout: FeatureLayout, candidates: Candidates) -> EncodedRows | str:
    """The rows to claim, at most as many as the batch has, or why there are none.

    Where rows agree in all categories a direction of numbers is open, and such rows are claimed once: with numbers that
    are the smallest along it.
    """
    free = len(candidates.open)
    if 2 * free >= space.rank:
        return f"categories leave {free} of {space.rank} directions of the row space open"
    if len(candidates.origin) > MOST * space.rank:
        return f"{len(candidates.origin)} candidate rows, too many for {space.rank} that nothing else tells apart"
    rows, valid = snapped(layout, candidates.origin @ space.right)
    rows = rows.where(smallest(candidates.origin, valid, beyond_noise(INDEPENDENT, candidates)))
    if not len(rows):
        return f"none of {len(valid)} candidate rows has codes of categories"
    return EncodedRows(rows.categories, with_integers(layout.numeric, rows.encoded))


def smallest(coordinates: Array, valid: Mask, independent: float) -> NDArray[np.int64]:
    """Which rows at `coordinates` (m, r): those `valid`, `independent` of each other, of the least total size."""
    size = np.linalg.norm(coordinates, axis=1)
    left = np.flatnonzero(valid)[np.argsort(size[valid], kind="stable")]
    beyond, chosen = coordinates[left] / size[left, None], list[int]()  # what of each row is in none that is chosen
    while len(left):
        chosen.append(int(left[0]))
        direction = beyond[0] / np.linalg.norm(beyond[0])
        beyond = beyond - np.outer(beyond @ direction, direction)
        apart = np.linalg.norm(beyond, axis=1) > independent
        left, beyond = left[apart], beyond[apart]
    return np.array(chosen, np.int64)


def unexplained(space: RowSpace, candidates: Candidates, encoded: Array) -> float:
    """What rows (n, d) leave of the gradient at best, relative to it, whatever they count for on each neuron; nan where
    they are no account of the batch.
    """
    few = len(candidates.origin) <= FEW * space.rank
    if len(encoded) < space.rank or len(candidates.open) or not few:
        return np.nan
    basis = np.linalg.qr(with_ones(encoded).T)[0]
    beyond = space.gradient - space.gradient @ basis @ basis.T
    return float(np.linalg.norm(beyond) / np.linalg.norm(space.gradient))
