"""What samples of a posterior come down to: the batch with most cells right in expectation, and how sure each is.

Scores match rows before they compare cells, so the best claim is not the likeliest cell by cell, but a barycentre of
the samples (`observed.barycentre`). Matched to it, the samples say how probable each cell is. Samples of chains that
did not settle say nothing of the kind: their rows are claimed, and every cell of them is in doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.matching.ensemble import category_entropy, number_entropy
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.observed.barycentre import assigned, barycentre
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

STARTS = 3  # samples that the barycentre is sought from: it ends in a local optimum


@dataclass(frozen=True, eq=False)
class Samples:
    """M batches: `index` (M, B, F), each with its log posterior `fit` (M,), and whether their chains `settled`."""

    index: NDArray[np.int64]
    fit: Array
    settled: bool


def claimed(
    update: ObservedUpdate,
    prior: StructuralPrior,
    categorical: Sequence[Cell],
    numeric: Sequence[Cell],
    samples: Samples,
    tolerance: float,
) -> RecordsClaim:
    """The claim; numbers within `tolerance` deviations count as right."""
    made = rows_of(samples.index, categorical, numeric)
    within = tolerance * prior.deviation
    starts = np.argsort(-samples.fit, kind="stable")[:: max(1, len(samples.fit) // STARTS)][:STARTS]
    tried = [barycentre(Rows(made.categories[m], made.numbers[m]), made, within) for m in starts]
    rows = min(tried, key=lambda b: b.wrong).rows
    order, _ = assigned(rows, made, within)
    categories = np.take_along_axis(made.categories, order[..., None], axis=1)  # (M, B, K)
    numbers = np.take_along_axis(made.numbers, order[..., None], axis=1)
    right = np.concatenate([categories == rows.categories, np.abs(numbers - rows.numbers) <= within], -1).mean(0)
    unsure = [category_entropy(np.eye(c.size)[categories[..., k]]) for k, c in enumerate(categorical)]
    doubt = number_entropy(numbers / prior.scale, prior.deviation / prior.scale)
    if not samples.settled:
        unsure = [np.ones_like(u) for u in unsure]
        doubt = number_entropy(numbers[:1] / prior.scale, prior.deviation / prior.scale)
    return RecordsClaim(
        victim=update.victim,
        round=update.round,
        categories=rows.categories,
        numbers=rows.numbers,
        category_entropy=np.stack(unsure, -1) if unsure else np.zeros((update.rows, 0)),
        number_entropy=doubt,
        evidence=update.evidence,
        probability=right if samples.settled else None,
    )


def rows_of(index: NDArray[np.int64], categorical: Sequence[Cell], numeric: Sequence[Cell]) -> Rows:
    """Rows (..., B) with values `index` (..., B, F), numbers in the units of a claim."""
    count = len(categorical)
    numbers = [c.raw[index[..., count + i]] for i, c in enumerate(numeric) if c.raw is not None]
    shape = index.shape[:-1]
    return Rows(index[..., :count], np.stack(numbers, -1) if numbers else np.zeros((*shape, 0)))
