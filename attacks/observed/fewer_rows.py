"""How many rows the only other client of a round gave, where it may have fewer than the batch size that is public.

The mean of a round is (w O + n X) / (w + n): O of the observers' w rows, X of the n rows of the other. Less w / (w + m)
of O, it is a multiple of X at m = n alone; at any other m part of O stays. Of the first layer, whose gradient has the
rank of its rows (`row_space`), the rank is then that of both; at m = n it falls to that of X, which is n at most.

A number is told only where the rank falls by `FALL` or more and at no other m as far: rows that both have cancel at
another m. So nothing is told by a single row, under noise, or in a layer that is narrower than the rows of both.

Where the mean counts every client alike, or the observers gave nothing to it, no m is wrong: all of X is known, up to a
factor, and ranks tell at least how many rows it has (`rows_spanned`). Rows that are alike make ranks smaller, too. But
a client that has no more rows than a batch gives the same ones in every round (`same_rows`); one that draws does not.
"""

import numpy as np

from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.row_space import RANK_TOLERANCE, SURE
from leakledger.attacks.observed.update import Arrays
from leakledger.preprocess.views import ModelSpec

# By how much the rank falls, at least. Too small: a row that both have passes for all of the observers' own; too large:
# a pair of rows tells nothing.
FALL = 2


def rows_beside(mean: Array, own: Array, weight: int, most: int, noise: float, roundoff: float) -> int | None:
    """The rows, from 1 to `most`, behind the rest of the `mean` (H, d+1) beside `own` (H, d+1) of `weight` rows; None
    where ranks do not tell it. `noise`: the standard deviation of errors in the entries of the mean.
    """
    mean, own = _narrowed(mean, own, weight + most + 1)
    ranks = [_rank(mean - weight / (weight + m) * own, noise, roundoff) for m in range(1, most + 1)]
    least, *others = sorted(ranks)
    rows = ranks.index(least) + 1
    told = bool(others) and 0 < least <= rows and others[0] - least >= FALL
    return rows if told else None


def rows_spanned(update: Arrays, spec: ModelSpec, noise: float, roundoff: float) -> int:
    """How many rows are behind an update, as far as they differ; 0 where a layer is too narrow to tell: rows span less
    of the first one, whose columns may be dependent, than of another, or as much as it has.
    """
    ranks = [_rank(affine(update, number), noise, roundoff) for number in range(len(spec.hidden) + 1)]
    return ranks[0] if spec.hidden and ranks[0] == max(ranks) < min(spec.hidden) else 0


def same_rows(one: Array, other: Array, rows: int, noise: float, roundoff: float) -> bool:
    """Whether first layers (H, d+1) of two rounds, the one with gradients of so many rows, have those of the same."""
    return _rank(other, noise, roundoff) == rows == _rank(np.vstack([one, other]), noise, roundoff)


def _narrowed(mean: Array, own: Array, most: int) -> tuple[Array, Array]:
    """Both in orthonormal bases of the columns and rows that they have together, `most` at most, which keep ranks."""
    left = np.linalg.svd(np.hstack([mean, own]), full_matrices=False)[0][:, :most]
    right = np.linalg.svd(np.vstack([mean, own]), full_matrices=False)[2][:most]
    return left.T @ mean @ right.T, left.T @ own @ right.T


def _rank(rest: Array, noise: float, roundoff: float) -> int:
    values = np.linalg.svd(rest, compute_uv=False)
    floor = max(RANK_TOLERANCE * roundoff * float(values[0]), SURE * noise * float(np.sqrt(rest.shape).sum()))
    return int((values > floor).sum())
