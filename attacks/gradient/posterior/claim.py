"""What samples of a posterior come down to: the batch with most cells right in expectation, and how sure each is.

Scores match rows before they compare cells, so the best claim is not the likeliest cell by cell, but a barycentre of
the samples (`observed.barycentre`). Matched to it, the samples say how probable each cell is. Samples of chains that
did not settle, or under a noise that is a guess, say nothing of the kind: their rows are claimed, and every cell of
them is in doubt. Where nobody told how many rows there are, as many are claimed as most samples have, and a cell is as
probable as these are, times how probable it is in them.

How sure a claim is, and whether it tells more than the best one without the update (`blind`), is judged on samples that
had no part in it (`held_out`). Where it does not tell more, that one is claimed: where noise leaves nothing, little is
lost by looking. It is as sure as witnesses find it, where there are any: other samples have a start in common.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.matching.ensemble import category_entropy, number_entropy
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.held_out import (
    as_confirmed,
    before_witnesses,
    best,
    hits,
    matched,
    right_elsewhere,
    some,
    tells_more,
)
from leakledger.attacks.gradient.posterior.samples import Samples, rows_of
from leakledger.attacks.observed.tabular import Rows, StructuralPrior, encoded_numbers
from leakledger.attacks.observed.update import ObservedUpdate


def claimed(
    update: ObservedUpdate,
    prior: StructuralPrior,
    categorical: Sequence[Cell],
    numeric: Sequence[Cell],
    samples: Samples,
    tolerance: float,
    blind: Rows | None = None,
    head_start: float = 0.0,
) -> RecordsClaim:
    """The claim; numbers within `tolerance` deviations count as right. `blind`: the best claim without the update;
    `head_start`: by how many cells the prior of the samples makes another one seem better than that.
    """
    made = rows_of(samples.index, categorical, numeric)
    within = tolerance * prior.deviation
    rows = best(made, samples.fit, within)
    fitted = len(samples.fit) > 1  # to several samples, of which some can be left out
    tried = before_witnesses(made, samples, within, blind)
    if samples.settled and blind is not None and not tells_more(made, samples.fit, within, blind, tried, head_start):
        rows, fitted = blind, False
        made = some(made, samples.witness) if tried else made
    categories, numbers = matched(rows, made, within)
    own = hits(rows, categories, numbers, within).mean(0)
    right = own
    if fitted:
        right = as_confirmed(own, tried) if tried else right_elsewhere(rows, made, samples, within)
    unsure = [category_entropy(np.eye(c.size)[categories[..., k]]) for k, c in enumerate(categorical)]
    columns = encoded_numbers(prior.numeric, numbers)
    claim = RecordsClaim(
        victim=update.victim,
        round=update.round,
        categories=rows.categories,
        numbers=rows.numbers,
        category_entropy=np.stack(unsure, -1) if unsure else np.zeros((samples.index.shape[1], 0)),
        number_entropy=number_entropy(columns, prior.spread_of_columns),
        evidence=update.evidence,
        probability=samples.share * right,
    )
    return claim if samples.sure else in_doubt(claim, prior)


def in_doubt(claim: RecordsClaim, prior: StructuralPrior) -> RecordsClaim:
    """The same rows, with every cell in doubt."""
    columns = encoded_numbers(prior.numeric, claim.numbers[None])
    return replace(
        claim,
        category_entropy=np.ones_like(claim.category_entropy),
        number_entropy=number_entropy(columns, prior.spread_of_columns),
        probability=None,
    )
