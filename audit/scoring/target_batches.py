"""Batches as a client would draw them, made from the population: what an adversary without a view expects.

Knowledge: the rows of every client as a distribution (which values go together, and how alike the rows of one client
are), not which client holds what, and nothing of the rows under attack, which are left out. Each batch is drawn anew,
with replacement, from the rows of a client that is picked evenly; where the labels of the target are known, so many
rows of each label. Where that client has none, they come from all rows of that label. Continuous labels are
binned at their deciles. Where the target is the batches of several clients together, so many clients are picked, and
rows are dealt out to them evenly.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import clients_of
from leakledger.audit.cells import TOLERANCE, Cells
from leakledger.audit.truth import Truth

Labels = NDArray[np.int64] | NDArray[np.float64]
Counts = tuple[tuple[int | None, int], ...]
"""(stratum, rows of it) for each stratum that occurs; None: rows of whatever stratum."""

CLASSES = 20  # labels of more distinct values than this are grouped


@dataclass(frozen=True)
class Population:
    """N rows: `cells`, the `owner` (N,) and the label `stratum` (N,) of each, where the strata are cut, and the
    `tolerance` (L,) within which a number is right. A batch is of `clients` owners.
    """

    cells: Cells
    owner: NDArray[np.int64]
    stratum: NDArray[np.int64]
    cuts: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    clients: int = 1

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, rows: NDArray[np.int64]) -> "Population":
        return replace(self, cells=self.cells.take(rows), owner=self.owner[rows], stratum=self.stratum[rows])

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        return np.unique(self.owner)

    def rows(self, owner: int, stratum: int | None) -> NDArray[np.int64]:
        """The rows of an owner, of a stratum if one is given; everyone's where the owner has none, all rows where
        nobody has.
        """
        if (owner, stratum) not in self._rows:
            own = self.owner == owner
            wanted = np.ones(len(self), np.bool_) if stratum is None else self.stratum == stratum
            some = own & wanted if (own & wanted).any() else wanted
            self._rows[owner, stratum] = np.flatnonzero(some if some.any() else ~some)
        return self._rows[owner, stratum]

    @cached_property
    def _rows(self) -> dict[tuple[int, int | None], NDArray[np.int64]]:
        return {}

    def counts(self, labels: Labels) -> Counts:
        """How many of `labels` (B,) each stratum has."""
        strata, rows = np.unique(_strata(self.cuts, labels), return_counts=True)
        return tuple(zip(strata.tolist(), rows.tolist(), strict=True))


@dataclass(frozen=True)
class Batches:
    """M batches of B rows: `categories` (M, B, K) and `numbers` (M, B, L)."""

    categories: NDArray[np.int64]
    numbers: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.categories)

    def batch(self, m: int) -> Cells:
        return Cells(self.categories[m], self.numbers[m])


def population_without(truth: Truth, victim: str, round: int) -> Population:
    """All clients' rows in the terms of `truth`, but those that `victim`, a client or several, trained on in `round`;
    all, where these are all there are.
    """
    train = truth.federated.train
    labels = np.concatenate([np.asarray(d.labels, np.float64) for d in train.values()])
    sizes = [len(d) for d in train.values()]
    kept = np.ones(len(labels), np.bool_)
    for client in clients_of(victim):
        first = sum(sizes[: list(train).index(client)])
        kept[first + np.concatenate(truth.federated.batches[client, round])] = False
    rows = np.flatnonzero(kept) if kept.any() else np.arange(len(labels))
    distinct = np.unique(labels)
    cuts = distinct[1:] if len(distinct) <= CLASSES else np.unique(np.quantile(labels, np.arange(1, 10) / 10))
    tolerance = TOLERANCE * np.where(truth.deviations > 0, truth.deviations, 1.0)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    strata, clients = _strata(cuts, labels[rows]), len(clients_of(victim))
    return Population(truth.population.take(rows), owner[rows], strata, cuts, tolerance, clients)


def target_batches(
    of: Population, rows: int, counts: Counts | None, batches: int, coins: np.random.Generator
) -> Batches:
    """So many batches of `rows` rows; of the label `counts`, where they are known."""
    picks: NDArray[np.int64] = np.stack([_one_batch(of, rows, counts, coins) for _ in range(batches)])
    return Batches(of.cells.categories[picks], of.cells.numbers[picks])


def _one_batch(of: Population, rows: int, counts: Counts | None, coins: np.random.Generator) -> NDArray[np.int64]:
    """(rows,) numbers of rows of the population."""
    wanted = [(None, rows)] if counts is None else counts
    if of.clients == 1:
        owner = int(coins.choice(of.owners))
        return np.concatenate([coins.choice(of.rows(owner, stratum), n) for stratum, n in wanted])
    owners = coins.choice(of.owners, min(of.clients, len(of.owners)), replace=False)
    dealt = coins.permutation(np.resize(owners, rows))  # whose row each is
    strata = [stratum for stratum, n in wanted for _ in range(n)]
    return np.array([coins.choice(of.rows(int(o), s)) for o, s in zip(dealt, strata, strict=True)], np.int64)


def _strata(cuts: NDArray[np.float64], labels: Labels) -> NDArray[np.int64]:
    strata: NDArray[np.int64] = np.searchsorted(cuts, np.asarray(labels, np.float64), side="right").astype(np.int64)
    return strata
