"""Divides one table among the parties of a federation: every row goes to exactly one party.

The settings are those of the studies of federated preprocessing: natural silos; independent and identical shares;
label, quantity and feature imbalance (Federated Normalization, section III-B, after Li et al., 2022); and parties as
different as the data allow (Tabular Transformation, section 5.3). One file per party is `read.read_tables`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.divergent import divergent_owners, label_groups
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.impute import filled
from leakledger.preprocess.data.parties import named, numbered
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.nouns import plural

Owners = NDArray[np.int64]  # (rows,) the position of the party that each row goes to
DRAWS = 1_000  # of the shares of a Dirichlet split, until every party has its minimum
MAX_BETA = 1e9  # beyond, shares are equal to all digits


@dataclass(frozen=True)
class Partition(ABC):
    """A way to divide a table among `parties`, each of which must get `minimum` rows or more."""

    parties: int
    minimum: int = 10

    name: ClassVar[str]
    remedy: ClassVar[str] = "use fewer parties, or a smaller minimum"

    def split(self, table: Table, rng: np.random.Generator) -> dict[str, Table]:
        """Each party's table by party name, rows in table order; the same from the same table and generator state.

        Raises DataError for fewer than two parties, fewer rows than they need, and a party below `minimum`.
        """
        self._check(table)
        owners = self.owners(table, rng)
        names = self.names(table)
        counts = np.bincount(owners, minlength=self.parties)
        poorest = int(counts.argmin())
        if counts[poorest] < self.minimum:
            raise DataError(
                f"{table.name}: {self.name} gives {self.told(names[poorest])} {plural(int(counts[poorest]), 'row')}, "
                f"the minimum is {self.minimum}; {self.remedy}"
            )
        order = np.argsort(owners, kind="stable")
        return dict(zip(names, table.divided(order, counts), strict=True))

    @abstractmethod
    def owners(self, table: Table, rng: np.random.Generator) -> Owners:
        """(rows,) the party of each row."""

    def names(self, table: Table) -> list[str]:
        return numbered(self.parties)

    def told(self, name: str) -> str:
        """How an error speaks of the party of that name."""
        return f"party {name}"

    def _check(self, table: Table) -> None:
        if self.parties < 2:
            raise DataError(f"{self.name}: a federation needs at least two parties, got {self.parties}")
        if self.minimum < 1:
            raise DataError(f"{self.name}: minimum is {self.minimum}; every party needs at least one row")
        if len(table) < self.parties * self.minimum:
            raise DataError(
                f"{table.name}: {plural(len(table), 'row')} cannot give {self.parties} parties {self.minimum} each; "
                "use fewer parties, or a smaller minimum"
            )


@dataclass(frozen=True)
class Iid(Partition):
    """Rows dealt at random in equal shares, to within one row."""

    name = "iid"

    def owners(self, table: Table, rng: np.random.Generator) -> Owners:
        return rng.permutation(len(table)) % self.parties


@dataclass(frozen=True)
class ByColumn(Partition):
    """Natural silos: one party per value of `column`, named for the value, in sorted order.

    The column is a text column, be it a feature or carried along. `parties` must be the number of its values, so that
    the size of a federation is never a surprise.
    """

    column: str = ""

    name = "by-column"
    remedy = "use another column, or a smaller minimum"

    def owners(self, table: Table, rng: np.random.Generator) -> Owners:
        codes, values = pd.factorize(table.values(self.column), sort=True)
        if empty := int((codes < 0).sum()):
            raise DataError(
                f"{table.name}: column {self.column!r} is empty in {plural(empty, 'row')}; fill it to split by it"
            )
        if (n := len(values)) != self.parties:
            raise DataError(
                f"{table.name}: column {self.column!r} has {plural(n, 'value')}; set parties to {n}, not {self.parties}"
            )
        return codes.astype(np.int64)

    def names(self, table: Table) -> list[str]:
        return named(sorted(set(table.values(self.column))))

    def told(self, name: str) -> str:
        """Without the name, which is a value of the table: one that a single row holds may be about one person."""
        return "one party"

    def _check(self, table: Table) -> None:
        super()._check(table)
        if not self.column:
            raise DataError(f"{self.name}: needs a column, whose values become the parties; set column")


@dataclass(frozen=True)
class Dirichlet(Partition):
    """What the Dirichlet splits share: shares drawn until every party has its minimum, as in Li et al."""

    beta: float = 0.5

    remedy = "use a larger beta, fewer parties, or a smaller minimum"

    def owners(self, table: Table, rng: np.random.Generator) -> Owners:
        groups = self.groups(table)
        rows = np.bincount(groups)
        for _ in range(DRAWS):
            counts = np.array([_share(n, rng.dirichlet(np.full(self.parties, self.beta))) for n in rows])
            if counts.sum(axis=0).min() >= self.minimum:
                break
        owners = np.empty(len(table), np.int64)
        for group, per_party in enumerate(counts):
            owners[rng.permutation(np.flatnonzero(groups == group))] = np.repeat(np.arange(self.parties), per_party)
        return owners

    @abstractmethod
    def groups(self, table: Table) -> NDArray[np.int64]:
        """(rows,) the group of each row; each group is divided by shares of its own."""

    def _check(self, table: Table) -> None:
        super()._check(table)
        if not 0 < self.beta <= MAX_BETA:
            raise DataError(f"{self.name}: beta is {self.beta}; it must be above 0 and at most {MAX_BETA:g}")


@dataclass(frozen=True)
class DirichletLabels(Dirichlet):
    """Label imbalance: each class is divided by shares ~ Dir(beta); in a regression each tenth of the target ranks."""

    name = "dirichlet-labels"

    def groups(self, table: Table) -> NDArray[np.int64]:
        return label_groups(table)


@dataclass(frozen=True)
class DirichletQuantity(Dirichlet):
    """Quantity imbalance: all rows are divided by shares ~ Dir(beta)."""

    name = "dirichlet-quantity"

    def groups(self, table: Table) -> NDArray[np.int64]:
        return np.zeros(len(table), np.int64)


@dataclass(frozen=True)
class GaussianNoise(Iid):
    """Feature imbalance: equal random shares, then noise ~ N(0, beta i / P) on every numeric feature of party i of P.

    Read as in Li et al.: beta i / P is the variance, here in units of the feature's variance in the whole table, so
    that party P gets noise of sqrt(beta) standard deviations. Noisy features are neither whole numbers nor within
    declared ranges, and the parties' schema claims neither.
    """

    beta: float = 0.3

    name = "feature-noise"

    def split(self, table: Table, rng: np.random.Generator) -> dict[str, Table]:
        spread = filled(table).numbers().std(axis=0)
        schema, basis = replace(table.schema, integer=(), ranges={}), table.basis
        if basis is not None:
            basis = replace(basis, declared=basis.declared.model_copy(update={"integer": (), "ranges": {}}))
        noisy = {}
        for i, (party, part) in enumerate(super().split(table, rng).items(), start=1):
            noise = rng.normal(size=(len(part), len(spread))) * np.sqrt(self.beta * i / self.parties) * spread
            columns = dict(zip(schema.numeric, (part.numbers() + noise).T, strict=True))
            noisy[party] = replace(part, frame=part.frame.assign(**columns), schema=schema, basis=basis)
        return noisy

    def _check(self, table: Table) -> None:
        super()._check(table)
        if not table.schema.numeric:
            raise DataError(f"{table.name}: feature-noise needs a numeric feature, and there is none")
        if not 0 <= self.beta <= MAX_BETA:
            raise DataError(f"{self.name}: beta is {self.beta}; it must be at least 0 and at most {MAX_BETA:g}")


@dataclass(frozen=True)
class Divergent(Partition):
    """Parties that differ in categories, sizes and labels as much as the data allow (`divergent.divergent_owners`)."""

    name = "divergent"

    def owners(self, table: Table, rng: np.random.Generator) -> Owners:
        return divergent_owners(filled(table), self.parties, self.minimum, rng)


PARTITIONS: Mapping[str, type[Partition]] = {
    p.name: p for p in (Iid, ByColumn, DirichletLabels, DirichletQuantity, GaussianNoise, Divergent)
}


def partition(
    table: Table, kind: str, parties: int, rng: np.random.Generator, *, minimum: int = 10, **options: Any
) -> dict[str, Table]:
    """`table` divided by the partition called `kind`. Options: `beta` or `column`, where the kind has it.

    Raises DataError for an unknown kind, an option that the kind lacks, and what `Partition.split` refuses.
    """
    if kind not in PARTITIONS:
        known = ", ".join(PARTITIONS)
        raise DataError(f"partition {kind!r} is unknown{closest(kind, PARTITIONS)}; choose one of {known}")
    chosen = PARTITIONS[kind]
    accepted = [f.name for f in fields(chosen) if f.name not in ("parties", "minimum")]
    if unknown := [o for o in options if o not in accepted]:
        raise DataError(f"partition {kind!r} has no option {unknown[0]!r}; it has {', '.join(accepted) or 'none'}")
    return chosen(parties, minimum, **options).split(table, rng)


def _share(rows: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """`rows` divided in proportion to `shares`, which sum to 1: whole numbers that sum to `rows`."""
    edges = np.rint(np.cumsum(shares) * rows).astype(np.int64)
    edges[-1] = rows
    return np.diff(edges, prepend=0)
