"""Scores claimed records: matched accuracy (TabLeak, eq. 7 and appendix A), exact rows, by type, RMSE (eq. 9).

Claimed and true rows are matched by the assignment with the least total cost; the cost of a pair is the share of cells
that differ, a numeric cell when it is off by more than 0.319 standard deviations (closed interval). The baseline draws
each cell of each row from the population's marginals and is matched like an attack. (The paper's random baseline draws
one value per column for a whole batch; it is higher.)
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from attacks.base import RecordsClaim
from audit.scoring.metrics import Measured
from audit.truth import TOLERANCE, Cells, Truth

IDENTICAL = 0.001  # of a standard deviation: a recovered row with numbers this close is the row itself


def score_records(
    claims: Sequence[RecordsClaim], truth: Truth, coins: np.random.Generator, draws: int
) -> Iterator[Measured]:
    """Every record metric of every claimed batch."""
    for claim in claims:
        actual = truth.batch(claim.victim, claim.round)
        values = measure(Cells(claim.categories, claim.numbers), actual, truth.deviations)
        baseline = prior_only(actual, truth, coins, draws)
        for metric, value in values.items():
            yield Measured("records", metric, claim.victim, claim.round, value, baseline[metric], claim.evidence)
        for metric, value in certificates(claim, actual, truth.deviations).items():
            yield Measured("records", metric, claim.victim, claim.round, value, 0.0, claim.evidence)


def measure(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> dict[str, float]:
    """Metrics of claimed rows against the true rows of the batch, after matching; a row without a claim is all wrong.

    RMSE is measured where every row was claimed.
    """
    true, order = match(claimed, actual, deviations)
    mine, theirs = claimed.take(order), actual.take(true)
    categories, numbers = cell_hits(mine, theirs, deviations)
    error = (mine.numbers - theirs.numbers) / _units(deviations)
    hits = np.hstack([categories, numbers])
    values = {
        "accuracy": float(hits.sum()) / (len(actual) * hits.shape[1]),
        "exact_rows": float(hits.all(1).sum()) / len(actual),
        "identical_rows": float(identical(mine, theirs, deviations).sum()) / len(actual),
    }
    if categories.shape[1]:
        values["categorical_accuracy"] = float(categories.sum()) / actual.categories.size
    if numbers.shape[1]:
        values["numeric_accuracy"] = float(numbers.sum()) / actual.numbers.size
        if len(true) == len(actual):
            values["rmse"] = float(np.sqrt((error**2).mean(0)).mean())
    return values


def certificates(claim: RecordsClaim, actual: Cells, deviations: NDArray[np.float64]) -> dict[str, float]:
    """Share of the batch that the attack says it has proven, and how much of that is false; empty without proof."""
    if claim.verified is None:
        return {}
    claimed = Cells(claim.categories, claim.numbers)
    true, order = match(claimed, actual, deviations)
    verified = claim.verified[order]
    false = verified & ~identical(claimed.take(order), actual.take(true), deviations)
    shares = {"verified_rows": float(verified.sum()) / len(actual)}
    return shares | ({"false_verified": float(false.sum() / verified.sum())} if verified.any() else {})


def identical(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(n,) which rows, in the same order, are the same in every category and to `IDENTICAL` in every number."""
    error = np.abs(claimed.numbers - actual.numbers) / _units(deviations)
    same: NDArray[np.bool_] = (claimed.categories == actual.categories).all(1) & (error <= IDENTICAL).all(1)
    return same


def match(
    claimed: Cells, actual: Cells, deviations: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(m,) and (m,): true rows and the claimed rows that they are matched to, as many as were claimed.

    Raises ValueError for more claimed rows than there are.
    """
    if len(claimed) > len(actual):
        raise ValueError(f"{len(claimed)} rows claimed of a batch of {len(actual)}")
    differ = (actual.categories[:, None] != claimed.categories[None]).sum(-1)  # (true, claimed)
    differ = differ + (~_close(actual.numbers[:, None], claimed.numbers[None], deviations)).sum(-1)
    true, order = linear_sum_assignment(differ)
    return np.asarray(true, np.int64), np.asarray(order, np.int64)


def cell_hits(
    claimed: Cells, actual: Cells, deviations: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(n, K) and (n, L): which cells of rows in the same order are right."""
    return claimed.categories == actual.categories, _close(actual.numbers, claimed.numbers, deviations)


def prior_only(actual: Cells, truth: Truth, coins: np.random.Generator, draws: int) -> dict[str, float]:
    """Mean metrics of rows drawn cell by cell from the population's marginals, over `draws` batches."""
    measured = [
        measure(from_marginals(truth.population, len(actual), coins), actual, truth.deviations) for _ in range(draws)
    ]
    return {metric: float(np.mean([m[metric] for m in measured])) for metric in measured[0]}


def from_marginals(population: Cells, rows: int, coins: np.random.Generator) -> Cells:
    """Rows whose cells are drawn independently of each other from the population's columns."""

    def draw(columns: NDArray[Any]) -> NDArray[Any]:
        picks = coins.integers(len(columns), size=(rows, columns.shape[1]))
        return np.take_along_axis(columns, picks, axis=0)

    return Cells(draw(population.categories), draw(population.numbers))


def _close(a: NDArray[np.float64], b: NDArray[np.float64], deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Within the tolerance; the factor keeps the interval closed under float32 rounding of encoded columns."""
    return np.abs(a - b) <= TOLERANCE * _units(deviations) * (1 + 1e-5)


def _units(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(deviations > 0, deviations, 1.0)
