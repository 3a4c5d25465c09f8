"""Which combinations of categories lie in a row space: meet in the middle over the categorical blocks of the layout.

A row of the batch is a combination of the basis, [x | 1] = c @ right. On the categorical columns and the bias, the
basis leaves room for few of the combinations of candidate codes; each of them comes with its coordinates c. Where these
settle a numeric column, its value must be one that the feature can take: whole where the layout promises that, and
within the bounds that are public or known. Known dependencies leave fewer combinations (`choices`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Dependencies
from leakledger.attacks.gradient.exact.choices import possible_choices
from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.gradient.exact.rows import NEAR_WHOLE, raw_range
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.row_space import PRECISION
from leakledger.attacks.observed.tabular import Bounds, raw_numbers, slopes
from leakledger.preprocess.views import FeatureLayout

# How far from the row space a combination of categories may be, by default. Too small: rounding rules true ones out;
# too large: false ones are searched, at a cost that grows with their number.
MATCH_TOLERANCE = 2e-3
# Singular values below this share of the largest count as zero. Too small: coordinates blow rounding up; too large:
# directions that categories determine are searched as open ones.
RANK = 1e-5
NOISE = 3.0  # and those below so many times the precision of a noisy basis; the same trade
CHUNK = 2**22  # pairs looked at together: memory
# How much an open direction may move a numeric column that counts as settled. Too small: rounding unsettles it, and its
# promise of whole numbers rules nothing out; too large: true combinations are ruled out by numbers that are still open.
UNSEEN = 1e-6
NO_DIRECTION = "no direction of the first layer's row space stands out from rounding and noise"


@dataclass(frozen=True, eq=False)
class Settled:
    """Numeric columns (n,) that the categories settle, in raw units: the sum of one row of each part, and of `goal`.

    Values from `low` to `high` are possible, and of those the whole ones where `whole` says so.
    """

    parts: Sequence[Array]
    goal: Array
    low: Array
    high: Array
    whole: NDArray[np.bool_]

    def possible(self, values: Array) -> NDArray[np.bool_]:
        """(m,) whether all of the values (m, n) are possible."""
        inside = (values >= self.low - NEAR_WHOLE) & (values <= self.high + NEAR_WHOLE)
        return np.asarray((inside & ~(self.whole & (np.abs(values - values.round()) > NEAR_WHOLE))).all(1))


def find_candidates(
    layout: FeatureLayout,
    right: Array,
    tolerance: float,
    budget: int,
    most: int,
    bounds: Bounds | None = None,
    dependencies: Dependencies | None = None,
    precision: float = PRECISION,
) -> Candidates | str:
    """Every combination within `tolerance` of the row space `right` (r, d+1), or why the search was not made.

    `budget` bounds the pairs of half combinations, `most` the candidates. `bounds` of numeric features, in the units of
    a claim, go before those of the layout. Combinations that contradict one of the `dependencies` are left out.
    `precision` is that of the basis; coordinates are as many times less precise as the codes are ill conditioned.
    """
    if not len(right):
        return NO_DIRECTION
    possible = possible_choices(layout, right, dependencies or {}, budget)
    if not all(len(c) for c in possible):
        return "no combination of categories that occur fits the known dependencies"
    choices = [c.first_of_each() for c in possible]
    columns = np.hstack([*(c.columns for c in choices), right[:, -1:]])  # (r, n)
    u, values, basis = np.linalg.svd(columns.T, full_matrices=True)
    rank = int((values > max(RANK, NOISE * precision) * values[0]).sum())
    if not rank:
        return NO_DIRECTION
    known = [c.codes for c in choices]
    solved = u[:, :rank] / values[:rank] @ basis[:rank]  # (n, r): from columns to coordinates
    error = precision * values[0] / values[rank - 1]
    settled = settled_numbers(layout, known, solved @ right, basis[rank:] @ right, error, bounds)
    picks = meet_in_the_middle(spread(known, u[:, rank:]), u[-1, rank:], tolerance, budget, most, settled)
    if isinstance(picks, str):
        return picks
    categories = np.zeros((len(picks), len(layout.categorical)), np.int64)
    for c, picked in zip(choices, picks.T, strict=True):
        categories[:, c.blocks] = c.picks[picked]
    chosen = np.hstack([*(code[p] for code, p in zip(known, picks.T, strict=True)), np.ones((len(picks), 1))])
    return Candidates(categories, *centred(layout, right, chosen @ solved, basis[rank:]), possible, precision)


def spread(codes: Sequence[Array], columns: Array) -> list[Array]:
    """What each code contributes to a combination of its columns: (size, m) each, from codes (size, w) in order."""
    ends = np.cumsum([code.shape[1] for code in codes])
    return [code @ columns[end - code.shape[1] : end] for code, end in zip(codes, ends, strict=True)]


def settled_numbers(
    layout: FeatureLayout,
    codes: Sequence[Array],
    predicted: Array,
    open: Array,
    error: float,
    bounds: Bounds | None,
) -> Settled:
    """The numeric columns that no direction of `open` (f, d+1) moves and that are precise enough to be judged.

    `predicted` (n, d+1) leads from categorical columns and the bias to all encoded columns, up to `error`.
    """
    precise = [b.affine and float(b.slope(0.0)) * error < NEAR_WHOLE / 2 for b in layout.numeric]  # as sums are
    moved = [np.abs(open[:, b.start]).max(initial=0) > UNSEEN for b in layout.numeric]
    chosen = [b for b, p, m in zip(layout.numeric, precise, moved, strict=True) if p and not m]
    columns = [b.start for b in chosen]
    units, shift = slopes(chosen, np.zeros(len(chosen))), raw_numbers(chosen, np.zeros(len(chosen)))
    ranges = [raw_range(b, bounds or {}) for b in chosen]
    return Settled(
        parts=[part * units for part in spread(codes, predicted[:, columns])],
        goal=predicted[-1, columns] * units + shift,
        low=np.array([-np.inf if low is None else low for low, _ in ranges]),
        high=np.array([np.inf if high is None else high for _, high in ranges]),
        whole=np.array([b.integer and b.scaled for b in chosen], bool),
    )


def meet_in_the_middle(
    parts: Sequence[Array], goal: Array, tolerance: float, budget: int, most: int, settled: Settled | None = None
) -> NDArray[np.int64] | str:
    """Picks (m, K), one row of each of `parts` (sizes, n), that sum with `goal` (n,) to less than `tolerance`.

    Picks that `settled` knows to be impossible do not count.
    """
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
    settled = settled if settled and settled.goal.size else None
    values = [combinations(settled.parts, half, len(settled.goal))[0] for half in halves] if settled else []
    close, count = [], 0
    step, norms = max(1, CHUNK // len(others)), (others**2).sum(1)
    for i in range(0, len(sums), step):
        chunk = sums[i : i + step]
        pairs = np.argwhere((chunk**2).sum(1)[:, None] + norms + 2 * chunk @ others.T < tolerance**2)
        if settled:
            pairs = pairs[settled.possible(values[0][i + pairs[:, 0]] + values[1][pairs[:, 1]] + settled.goal)]
        count += len(pairs)
        if count > most:
            return f"over {most} combinations of categories lie in the row space, too many to tell apart"
        close.append(np.hstack([picks[i + pairs[:, 0]], other_picks[pairs[:, 1]]]))
    order = np.argsort(halves[0] + halves[1])
    return np.concatenate(close)[:, order]


def combinations(parts: Sequence[Array], half: Sequence[int], width: int) -> tuple[Array, NDArray[np.int64]]:
    """All sums (p, width) of one row of each of the parts in `half`, and which rows they are (p, len(half))."""
    total, picks = np.zeros((1, width)), np.zeros((1, 0), np.int64)
    for k in half:
        choices = np.tile(np.arange(len(parts[k])), len(picks))
        total = (total[:, None] + parts[k]).reshape(len(total) * len(parts[k]), width)
        picks = np.column_stack([np.repeat(picks, len(parts[k]), 0), choices])
    return total, picks


def centred(layout: FeatureLayout, right: Array, origin: Array, open: Array) -> tuple[Array, Array]:
    """`origin` moved along `open` to where the numeric columns are smallest, and `open` in steps of length 1."""
    numbers = right[:, [b.start for b in layout.numeric]]
    if not len(open) or not numbers.size:
        return origin, open
    _, lengths, turn = np.linalg.svd((open @ numbers).T, full_matrices=False)
    seen = lengths > UNSEEN
    open = turn[seen] @ open / lengths[seen, None]
    return origin - (origin @ numbers) @ (open @ numbers).T @ open, open
