"""The tables on which judges learn: public ones that come with libraries, generated ones, and a user's own.

The paper learns from 120 tables of OpenML, which cannot be had without a network. Generated tables have a label that
depends on a transformation of their columns, so that each transformation is useful somewhere; in each half of them it
depends on the columns themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.features.sketch import Column, Labels
from leakledger.preprocess.features.transformations import BINARY, TRANSFORMATIONS, binary, unary

ENDINGS = (".csv", ".csv.gz", ".parquet")
GENERATED, RECORDS = 42, 400


@dataclass(frozen=True)
class CorpusTable:
    """Numeric columns (n, features), and labels (n,) of two or more classes."""

    name: str
    columns: NDArray[np.float64]
    labels: Labels
    generated: bool = False


def corpus(folder: Path | None = None, without: tuple[str, ...] = ()) -> list[CorpusTable]:
    """Embedded and generated tables, or with a `folder` those in it. `without` names tables to leave out.

    Raises ValueError for a folder without tables with classes and two numeric columns.
    """
    if folder is None:
        named = [*(usable(name, read_table(name)) for name in EMBEDDED), *_of_sklearn()]
        return [*(t for t in named if t and not _named(t.name, without)), *generated()]
    files = sorted(p for p in folder.iterdir() if p.name.endswith(ENDINGS)) if folder.is_dir() else []
    found = [t for p in files if (t := usable(p.name.split(".")[0], read_table(p, missing="drop")))]
    if kept := [t for t in found if not _named(t.name, without)]:
        return kept
    raise ValueError(f"{folder}: holds no table ({', '.join(ENDINGS)}) with classes and two numeric columns that vary")


def usable(name: str, table: Table) -> CorpusTable | None:
    """The numeric columns that vary; None for a table without classes, or with fewer than two of them."""
    if table.schema.task == "regression":
        return None
    numbers = table.numbers()
    varied = numbers[:, [np.ptp(x) > 0 for x in numbers.T]]
    labels = np.asarray(table.labels(), np.int64)
    return CorpusTable(name, varied, labels) if varied.shape[1] > 1 and np.bincount(labels).min() > 4 else None


def generated(seed: int = 0) -> list[CorpusTable]:
    """Three tables for each transformation."""
    coins = np.random.default_rng(seed)
    return [_generated(TRANSFORMATIONS[i % len(TRANSFORMATIONS)], i, coins) for i in range(GENERATED)]


def _generated(how: str, number: int, coins: np.random.Generator) -> CorpusTable:
    """Six columns of varied shapes; the label says on which side of its median a transformation of two lies."""
    columns = np.stack([_column(coins) for _ in range(6)], axis=1)
    first, second = columns[:, 0], columns[:, 1]
    if how in BINARY:
        score = binary(how, ("first", "second"), first, second)
    elif how == "isotonic":
        score = np.sign(first - np.quantile(first, 0.8)) + (first > np.median(first))
    else:
        score = unary(how, "first", first) * np.where(coins.random() < 0.5, 1.0, -1.0)
        score = np.abs(score - np.median(score)) if coins.random() < 0.5 else score
    noise = coins.normal(0, coins.uniform(0.05, 0.5), RECORDS)
    order = np.argsort(np.argsort(score)) / RECORDS + noise
    return CorpusTable(f"generated {number}", columns, (order > np.quantile(order, 0.6)).astype(np.int64), True)


def _column(coins: np.random.Generator) -> Column:
    """A column without zeros: normal, skewed, even, heavy-tailed or of whole numbers."""
    shift, spread = coins.normal(0, 5), coins.uniform(0.5, 5)
    shapes = (
        coins.normal(shift, spread, RECORDS),
        coins.lognormal(0, min(spread, 1.5), RECORDS),
        coins.uniform(shift, shift + 5 * spread, RECORDS),
        shift + spread * coins.standard_t(3, RECORDS),
        coins.poisson(4 * spread, RECORDS) + 1.0,
    )
    chosen = shapes[int(coins.integers(len(shapes)))]
    return np.where(chosen == 0, 1.0, chosen)


def _of_sklearn() -> Iterator[CorpusTable]:
    from sklearn.datasets import load_iris, load_wine

    for name, load in (("wine", load_wine), ("iris", load_iris)):
        columns, labels = load(return_X_y=True)
        yield CorpusTable(name, np.asarray(columns, np.float64), np.asarray(labels, np.int64))


def _named(name: str, without: tuple[str, ...]) -> bool:
    """Whether a table is one of these, under a longer or shorter name."""
    return any(name.startswith(w) or w.startswith(name) for w in without)
