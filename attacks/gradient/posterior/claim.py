"""What samples of a posterior come down to: the batch with most cells right in expectation, and how sure each is.

Scores match rows before they compare cells, so the best claim is not the likeliest cell by cell, but a barycentre of
the samples (`observed.barycentre`). Matched to it, the samples say how probable each cell is. Samples of chains that
did not settle, or under a noise that is a guess, say nothing of the kind: their rows are claimed, and every cell of
them is in doubt. Where nobody told how many rows there are, as many are claimed as most samples have, and a cell is as
probable as these are, times how probable it is in them.

How sure a claim is, and whether it tells more than the best one without the update, is judged on samples that had no
part in it (`held_out`). Where it does not tell more, that is claimed: where noise leaves nothing, little is lost by
looking.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.matching.ensemble import category_entropy, number_entropy
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.gradient.posterior.held_out import (
    as_confirmed,
    before_witnesses,
    best,
    hits,
    matched,
    right_elsewhere,
    tells_more,
)
from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior, encoded_numbers
from leakledger.attacks.observed.update import ObservedUpdate

CELLS_MADE, FEWEST, MOST = 2**14, 16, 512  # cells of the prior's batches, and limits of how many batches that makes


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
    rows = best(made, samples.fit, within)
    fitted = len(samples.fit) > 1  # to several samples, of which some can be left out
    tried = before_witnesses(made, samples, within, blind)
    if samples.settled and blind is not None and not tells_more(made, samples.fit, within, blind, tried):
        rows, fitted = blind, False
    categories, numbers = matched(rows, made, within)
    own = hits(rows, categories, numbers, within).mean(0)
    right = own
    if fitted:
        right = as_confirmed(own, tried) if tried else right_elsewhere(rows, made, samples, within)
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
    return best(made, np.zeros(batches), tolerance)


def rows_of(index: NDArray[np.int64], categorical: Sequence[Cell], numeric: Sequence[Cell]) -> Rows:
    """Rows (..., B) with values `index` (..., B, F), numbers in the units of a claim."""
    count = len(categorical)
    numbers = [c.raw[index[..., count + i]] for i, c in enumerate(numeric) if c.raw is not None]
    shape = index.shape[:-1]
    return Rows(index[..., :count], np.stack(numbers, -1) if numbers else np.zeros((*shape, 0)))
