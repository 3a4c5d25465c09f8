"""Which combinations of categories lie in a row space: meet in the middle over the categorical blocks of the layout.

A row of the batch is a combination of the basis, [x | 1] = c @ right. On the categorical columns and the bias, the
basis leaves room for few of the combinations of candidate codes; each of them comes with its coordinates c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.span.row_space import Array
from attacks.span.rows import plain_codes, plain_columns
from preprocess.views import CategoricalBlock, FeatureLayout

RANK = 1e-5  # singular values below this share of the largest count as zero
CHUNK = 2**22  # pairs looked at together


@dataclass(frozen=True, eq=False)
class Candidates:
    """`categories` (m, K) that lie in the row space, at coordinates `origin` (m, r) + t @ `open` (f, r), any t (f,).

    `open` are the directions of the row space that no categorical column sees: differences of rows that agree in every
    category, for one. They are scaled to move the numeric columns by a distance of 1.
    """

    categories: NDArray[np.int64]
    origin: Array
    open: Array


def find_candidates(layout: FeatureLayout, right: Array, tolerance: float, budget: int, most: int) -> Candidates | str:
    """Every combination within `tolerance` of the row space `right` (r, d+1), or why the search was not made.

    `budget` bounds the pairs of half combinations, `most` the candidates.
    """
    blocks = layout.categorical
    columns = np.hstack([plain_columns(b, right) for b in blocks] + [right[:, -1:]])  # (r, n)
    codes = [plain_codes(b) for b in blocks]
    possible = [occurring(b, plain_columns(b, right)) for b in blocks]
    u, values, basis = np.linalg.svd(columns.T, full_matrices=True)
    rank = int((values > RANK * values[0]).sum())
    null, start, parts = u[:, rank:], 0, []
    for code, allowed in zip(codes, possible, strict=True):
        parts.append(code[allowed] @ null[start : start + code.shape[1]])  # (size, n - rank)
        start += code.shape[1]
    picks = meet_in_the_middle(parts, null[-1], tolerance, budget, most)
    if isinstance(picks, str):
        return picks
    categories = np.zeros(picks.shape, np.int64)
    for k, allowed in enumerate(possible):
        categories[:, k] = allowed[picks[:, k]]
    known = np.hstack([code[c] for code, c in zip(codes, categories.T, strict=True)] + [np.ones((len(picks), 1))])
    origin = (known @ u[:, :rank] / values[:rank]) @ basis[:rank]
    return Candidates(categories, *centred(layout, right, origin, basis[rank:]))


def occurring(block: CategoricalBlock, columns: Array) -> NDArray[np.int64]:
    """The candidates of `block` that a row of the batch may have: a one-hot column of zeros rules one out."""
    if block.codes is not None:
        return np.arange(block.size)
    return np.flatnonzero(np.linalg.norm(columns, axis=0) > 1e-3)


def meet_in_the_middle(
    parts: Sequence[Array], goal: Array, tolerance: float, budget: int, most: int
) -> NDArray[np.int64] | str:
    """Picks (m, K), one row of each of `parts` (sizes, n), that sum with `goal` (n,) to less than `tolerance`."""
    halves: tuple[list[int], list[int]] = ([], [])
    sizes = [1, 1]
    for k in sorted(range(len(parts)), key=lambda k: -len(parts[k])):
        smaller = int(sizes[0] > sizes[1])
        halves[smaller].append(k)
        sizes[smaller] *= len(parts[k])
    if sizes[0] * sizes[1] > budget:
        return f"{sizes[0] * sizes[1]} combinations of categories are over the budget of {budget}"
    (sums, picks), (others, other_picks) = (combinations(parts, half, len(goal)) for half in halves)
    others = others + goal
    found, count = [], 0
    step, norms = max(1, CHUNK // len(others)), (others**2).sum(1)
    for i in range(0, len(sums), step):
        chunk = sums[i : i + step]
        pairs = np.argwhere((chunk**2).sum(1)[:, None] + norms + 2 * chunk @ others.T < tolerance**2)
        count += len(pairs)
        if count > most:
            return f"over {most} combinations of categories lie in the row space, too many to tell apart"
        found.append(np.hstack([picks[i + pairs[:, 0]], other_picks[pairs[:, 1]]]))
    order = np.argsort(halves[0] + halves[1])
    return np.concatenate(found)[:, order]


def combinations(parts: Sequence[Array], half: Sequence[int], width: int) -> tuple[Array, NDArray[np.int64]]:
    """All sums (p, width) of one row of each of the parts in `half`, and which rows they are (p, len(half))."""
    total, picks = np.zeros((1, width)), np.zeros((1, 0), np.int64)
    for k in half:
        choices = np.tile(np.arange(len(parts[k])), len(picks))
        total = (total[:, None] + parts[k]).reshape(-1, width)
        picks = np.column_stack([np.repeat(picks, len(parts[k]), 0), choices])
    return total, picks


def centred(layout: FeatureLayout, right: Array, origin: Array, open: Array) -> tuple[Array, Array]:
    """`origin` moved along `open` to where the numeric columns are smallest, and `open` in steps of length 1."""
    numbers = right[:, [b.start for b in layout.numeric]]
    if not len(open) or not numbers.size:
        return origin, open
    _, lengths, turn = np.linalg.svd((open @ numbers).T, full_matrices=False)
    seen = lengths > 1e-6
    open = turn[seen] @ open / lengths[seen, None]
    return origin - (origin @ numbers) @ (open @ numbers).T @ open, open
