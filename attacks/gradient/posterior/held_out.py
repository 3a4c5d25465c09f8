"""How sure a claim is, and whether it is better than one made without the update: on samples that had no part in it.

Few samples make a claim that fits their chance more than the posterior. So a cell is as probable as such claims are
right in samples that had no part in them: those of one ladder of chains, where the others' make the claim (Stone 1974,
cross-validation). In its own samples a claim would be right too often. And the best claim without the update, which is
made of many batches of the prior, is held against it: what half of the samples makes must be right more often on the
other half than that is, by a standard error, and by what the prior of the chains makes it seem ahead (`blind`).

Ladders that began together have more in common than the posterior. Where there are chains that did not (`witnesses`),
these alone are left out in turn, and say both: what share of the cells that a claim has right in so many of its own
samples is right in theirs (a rising curve, by isotonic regression), and whether it beats the claim without the update.

A claim is the barycentre of its samples, from which each of these is matched to it (`observed.barycentre`). Shapes: M
samples of B rows, with K categories and L numbers; numbers within (L,) of each other count as the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.observed.barycentre import assigned, barycentre
from leakledger.attacks.observed.tabular import Array, Rows

STARTS = 3  # samples that the barycentre is sought from: it ends in a local optimum
FOLDS = 4  # parts of the witnesses that are left out in turn


@dataclass(frozen=True, eq=False)
class Trial:
    """How a claim stood, that some witnesses had no part in: in what share of the samples it was made of each cell is
    right (B, F), in what share of theirs (B, F), and how many more cells of theirs than a blind claim has right.
    """

    said: Array
    right: Array
    gain: float


def before_witnesses(made: Rows, samples: Samples, within: Array, blind: Rows | None) -> list[Trial]:
    """Claims before each part of the witnesses; none where there are not two."""
    if samples.witness is None:
        return []
    chains = np.unique(samples.ladder[samples.witness])
    folds = np.array_split(chains, min(FOLDS, len(chains))) if len(chains) > 1 else []
    return [_before(made, samples.fit, np.isin(samples.ladder, fold), within, blind) for fold in folds]


def _before(made: Rows, fit: Array, here: NDArray[np.bool_], within: Array, blind: Rows | None) -> Trial:
    rest, others = some(made, here), some(made, ~here)
    claim = best(others, fit[~here], within)
    said = hits(claim, *matched(claim, others, within), within).mean(0)
    right = hits(claim, *matched(claim, rest, within), within).mean(0)
    without = 0.0 if blind is None else hits(blind, *matched(blind, rest, within), within).mean(0).sum()
    return Trial(said, right, float(right.sum() - without))


def tells_more(
    made: Rows, fit: Array, within: Array, blind: Rows, tried: Sequence[Trial], head_start: float = 0.0
) -> bool:
    """Whether claims have more cells right than a blind one has, by a standard error beyond a `head_start`: where they
    were `tried`, before witnesses, else one that half of the samples makes on the other half.
    """
    gain = np.array([t.gain for t in tried])
    if not tried:
        half = np.arange(len(fit)) % 2 == 0
        other = some(made, ~half)
        if len(other.numbers) < 2:
            return True
        gain = lead(best(some(made, half), fit[half], within), blind, other, within)
    return bool(gain.mean() - head_start > gain.std(ddof=1) / np.sqrt(len(gain)))


def lead(rows: Rows, blind: Rows, batches: Rows, within: Array) -> Array:
    """(M,) how many more cells than a blind claim `rows` have right in each of some batches."""
    right, without = (hits(r, *matched(r, batches, within), within).sum((1, 2)) for r in (rows, blind))
    return np.asarray(right - without.astype(np.float64))


def as_confirmed(said: Array, tried: Sequence[Trial]) -> Array:
    """(B, F) what shares `said` (B, F) by the samples of a claim come to before witnesses: the rising curve that is
    nearest to what these confirm.
    """
    shares, place = np.unique(np.concatenate([t.said.ravel() for t in tried]), return_inverse=True)
    cells = np.bincount(place)
    right = np.bincount(place, np.concatenate([t.right.ravel() for t in tried])) / cells
    confirmed: Array = np.interp(said, shares, isotonic_regression(right, weights=cells).x)
    return confirmed


def right_elsewhere(rows: Rows, made: Rows, samples: Samples, within: Array) -> Array:
    """(B, K + L) how often cells of claims like `rows`, in their order, are right in samples of a ladder that had no
    part in them; of one ladder, in its other half. `samples`: two or more.
    """
    count = len(samples.fit)
    parts = samples.ladder if len(np.unique(samples.ladder)) > 1 else 2 * np.arange(count) // count
    right = np.zeros((rows.numbers.shape[0], rows.categories.shape[1] + rows.numbers.shape[1]))
    for fold in np.unique(parts):
        here = parts == fold
        of_others = best(some(made, ~here), samples.fit[~here], within)
        [order], _ = assigned(rows, Rows(of_others.categories[None], of_others.numbers[None]), within)
        claim, rest = some(of_others, order), some(made, here)
        right += hits(claim, *matched(claim, rest, within), within).sum(0)
    return right / count


def best(made: Rows, fit: Array, within: Array) -> Rows:
    """The best barycentre of batches, from some of them, the likeliest first."""
    starts = np.argsort(-fit, kind="stable")[:: max(1, len(fit) // STARTS)][:STARTS]
    tried = [barycentre(some(made, m), made, within) for m in starts]
    return min(tried, key=lambda b: b.wrong).rows


def some(rows: Rows, which: Any) -> Rows:
    """Some rows, or some batches of them, or one."""
    return Rows(rows.categories[which], rows.numbers[which])


def matched(rows: Rows, made: Rows, within: Array) -> tuple[NDArray[np.int64], Array]:
    """Categories (M, B, K) and numbers (M, B, L) of batches, in the order in which they match `rows`."""
    order, _ = assigned(rows, made, within)
    return (
        np.take_along_axis(made.categories, order[..., None], axis=1),
        np.take_along_axis(made.numbers, order[..., None], axis=1),
    )


def hits(rows: Rows, categories: NDArray[np.int64], numbers: Array, within: Array) -> NDArray[np.bool_]:
    """(M, B, K + L) which cells of `rows` are right in matched batches."""
    return np.concatenate([categories == rows.categories, np.abs(numbers - rows.numbers) <= within], -1)
