"""Pooling of restarts: match their rows, take the median, measure how far they agree (TabLeak, sections 3.2 and 3.3).

The paper pools by the median of what the softmaxes give. Its published implementation has more ways, all of them here
(`POOLINGS`): the mean; the median for numbers and the mean for categories; a vote of the projected restarts, numbers by
their mean; median and mean of the logits before the softmax.

A gradient does not say in which order its rows are, so each restart has its own order: all are matched to the restart
with the lowest loss before anything is compared cell by cell. Shapes: R restarts, B rows.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from leakledger.attacks.base import Abstained, RecordsClaim
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

POOLINGS = ("median", "mean", "mixed", "vote", "median-logits", "mean-logits", "none")
SMALLEST_DEVIATION = 1e-6  # in encoded units: keeps the entropy of restarts that agree exactly finite, and the least


def pooling_name(value: bool | str) -> str:
    """True and False stand for the paper's pooling and for none."""
    return ("median" if value else "none") if isinstance(value, bool) else value


def differing_share(rows: Rows, others: Rows, tolerance: Array) -> Array:
    """Share of features in which row i of `rows` (B, ·) and row j of `others` (..., B, ·) differ: (..., B, B).

    Numbers differ when they are more than `tolerance` (L,) apart.
    """
    features = rows.categories.shape[-1] + rows.numbers.shape[-1]
    other = (rows.categories[:, None] != others.categories[..., None, :, :]).sum(-1)
    far = (np.abs(rows.numbers[:, None] - others.numbers[..., None, :, :]) > tolerance).sum(-1)
    share: Array = (other + far) / features
    return share


def matching_order(
    rows: Rows, best: int, tolerance: Array, labels: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """(R, B): the row of each restart that goes with each row of restart `best`, at the least total cost.

    Given the `labels` (B,) of the places, which are those of every restart, only rows of equal labels go together.
    """
    reference = Rows(rows.categories[best], rows.numbers[best])
    restarts = zip(rows.categories, rows.numbers, strict=True)
    apart = 0 if labels is None else len(labels) * (labels[:, None] != labels)  # more than all rows can differ by
    costs = (apart + differing_share(reference, Rows(*restart), tolerance) for restart in restarts)
    return np.stack([linear_sum_assignment(cost)[1] for cost in costs])


def lower_median(restarts: Array) -> Array:
    """The element-wise median over the first axis; of an even number the lower of the two in the middle."""
    middle = (len(restarts) - 1) // 2
    median: Array = np.partition(restarts, middle, axis=0)[middle]
    return median


def pool(how: str, units: Array, logits: Array, prior: StructuralPrior) -> Array:
    """(B, size): the units of one batch from those of restarts (R, B, size) in matching order; `logits` alike.

    `how` is one of `POOLINGS` but "none".
    """
    if how == "vote":
        rows = prior.project(units)
        votes = [np.eye(b.size)[rows.categories[..., i]].mean(0).argmax(-1) for i, b in enumerate(prior.categorical)]
        return prior.certain(Rows(np.stack(votes, -1) if votes else rows.categories[0], rows.numbers.mean(0)))
    if how == "mixed":
        pooled = prior.pooled(units, _mean)
        pooled[:, prior.positions] = lower_median(units[..., prior.positions])
        return pooled
    over = lower_median if how.startswith("median") else _mean
    if how.endswith("-logits") and prior.softmax:
        pooled = over(units)
        for place in prior.choices:
            pooled[:, place] = softmax(over(logits[..., place]), -1)
        return pooled
    return prior.pooled(units, over)


def _mean(restarts: Array) -> Array:
    mean: Array = restarts.mean(0)
    return mean


def category_entropy(beliefs: Array) -> Array:
    """(B,) in [0, 1]: entropy of the mean of one feature's distributions (R, B, candidates), over log(candidates)."""
    mean = beliefs.mean(0)
    if mean.shape[-1] == 1:
        return np.zeros(len(mean))
    terms = np.where(mean > 0, mean * np.log(np.maximum(mean, np.finfo(mean.dtype).tiny)), 0.0)
    entropy: Array = np.clip(-terms.sum(-1) / np.log(mean.shape[-1]), 0.0, 1.0)
    return entropy


def number_entropy(numbers: Array, deviation: Array) -> Array:
    """(B, L) in nats: entropy of the Gaussian with the unbiased standard deviation of `numbers` (R, B, L).

    A single restart has no spread to measure: the prior `deviation` (L,) stands in.
    """
    spread = numbers.std(0, ddof=1) if len(numbers) > 1 else np.broadcast_to(deviation, numbers.shape[1:])
    entropy: Array = 0.5 * np.log(2 * np.pi * math.e * np.maximum(spread, SMALLEST_DEVIATION) ** 2)
    return entropy


def pooled_claim(prior: StructuralPrior, update: ObservedUpdate, units: Array, rows: Rows) -> RecordsClaim:
    """The claim of `rows` behind an update, as sure as its matched restarts, at units (R, B, size), agree."""
    unsure = [category_entropy(b) for b in prior.beliefs(units)]
    return RecordsClaim(
        victim=update.victim,
        round=update.round,
        categories=rows.categories,
        numbers=rows.numbers,
        category_entropy=np.stack(unsure, -1) if unsure else np.zeros((units.shape[1], 0)),
        number_entropy=number_entropy(units[..., prior.positions] * prior.range, prior.spread_of_columns),
        evidence=update.evidence,
    )


def diverged(update: ObservedUpdate, *ends: Array) -> Abstained | None:
    """Why nothing is claimed about an update whose restarts did not end at finite units and losses."""
    if all(np.isfinite(e).all() for e in ends):
        return None
    return Abstained(f"no loss for {update.whose} in round {update.round} is finite: its model has diverged")
