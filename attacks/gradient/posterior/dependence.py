"""Which values go together, learnt from rows that the adversary knows: a tree over the cells of a row and its label.

Of all distributions in which every cell depends on one other at most, that of greatest likelihood for some rows is the
spanning tree with the most mutual information between neighbours (Chow and Liu 1968). Numbers of more than a few values
are taken in bins of equal probability under their prior. Counts of pairs are smoothed towards independence, as if there
were half a row more for each pair of bins; an edge that does not pay for its parameters (the criterion of Akaike 1974)
is left out, so that few rows make few edges. Tables are scaled to the marginals that the cells have anyway (iterative
proportional fitting), so that links add dependence and change nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch

from leakledger.attacks.gradient.posterior.cells import Array, Cell, Ints, Link, places
from leakledger.attacks.observed.row_facts import RowFacts
from leakledger.preprocess.views import Block, FeatureLayout

BINS, FEW = 8, 32  # of a number; one that has not more values than these few has them for bins
FITTED = 30  # steps of proportional fitting


def known_rows(layout: FeatureLayout, cells: Sequence[Cell], facts: RowFacts) -> Ints:
    """(n, F) which value each cell of the known rows has; -1 where that is not known."""
    blocks: list[Block] = [*layout.categorical, *layout.numeric]
    found = [places(b, facts, c.raw) for b, c in zip(blocks, cells, strict=True)]
    rows = max((len(column) for column in found if column is not None), default=0)
    columns = [np.full(rows, -1, np.int64) if column is None else column for column in found]
    return np.stack(columns, -1) if columns else np.zeros((0, 0), np.int64)


def linked(cells: Sequence[Cell], rows: Ints, labels: Ints | None = None, classes: int = 0) -> list[Cell]:
    """The cells with links along the tree that `rows` (n, F) show. Their `labels` (n,), where they are known, are one
    more node of it, of so many `classes`: cells have links to it, as to cell number F.
    """
    bins = [_bins(c) for c in cells]
    margins = [_margin(c, b) for b, c in zip(bins, cells, strict=True)]
    if labels is not None and len(labels) == len(rows):
        rows = np.concatenate([rows, labels[:, None]], 1)
        bins.append(np.arange(classes))
        counts = np.bincount(labels, minlength=classes).astype(np.float64)
        margins.append((counts + 0.5) / (counts + 0.5).sum())
    tables: dict[tuple[int, int], Array] = {}
    gains: dict[tuple[int, int], float] = {}
    for f, g in combinations(range(len(bins)), 2):
        both = (rows[:, f] >= 0) & (rows[:, g] >= 0)
        if min(len(margins[f]), len(margins[g])) < 2 or not both.any():
            continue
        table = _together(bins[f][rows[both, f]], bins[g][rows[both, g]], margins[f], margins[g])
        gain = both.sum() * _information(table) - (len(margins[f]) - 1) * (len(margins[g]) - 1)
        if gain > 0:
            tables[f, g], gains[f, g] = table, gain
    links: list[list[Link]] = [[] for _ in bins]
    device = cells[0].log_prior.device if cells else None
    for f, g in _tree(gains, len(bins)):
        ratio = np.log(_fitted(tables[f, g], margins[f], margins[g]) / np.outer(margins[f], margins[g]))
        links[f].append(_link(g, bins[f], bins[g], ratio, device))
        links[g].append(_link(f, bins[g], bins[f], ratio.T, device))
    return [replace(c, links=tuple(own)) for c, own in zip(cells, links, strict=False)]


def _bins(cell: Cell) -> Ints:
    """(n,) the bin of each value: a candidate is its own."""
    if cell.raw is None or cell.size <= FEW:
        return np.arange(cell.size)
    p = np.exp(cell.log_prior.double().cpu().numpy())
    middle = (np.cumsum(p) - p / 2) / p.sum()
    return np.asarray(np.unique((middle * BINS).astype(np.int64), return_inverse=True)[1].reshape(-1))


def _margin(cell: Cell, bins: Ints) -> Array:
    """(bins,) their shares."""
    shares: Array = np.bincount(bins, np.exp(cell.log_prior.double().cpu().numpy())).astype(np.float64)
    return np.asarray(shares / shares.sum())


def _together(one: Ints, other: Ints, p: Array, q: Array) -> Array:
    """(bins, bins) the smoothed shares of pairs, from those in rows (n,)."""
    counts = np.zeros((len(p), len(q)))
    np.add.at(counts, (one, other), 1.0)
    more = counts.size / 2
    return np.asarray((counts + more * np.outer(p, q)) / (len(one) + more))


def _information(table: Array) -> float:
    """Mutual information in nats."""
    table = table / table.sum()
    apart = np.outer(table.sum(1), table.sum(0))
    seen = table > 0
    return float((table[seen] * np.log(table[seen] / apart[seen])).sum())


def _tree(gains: dict[tuple[int, int], float], cells: int) -> list[tuple[int, int]]:
    """The pairs of a spanning forest of greatest total gain (Kruskal 1956)."""
    group, chosen = list(range(cells)), []
    for f, g in sorted(gains, key=lambda pair: -gains[pair]):
        if group[f] != group[g]:
            chosen.append((f, g))
            old, new = group[g], group[f]
            group = [new if x == old else x for x in group]
    return chosen


def _fitted(table: Array, p: Array, q: Array) -> Array:
    """The table scaled to rows of shares `p` and columns of shares `q`."""
    for _ in range(FITTED):
        table = table * (q / table.sum(0))
        table = table * (p / table.sum(1))[:, None]
    return table


def _link(other: int, own: Ints, others: Ints, ratio: Array, device: torch.device | None) -> Link:
    return Link(
        other,
        torch.tensor(own, device=device),
        torch.tensor(others, device=device),
        torch.tensor(ratio, dtype=torch.float32, device=device),
    )
