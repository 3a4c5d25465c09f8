"""The best claim without the update, which a claim from samples has to beat, and gives way to where it does not.

It is the batch that has most cells right, in expectation after matching, in many batches as they may come. Where rows
are known, these batches are of whole known rows with the labels of the batch: real rows are alike in more than the
pairs of values that the prior of the chains goes by. Where too few have a label, rows are drawn from that prior; so is
what a known row lacks.

Whether samples of chains make a better claim is judged by the prior of the chains, which flatters what is made of it.
So they have to make up for what their prior alone does (`head_start`): by how much a claim made of it seems better than
the guess in batches of the prior, and is worse in batches of known rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.gradient.posterior.held_out import best, lead
from leakledger.attacks.gradient.posterior.samples import rows_of
from leakledger.attacks.observed.tabular import Array, Rows

CELLS_MADE, FEWEST, MOST = 2**17, 16, 1024  # cells of the batches, and limits of how many batches that makes
ENOUGH = 4  # known rows of a label for each that a batch has of it; a batch made of fewer holds most of them


@dataclass(frozen=True, eq=False)
class IndexedRows:
    """Which value each cell of n known rows has: `index` (n, F), -1 where that is not known; their `labels` (n,) where
    these are.
    """

    index: NDArray[np.int64]
    labels: NDArray[np.int64] | None = None

    def like(self, label: int | None) -> NDArray[np.int64]:
        """(m, F) those with the label; all, where none is given or known."""
        return self.index if label is None or self.labels is None else self.index[self.labels == label]


def blind_guess(
    cells: Sequence[Cell],
    categorical: int,
    rows: int,
    tolerance: Array,
    coins: torch.Generator,
    device: str,
    labels: Tensor | None = None,
    known: IndexedRows | None = None,
) -> Rows:
    """The batch of so many `rows`, of the `labels` (rows,) where these are known, with most cells right in batches of
    `known` rows, or of the prior; `tolerance` (L,) as in a barycentre. The first `categorical` cells are categories.
    """
    index = _of_prior(cells, rows, coins, device, labels)
    if known is not None:
        index = _of_known(known, index, None if labels is None else labels.cpu().numpy(), coins)
    made = rows_of(index, cells[:categorical], cells[categorical:])
    return best(made, np.zeros(len(index)), tolerance)


def head_start(
    blind: Rows,
    known: IndexedRows | None,
    cells: Sequence[Cell],
    categorical: int,
    tolerance: Array,
    coins: torch.Generator,
    device: str,
    labels: Tensor | None = None,
) -> float:
    """How many more cells than `blind` a claim made of batches of the prior has right in other batches of it, and how
    many fewer in batches of `known` rows: so much a claim seems ahead before the update tells anything. Never less than
    none, and none where no rows are known, of which the guess would be made. The rest as in `blind_guess`.
    """
    if known is None:
        return 0.0
    drawn = _of_prior(cells, 2 * len(blind.numbers), coins, device, None if labels is None else labels.repeat(2))
    half, other = np.split(drawn, 2, axis=1)
    real = _of_known(known, other, None if labels is None else labels.cpu().numpy(), coins)
    made, seeming, true = (rows_of(index, cells[:categorical], cells[categorical:]) for index in (half, other, real))
    claim = best(made, np.zeros(len(half)), tolerance)
    ahead, behind = (float(lead(claim, blind, batches, tolerance).mean()) for batches in (seeming, true))
    return max(ahead - behind, 0.0)


def _of_prior(
    cells: Sequence[Cell], rows: int, coins: torch.Generator, device: str, labels: Tensor | None
) -> NDArray[np.int64]:
    """(M, B, F) batches of the prior."""
    batches = int(np.clip(CELLS_MADE // (rows * max(len(cells), 1)), FEWEST, MOST))
    each = None if labels is None else labels.repeat(batches)
    drawn = from_prior(cells, batches * rows, coins, device, each).view(batches, rows, len(cells))
    index: NDArray[np.int64] = drawn.cpu().numpy()
    return index


def _of_known(
    known: IndexedRows, drawn: NDArray[np.int64], labels: NDArray[np.int64] | None, coins: torch.Generator
) -> NDArray[np.int64]:
    """Batches `drawn` (M, B, F) with known rows in place of those drawn, where there are enough of the label."""
    index = drawn.copy()
    for label in (None,) if labels is None else np.unique(labels).tolist():
        places = np.ones(index.shape[1], bool) if labels is None else labels == label
        like = known.like(label)
        if len(like) < ENOUGH * places.sum():
            continue
        number = (len(index), int(places.sum()))
        chosen = torch.randint(len(like), number, generator=coins, device=coins.device).cpu().numpy()
        index[:, places] = np.where(like[chosen] >= 0, like[chosen], index[:, places])
    return index
