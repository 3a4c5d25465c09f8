"""What observers know of a client's rows before they see its update: messages of preprocessing, and their own rows.

* What the client said of itself: mean and deviation of its columns (`zscore.mean`, `-variance`), where means of one-hot
  columns are how often it holds each value, extremes (`minmax.local`), which values it holds (`dictionary.local`), how
  many (`local.sizes`), or whole rows (`pooled.columns`, `pooled.categorical`).
* How it scales: a column that a client scales by its own mean and deviation has mean 0 and deviation 1, and by its own
  extremes it lies between 0 and 1, whatever these are.
* Rows that the adversary is granted, and its observers' own: those of another client are like them, as far as clients
  are alike. Where every client has codes and scales of its own, each of the known ones is encoded as it would encode
  itself (`own_terms`).

Statements with noise and secure sums are not read here. Of several clients, whose rows only a sum holds, the facts are
those of their rows together.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge, KnownRows
from leakledger.attacks.observed.own_terms import in_terms_of_clients, numbered
from leakledger.attacks.observed.stated import moments
from leakledger.preprocess.messages import (
    GlobalMeans,
    LocalDictionary,
    LocalExtremes,
    LocalMeans,
    LocalSizes,
    LocalSquares,
    PooledCategories,
    PooledColumns,
)
from leakledger.preprocess.views import Message, View

BEFORE = (
    LocalMeans,
    GlobalMeans,
    LocalSquares,
    LocalExtremes,
    LocalDictionary,
    LocalSizes,
    PooledColumns,
    PooledCategories,
)
"""The kinds of message that say something of a client's rows before it trains."""

Column = NDArray[np.float64] | NDArray[np.str_] | NDArray[np.int64]


@dataclass(frozen=True)
class RowFacts:
    """Facts about rows, by feature; numbers in raw units, or in encoded ones where no scale is public.

    `moments`: (mean, standard deviation). `extremes`: (least, greatest). `shares` (candidates,): how often each
    candidate of a category occurs. `held`: the values that do. `sizes`: how many do, where they are numbered from 0 on
    and have no names. `rows`: columns of n whole rows, aligned, in which missing cells are NaN, empty, or (of values
    without names, which are numbers of candidates) -1, and their `labels` (n,), where these are known; `rows_of`: whose
    they are, the client's itself, of the population, or observers'.
    """

    moments: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shares: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, Column] = field(default_factory=dict, repr=False)
    labels: NDArray[np.int64] | None = field(default=None, repr=False)
    rows_of: Literal["client", "population", "observers"] = "observers"


NOTHING = RowFacts()


def row_facts(view: View, knowledge: AuxiliaryKnowledge, clients: Sequence[str]) -> RowFacts:
    """What the observers know of the rows of `clients` together. A fact that some of these clients did not state is
    none.
    """
    return every_row_facts(view, knowledge, [clients])[0]


def every_row_facts(view: View, knowledge: AuxiliaryKnowledge, each: Sequence[Sequence[str]]) -> list[RowFacts]:
    """The same of `each` of several sets of clients; known rows, which serve all of them, are encoded once."""
    known = knowledge.rows or _own(view)
    columns = in_terms_of_clients(view, known)
    rows_of: Literal["population", "observers"] = "population" if knowledge.rows else "observers"
    return [
        _of_clients(view, clients, RowFacts(rows=columns, labels=known.labels, rows_of=rows_of)) for clients in each
    ]


def _of_clients(view: View, clients: Sequence[str], others: RowFacts) -> RowFacts:
    """What is known of these clients, and rows of `others` where they did not hand over their own."""
    pooled = _pooled(view, clients)
    return RowFacts(
        _scaled_alike(view, _moments(view, clients), (0.0, 1.0), "zscore"),
        _scaled_alike(view, _extremes(view, clients), (0.0, 1.0), "minmax"),
        _shares(view, clients),
        _held(view, clients),
        _sizes(view, clients),
        pooled or others.rows,
        None if pooled else others.labels,
        "client" if pooled else others.rows_of,
    )


def _scaled_alike(
    view: View, told: dict[str, tuple[float, float]], known: tuple[float, float], by: str
) -> dict[str, tuple[float, float]]:
    """What was told, and what is known of columns that each client scales by figures of its own."""
    scaler, layout = view.public.scaler, view.public.layout
    if scaler.name != "local" or scaler.options.get("by", "zscore") != by or layout is None:
        return told
    return {**told, **{b.feature: known for b in layout.numeric if not b.scaled}}


def _messages(view: View, kind: type, clients: Collection[str]) -> list[Message]:
    """The last message of that kind of each client; none where one of them sent none."""
    last = {m.sender: m for m in view.received(kind) if m.sender in clients}
    return list(last.values()) if set(last) == set(clients) else []


def _moments(view: View, clients: Collection[str]) -> dict[str, tuple[float, float]]:
    """Mean and deviation of the clients' rows together: of each, what is `stated`."""
    told: dict[str, dict[str, dict[str, float]]] = {}
    for claim in moments(view):
        if claim.party in clients:
            told.setdefault(claim.feature, {}).setdefault(claim.statistic, {})[claim.party] = claim.estimate
    counts = told.pop("", {}).get("count", {})
    found = {}
    for feature, each in told.items():
        if any(each.get(s, {}).keys() != set(clients) for s in ("mean", "std")) or sum(counts.values()) <= 0:
            continue
        rows, mean, std = (np.array([d[c] for c in clients]) for d in (counts, each["mean"], each["std"]))
        centre = float(rows @ mean / rows.sum())
        found[feature] = centre, float(np.sqrt(rows @ (std**2 + (mean - centre) ** 2) / rows.sum()))
    return {f: told for f, told in found.items() if np.isfinite(told).all()}


def _extremes(view: View, clients: Collection[str]) -> dict[str, tuple[float, float]]:
    layout, told = view.public.layout, [m.payload for m in _messages(view, LocalExtremes, clients)]
    if layout is None or not told:
        return {}
    low, high = np.min([t.minimum for t in told], axis=0), np.max([t.maximum for t in told], axis=0)
    return {b.feature: (float(low[b.start]), float(high[b.start])) for b in layout.numeric if b.start < len(low)}


def _shares(view: View, clients: Collection[str]) -> dict[str, NDArray[np.float64]]:
    """Of categories that are encoded one-hot, whose columns are scaled, too: the mean of a column of zeros and ones is
    how often there is a one.
    """
    layout, told = view.public.layout, [m.payload for m in _messages(view, LocalMeans, clients)]
    rows = np.array([max(t.count, 0) for t in told], np.float64)
    if layout is None or not rows.sum() or any(len(t.mean) != layout.width for t in told):
        return {}
    mean = np.clip(rows @ np.stack([t.mean for t in told]) / rows.sum(), 0.0, 1.0)
    found = {b.feature: mean[b.start : b.start + b.size] for b in layout.categorical if b.codes is None}
    return {f: own / own.sum() for f, own in found.items() if own.sum() > 0}


def _held(view: View, clients: Collection[str]) -> dict[str, frozenset[str]]:
    told = [m.payload.values for m in _messages(view, LocalDictionary, clients)]
    return {f: frozenset(v for t in told for v in t.get(f, ())) for f in dict.fromkeys(f for t in told for f in t)}


def _sizes(view: View, clients: Collection[str]) -> dict[str, int]:
    told = [m.payload.sizes for m in _messages(view, LocalSizes, clients)]
    return {f: max(t.get(f, 0) for t in told) for f in dict.fromkeys(f for t in told for f in t)}


def _pooled(view: View, clients: Collection[str]) -> dict[str, Column]:
    """The rows that these clients handed over, as far as layout names their columns."""
    layout = view.public.layout
    numbers, texts = (_messages(view, kind, clients) for kind in (PooledColumns, PooledCategories))
    columns: dict[str, Column] = {}
    if numbers and layout is not None:
        table = np.concatenate([m.payload.rows for m in numbers])
        columns |= {b.feature: table[:, b.start] for b in layout.numeric if b.start < table.shape[1]}
    if texts and (not numbers or [m.sender for m in texts] == [m.sender for m in numbers]):
        told = [m.payload.values for m in texts]
        columns |= {f: np.array([v for values in told for v in values[f]], np.str_) for f in told[0]}
    return columns if len({len(c) for c in columns.values()}) == 1 else {}


def _own(view: View) -> KnownRows:
    """The rows of observers that are clients."""
    tables = [p["columns"] for p in view.inputs.values() if isinstance(p, Mapping) and p.get("columns")]
    shared = [f for f in tables[0] if all(f in t for t in tables)] if tables else []
    parts: dict[str, list[Any]] = {f: [_plain(t[f]) for t in tables] for f in shared}
    columns = {f: np.concatenate(own) for f, own in parts.items()}
    if len({len(c) for c in columns.values()}) != 1:
        return KnownRows()
    clients = np.repeat(np.arange(len(tables)), [len(part) for part in parts[shared[0]]])
    schema = view.public.schema
    return KnownRows(columns, _classes(columns.get(schema.get("target", "")), schema.get("classes")), clients)


def _classes(target: Column | None, classes: Sequence[str] | None) -> NDArray[np.int64] | None:
    """(n,) the class numbers of a column of class names; None where it is none."""
    if target is None or not classes or target.dtype.kind != "U":
        return None
    found = numbered(target, classes)
    return found if (found >= 0).all() else None


def _plain(column: NDArray[np.float64] | Mapping[str, Sequence[object]]) -> Column:
    """A column of a table as `Table.to_plain` has it; a missing text is empty."""
    if not isinstance(column, Mapping):
        return np.asarray(column, np.float64)
    names = np.array([*map(str, column["values"]), ""], np.str_)
    return names[np.asarray(column["codes"], np.int64)]
