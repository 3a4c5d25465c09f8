"""The split that makes parties as different as the data allow: in categories they hold, in size, and in labels.

Tabular Transformation, section 5.3, states the aim ("varying categorical values, dataset sizes, and label distributions
across participants, thus maximizing divergence") and no procedure. This is ours:

1. *Sizes*. Every party gets its minimum; the other rows are shared in proportion to 1, 1/2, 1/3 and so on, and the
   generator deals these sizes to the parties.
2. *Candidates*. A key puts every row into one group: by its value of one categorical feature (a candidate per feature),
   or by the rarest value it has of any. Without categorical features: by tenths of the ranks of one numeric feature.
   Groups are laid out by their mean label, the rows of a group at random, and the line is cut into pieces of the sizes
   drawn. So a group is whole at one party, but for those at the cuts.
3. *Choice*. The candidate with the greatest `divergence`. Labels differ as far as they follow the categories: sorting
   by the label itself would leave parties of a single class and nearly the same categories.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.table import Table

Codes = NDArray[np.int64]
BINS = 10


def divergent_owners(table: Table, parties: int, minimum: int, rng: np.random.Generator) -> Codes:
    """(rows,) the party of each row."""
    sizes = rng.permutation(_sizes(len(table), parties, minimum))
    tie = rng.permutation(len(table))
    labels = label_groups(table)
    categorical = [_codes(table.values(c)) for c in table.schema.categorical]
    candidates = [_cut(key, labels, sizes, tie) for key in _keys(table, categorical)]
    return max(candidates, key=lambda owners: divergence(owners, categorical, labels))


def divergence(owners: Codes, categorical: list[Codes], labels: Codes) -> float:
    """How much parties differ, 0 to 2: the mean over pairs of parties of two distances, each at most 1.

    The Jaccard distance between the sets of values that they hold, averaged over the categorical features, and the
    total variation distance between their labels.
    """
    pairs = np.triu_indices(int(owners.max()) + 1, k=1)
    values = np.mean([_jaccard(_counts(owners, codes) > 0)[pairs].mean() for codes in categorical] or [0.0])
    rates = _counts(owners, labels) / np.bincount(owners)[:, None]
    variation = np.abs(rates[:, None] - rates).sum(axis=2) / 2
    return float(values + variation[pairs].mean())


def _jaccard(held: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(parties, parties) distances between the rows of (parties, values)."""
    common = held.astype(np.int64) @ held.T
    size = held.sum(axis=1)
    distances: NDArray[np.float64] = 1 - common / (size[:, None] + size - common)
    return distances


def label_groups(table: Table) -> Codes:
    """(rows,) the class of each row; for a regression, which tenth of the target's ranks it is in."""
    labels = table.labels()
    return _tenths(labels.astype(np.float64)) if table.schema.task == "regression" else labels.astype(np.int64)


def _sizes(rows: int, parties: int, minimum: int) -> Codes:
    weights = 1 / np.arange(1, parties + 1)
    edges = np.rint(np.cumsum(weights / weights.sum()) * (rows - parties * minimum)).astype(np.int64)
    sizes: Codes = np.diff(edges, prepend=0) + minimum
    return sizes


def _keys(table: Table, categorical: list[Codes]) -> Iterator[Codes]:
    """Each candidate's group of every row."""
    if not categorical:
        yield from (_tenths(column) for column in table.numbers().T)
        return
    yield from categorical
    yield _rarest(categorical)


def _rarest(categorical: list[Codes]) -> Codes:
    """(rows,) the rarest value of each row, numbered over all features."""
    frequency = np.stack([np.bincount(codes)[codes] for codes in categorical])  # (features, rows)
    offsets = np.cumsum([0, *(codes.max() + 1 for codes in categorical[:-1])])
    numbered = np.stack(categorical) + offsets[:, None]
    return _codes(np.take_along_axis(numbered, frequency.argmin(axis=0)[None], axis=0)[0])


def _cut(key: Codes, labels: Codes, sizes: Codes, tie: Codes) -> Codes:
    """Owners of rows laid out by the mean label of their group and cut into pieces of `sizes`."""
    means = np.bincount(key, labels) / np.bincount(key)
    order = np.lexsort((tie, key, means[key]))
    owners = np.empty(len(key), np.int64)
    owners[order] = np.repeat(np.arange(len(sizes)), sizes)
    return owners


def _counts(owners: Codes, codes: Codes) -> Codes:
    """(parties, values) how often each party holds each value."""
    counts = np.zeros((owners.max() + 1, codes.max() + 1), np.int64)
    np.add.at(counts, (owners, codes), 1)
    return counts


def _codes(values: NDArray[np.object_] | Codes) -> Codes:
    return pd.factorize(values, sort=True)[0].astype(np.int64)


def _tenths(numbers: NDArray[np.float64]) -> Codes:
    """(rows,) which tenth of the ranks each number is in, equal numbers together; numbered without gaps."""
    ranks = pd.Series(numbers).rank(method="min").to_numpy() - 1
    return _codes((ranks * BINS // len(ranks)).astype(np.int64))
