"""The batch of rows that has the most cells right, after matching, in many batches at once: of an expectation the best
claim.

Source: the free-support barycentre of Cuturi and Doucet, "Fast computation of Wasserstein barycenters" (ICML 2014),
section 4.4, with the cost of scores, the number of wrong cells; there as here Lloyd's k-means algorithm (1982) with an
optimal assignment for the nearest centre. Two steps are taken in turn, and neither can do worse: every simulated batch
is matched to the claimed rows, then every claimed cell becomes what is right in most of the cells that it was matched
to: the commonest category, the interval that holds most numbers. It ends in a local optimum that depends on the start.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.observed.tabular import Rows

STEPS = 40
LEAST_GAIN = 2e-4  # of the wrong cells: steps that gain less end the search
AT_ONCE = 2**22  # cells of the cost arrays held at a time


class Cells(Protocol):
    """`categories` (..., B, K) candidate numbers and `numbers` (..., B, L) of rows, or of M batches of them."""

    @property
    def categories(self) -> NDArray[np.int64]: ...

    @property
    def numbers(self) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Barycentre:
    """The rows, and the mean number of wrong cells in a batch that they were chosen for."""

    rows: Rows
    wrong: float


def barycentre(start: Cells, batches: Cells, tolerance: NDArray[np.float64], steps: int = STEPS) -> Barycentre:
    """Improves `start` (B rows) for `batches` of B rows; `tolerance` (L,): how far off a right number may be."""
    rows = Rows(start.categories, start.numbers)
    best = Barycentre(rows, np.inf)
    for _ in range(steps):
        order, wrong = assigned(rows, batches, tolerance)
        gain = best.wrong - wrong
        if gain > 0:
            best = Barycentre(rows, wrong)
        if gain <= LEAST_GAIN * wrong:
            break
        rows = _best_rows(batches, order, tolerance)
    return best


def assigned(claimed: Cells, batches: Cells, tolerance: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """(M, B) the number of the true row of each batch that each claimed row is matched to; mean wrong cells a batch."""
    size = len(claimed.numbers)
    part = max(1, AT_ONCE // size**2)
    order, total = np.empty((len(batches.numbers), size), np.int64), 0.0
    for first in range(0, len(batches.numbers), part):
        costs = wrong_cells(claimed, batches, slice(first, first + part), tolerance)
        for m, cost in enumerate(costs, start=first):
            mine, theirs = linear_sum_assignment(cost)
            order[m], total = theirs, total + float(cost[mine, theirs].sum())
    return order, total / len(batches.numbers)


def wrong_cells(claimed: Cells, batches: Cells, part: slice, tolerance: NDArray[np.float64]) -> NDArray[np.int32]:
    """(M, B claimed, B true) wrong cells of each pair of rows, in a part of the batches."""
    categories, numbers = batches.categories[part], batches.numbers[part]
    wrong = np.zeros((len(categories), len(claimed.numbers), categories.shape[1]), np.int32)
    for k in range(categories.shape[2]):
        wrong += categories[:, None, :, k] != claimed.categories[None, :, None, k]
    for k in range(numbers.shape[2]):
        wrong += ~(np.abs(numbers[:, None, :, k] - claimed.numbers[None, :, None, k]) <= tolerance[k])
    return wrong


def _best_rows(batches: Cells, order: NDArray[np.int64], tolerance: NDArray[np.float64]) -> Rows:
    """For each claimed row, cell by cell what is right most often in the true rows that it is matched to."""
    categories = np.take_along_axis(batches.categories, order[:, :, None], axis=1)  # (M, B, K)
    numbers = np.take_along_axis(batches.numbers, order[:, :, None], axis=1)
    modes = [_commonest(categories[:, :, k]) for k in range(categories.shape[2])]
    middles = [densest(numbers[:, :, k], tolerance[k]) for k in range(numbers.shape[2])]
    size = order.shape[1]
    return Rows(
        np.stack(modes, -1) if modes else np.zeros((size, 0), np.int64),
        np.stack(middles, -1) if middles else np.zeros((size, 0)),
    )


def _commonest(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """(B,) the commonest value of each column of (M, B)."""
    found, which = np.unique(values, return_inverse=True)
    which = which.reshape(values.shape)
    flat = which + len(found) * np.arange(values.shape[1])
    tally = np.bincount(flat.ravel(), minlength=len(found) * values.shape[1]).reshape(values.shape[1], len(found))
    modes: NDArray[np.int64] = found[tally.argmax(1)]
    return modes


def densest(values: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """(B,) for each column of (M, B) the middle of the values within an interval of 2 `tolerance` that holds most."""
    ordered = np.sort(values, axis=0)
    middles = np.empty(values.shape[1])
    for b in range(values.shape[1]):
        column = ordered[:, b]
        last = np.searchsorted(column, column + 2 * tolerance, side="right") - 1
        first = int(np.argmax(last - np.arange(len(column))))
        middles[b] = (column[first] + column[last[first]]) / 2
    return middles
