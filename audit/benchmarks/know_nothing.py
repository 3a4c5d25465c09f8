"""Adversaries of records that know the population and see nothing: against a fair baseline none has an advantage.

Each is a batch of claims made without the baseline's own code where there is another way: an exchange of rows, in the
place of alternating steps, for the same score. Rows under attack are no part of their population either; `shuffled`
claims the real batch of another client.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.observed.barycentre import barycentre, wrong_cells
from leakledger.audit.cells import Cells
from leakledger.audit.scoring.records import from_marginals
from leakledger.audit.scoring.target_batches import Batches, Counts, Population, target_batches
from leakledger.audit.truth import Truth

NEIGHBOURS, SIMULATED = 256, 48  # rows of the population to choose among, and batches to choose them for
EXCHANGES = 40  # rows that are tried in another's place
RESTARTS = 3


@dataclass(frozen=True)
class Target:
    """A batch that nothing is known of but its number of `rows`, the client's name, and the label `counts`, if they
    are; `of` is the population without it.
    """

    truth: Truth
    of: Population
    victim: str
    round: int
    rows: int
    counts: Counts | None

    def sample(self, batches: int, coins: np.random.Generator) -> Batches:
        return target_batches(self.of, self.rows, self.counts, batches, coins)


Adversary = Callable[[Target, np.random.Generator], Cells]


def constant(target: Target, coins: np.random.Generator) -> Cells:
    """One row of the population, for all."""
    return target.of.cells.take(np.repeat(coins.integers(len(target.of)), target.rows))


def modal(target: Target, coins: np.random.Generator) -> Cells:
    """The commonest category of each feature and the median of each number, for all rows."""
    return _repeated(target, np.median(target.of.cells.numbers, axis=0))


def mean(target: Target, coins: np.random.Generator) -> Cells:
    """The commonest category of each feature and the mean of each number, for all rows."""
    return _repeated(target, target.of.cells.numbers.mean(0))


def drawn(target: Target, coins: np.random.Generator) -> Cells:
    """Every cell from the marginals."""
    return from_marginals(target.of.cells, target.rows, coins)


def joint(target: Target, coins: np.random.Generator) -> Cells:
    """Whole rows, of the known labels."""
    return target.sample(1, coins).batch(0)


def half_modal(target: Target, coins: np.random.Generator) -> Cells:
    """The modal row for half of the batch, whole rows for the other."""
    one, other = modal(target, coins), joint(target, coins)
    half = np.arange(target.rows) < target.rows // 2
    return Cells(
        np.where(half[:, None], one.categories, other.categories), np.where(half[:, None], one.numbers, other.numbers)
    )


def shuffled(target: Target, coins: np.random.Generator) -> Cells:
    """The real batch of another client, cut or repeated to the same length."""
    others = [key for key in target.truth.federated.batches if key[0] != target.victim]
    rows = target.truth.batch(*others[int(coins.integers(len(others)))])
    return rows.take(np.resize(np.arange(len(rows)), target.rows))


def diverse(target: Target, coins: np.random.Generator) -> Cells:
    """Rows far from each other: each the farthest from those before it (Gonzalez 1985)."""
    pool = _pool(target, coins)
    apart = _distances(pool, pool, target)
    picks = [0]
    while len(picks) < target.rows:
        picks.append(int(apart[picks].min(0).argmax()))
    return pool.take(np.array(picks))


def medoids(target: Target, coins: np.random.Generator) -> Cells:
    """Rows to which all rows of a sample are near: chosen one by one, each for what it adds."""
    pool = _pool(target, coins)
    apart = _distances(pool, pool, target)
    picks: list[int] = []
    reached = np.full(len(pool), np.inf)
    for _ in range(target.rows):
        picks.append(int(np.minimum(apart, reached).sum(1).argmin()))
        reached = np.minimum(reached, apart[picks[-1]])
    return pool.take(np.array(picks))


def exchanged(target: Target, coins: np.random.Generator) -> Cells:
    """Rows of the population, one after another put in another's place where more cells of simulated batches are right
    after matching.
    """
    pool, seen = _pool(target, coins), target.sample(SIMULATED, coins)
    costs = wrong_cells(pool, seen, slice(0, SIMULATED), target.of.tolerance)  # (batches, pool, rows)
    picks = coins.choice(len(pool), target.rows)
    best = _matched(costs, picks)
    for _ in range(EXCHANGES):
        tried = picks.copy()
        tried[coins.integers(target.rows)] = coins.integers(len(pool))
        if (wrong := _matched(costs, tried)) < best:
            picks, best = tried, wrong
    return pool.take(picks)


def optimised(target: Target, coins: np.random.Generator) -> Cells:
    """The barycentre of batches of its own, from starts of its own."""
    seen = target.sample(4 * SIMULATED, coins)
    found = [barycentre(drawn(target, coins), seen, target.of.tolerance) for _ in range(RESTARTS)]
    rows = min(found, key=lambda b: b.wrong).rows
    return Cells(rows.categories, rows.numbers)


def one_row(target: Target, coins: np.random.Generator) -> Cells:
    """One likely row, and nothing for the others: it is matched to whichever row is nearest."""
    rows = modal(target, coins)
    numbers = rows.numbers.copy()
    categories = rows.categories.copy()
    categories[1:], numbers[1:] = -1, np.inf
    return Cells(categories, numbers)


LIBRARY: Mapping[str, Adversary] = {
    f.__name__: f
    for f in (
        constant,
        modal,
        mean,
        drawn,
        joint,
        half_modal,
        shuffled,
        diverse,
        medoids,
        exchanged,
        optimised,
        one_row,
    )
}


def _repeated(target: Target, numbers: NDArray[np.float64]) -> Cells:
    cells = target.of.cells
    modes = [int(np.bincount(column).argmax()) for column in cells.categories.T]
    rows = np.zeros(target.rows, np.int64)
    return Cells(np.array([modes], np.int64).reshape(1, -1)[rows], numbers[None][rows])


def _pool(target: Target, coins: np.random.Generator) -> Cells:
    return target.of.cells.take(coins.choice(len(target.of), max(NEIGHBOURS, target.rows)))


def _distances(one: Cells, other: Cells, target: Target) -> NDArray[np.float64]:
    """(one, other) wrong cells of each pair."""
    both = Batches(other.categories[None], other.numbers[None])
    apart: NDArray[np.float64] = wrong_cells(one, both, slice(0, 1), target.of.tolerance)[0].astype(np.float64)
    return apart


def _matched(costs: NDArray[np.int32], picks: NDArray[np.int64]) -> float:
    """Wrong cells over all simulated batches."""
    total = 0.0
    for cost in costs[:, picks]:
        mine, theirs = linear_sum_assignment(cost)
        total += float(cost[mine, theirs].sum())
    return total
