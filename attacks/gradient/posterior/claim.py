"""What samples of a posterior come down to: the batch with most cells right in expectation, and how sure each is.

Scores match rows before they compare cells, so the best claim is not the likeliest cell by cell, but a barycentre of
the samples (`observed.barycentre`). Matched to it, the samples say how probable each cell is. Samples of chains that
did not settle, or under a noise that is a guess, say nothing of the kind: their rows are claimed, and every cell of
them is in doubt. Where nobody told how many rows there are, as many are claimed as most samples have, and a cell is as
probable as these are, times how probable it is in them.

Few samples make a claim that fits their chance more than the posterior. So a cell is as probable as such claims are
right in samples that had no part in them: those of one ladder of chains, where the others' make the claim (Stone 1974,
cross-validation). In its own samples a claim would be right too often. And the best claim without the update, which is
made of many batches of the prior, is held against it: what half of the samples makes must be right more often on the
other half than that is, by a standard error, else that is claimed. Where noise leaves nothing, little is lost by
looking.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.matching.ensemble import category_entropy, number_entropy
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.observed.barycentre import assigned, barycentre
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior, encoded_numbers
from leakledger.attacks.observed.update import ObservedUpdate

CELLS_MADE, FEWEST, MOST = 2**14, 16, 512  # cells of the prior's batches, and limits of how many batches that makes
STARTS = 3  # samples that the barycentre is sought from: it ends in a local optimum


@dataclass(frozen=True, eq=False)
class Samples:
    """M batches: `index` (M, B, F) with rows where `present` (M, B), each with its log posterior `fit` (M,), and which
    `ladder` (M,) of chains it is from. Whether their chains `settled`, and the mean `energy` of these. `share`: of all
    samples, those that these are. `guessed`: the noise was worked out of what the best batch leaves, or stands for
    errors of another kind, so wrong rows may count as noise.
    """

    index: NDArray[np.int64]
    present: NDArray[np.bool_]
    fit: Array
    ladder: NDArray[np.int64]
    settled: bool
    energy: float = np.nan
    share: float = 1.0
    guessed: bool = False

    @property
    def sure(self) -> bool:
        """Whether the samples say how probable a cell is."""
        return self.settled and not self.guessed

    def of_one_size(self) -> "Samples":
        """Those that have the commonest number of rows from one on, without the places that have none. No sample where
        all are without a row.
        """
        sizes = self.present.sum(1)
        size = max(1, int(np.bincount(sizes[sizes > 0], minlength=1).argmax()))
        chosen = sizes == size
        rows = self.index[chosen][self.present[chosen]].reshape(-1, size, self.index.shape[2])
        there = np.ones(rows.shape[:2], bool)
        return replace(
            self,
            index=rows,
            present=there,
            fit=self.fit[chosen],
            ladder=self.ladder[chosen],
            share=float(chosen.mean()),
        )


def claimed(
    update: ObservedUpdate,
    prior: StructuralPrior,
    categorical: Sequence[Cell],
    numeric: Sequence[Cell],
    samples: Samples,
    tolerance: float,
    blind: Rows | None = None,
) -> RecordsClaim:
    """The claim; numbers within `tolerance` deviations count as right. `blind`: the best claim without the update."""
    made = rows_of(samples.index, categorical, numeric)
    within = tolerance * prior.deviation
    rows = _best(made, samples.fit, within)
    fitted = len(samples.fit) > 1  # to several samples, of which some can be left out
    if samples.settled and blind is not None and not _tells_more(made, samples.fit, within, blind):
        rows, fitted = blind, False
    categories, numbers = _matched(rows, made, within)
    own = _hits(rows, categories, numbers, within).mean(0)
    right = _right_elsewhere(rows, made, samples, within) if fitted else own
    unsure = [category_entropy(np.eye(c.size)[categories[..., k]]) for k, c in enumerate(categorical)]
    columns = encoded_numbers(prior.numeric, numbers)
    doubt = number_entropy(columns, prior.spread_of_columns)
    if not samples.sure:
        unsure = [np.ones_like(u) for u in unsure]
        doubt = number_entropy(columns[:1], prior.spread_of_columns)
    return RecordsClaim(
        victim=update.victim,
        round=update.round,
        categories=rows.categories,
        numbers=rows.numbers,
        category_entropy=np.stack(unsure, -1) if unsure else np.zeros((samples.index.shape[1], 0)),
        number_entropy=doubt,
        evidence=update.evidence,
        probability=samples.share * right if samples.sure else None,
    )


def blind_guess(
    cells: Sequence[Cell],
    categorical: int,
    rows: int,
    tolerance: Array,
    coins: torch.Generator,
    device: str,
    labels: Tensor | None = None,
) -> Rows:
    """The batch of so many `rows`, of the `labels` (rows,) where these are known, with most cells right in batches of
    the prior; `tolerance` (L,) as in a barycentre. The first `categorical` of the cells are categories.
    """
    batches = int(np.clip(CELLS_MADE // (rows * max(len(cells), 1)), FEWEST, MOST))
    known = None if labels is None else labels.repeat(batches)
    index = from_prior(cells, batches * rows, coins, device, known).view(batches, rows, len(cells)).cpu().numpy()
    made = rows_of(index, cells[:categorical], cells[categorical:])
    return _best(made, np.zeros(batches), tolerance)


def _best(made: Rows, fit: Array, within: Array) -> Rows:
    """The best barycentre of batches, from some of them, the likeliest first."""
    starts = np.argsort(-fit, kind="stable")[:: max(1, len(fit) // STARTS)][:STARTS]
    tried = [barycentre(_some(made, m), made, within) for m in starts]
    return min(tried, key=lambda b: b.wrong).rows


def _tells_more(made: Rows, fit: Array, within: Array, blind: Rows) -> bool:
    """Whether what one half of the samples makes is right more often on the other half than a blind claim is."""
    half = np.arange(len(fit)) % 2 == 0
    other = _some(made, ~half)
    if len(other.numbers) < 2:
        return True
    rows = _best(_some(made, half), fit[half], within)
    right, without = (_hits(r, *_matched(r, other, within), within).sum((1, 2)) for r in (rows, blind))
    gain = right - without.astype(np.float64)
    return bool(gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)))


def _right_elsewhere(rows: Rows, made: Rows, samples: Samples, within: Array) -> Array:
    """(B, K + L) how often cells of claims like `rows`, in their order, are right in samples of a ladder that had no
    part in them; of one ladder, in its other half. `samples`: two or more.
    """
    count = len(samples.fit)
    parts = samples.ladder if len(np.unique(samples.ladder)) > 1 else 2 * np.arange(count) // count
    right = np.zeros((rows.numbers.shape[0], rows.categories.shape[1] + rows.numbers.shape[1]))
    for fold in np.unique(parts):
        here = parts == fold
        of_others = _best(_some(made, ~here), samples.fit[~here], within)
        [order], _ = assigned(rows, Rows(of_others.categories[None], of_others.numbers[None]), within)
        claim, rest = _some(of_others, order), _some(made, here)
        right += _hits(claim, *_matched(claim, rest, within), within).sum(0)
    return right / count


def _some(rows: Rows, which: Any) -> Rows:
    """Some rows, or some batches of them, or one."""
    return Rows(rows.categories[which], rows.numbers[which])


def _matched(rows: Rows, made: Rows, within: Array) -> tuple[NDArray[np.int64], Array]:
    """Categories (M, B, K) and numbers (M, B, L) of batches, in the order in which they match `rows`."""
    order, _ = assigned(rows, made, within)
    return (
        np.take_along_axis(made.categories, order[..., None], axis=1),
        np.take_along_axis(made.numbers, order[..., None], axis=1),
    )


def _hits(rows: Rows, categories: NDArray[np.int64], numbers: Array, within: Array) -> NDArray[np.bool_]:
    """(M, B, K + L) which cells of `rows` are right in matched batches."""
    return np.concatenate([categories == rows.categories, np.abs(numbers - rows.numbers) <= within], -1)


def rows_of(index: NDArray[np.int64], categorical: Sequence[Cell], numeric: Sequence[Cell]) -> Rows:
    """Rows (..., B) with values `index` (..., B, F), numbers in the units of a claim."""
    count = len(categorical)
    numbers = [c.raw[index[..., count + i]] for i, c in enumerate(numeric) if c.raw is not None]
    shape = index.shape[:-1]
    return Rows(index[..., :count], np.stack(numbers, -1) if numbers else np.zeros((*shape, 0)))
