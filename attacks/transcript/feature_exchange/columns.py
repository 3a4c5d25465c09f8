"""Columns that are told whole: a transformation that can be undone, a bin for each record, the labels."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import EPS, LOST, Column, Solved, Unknown, sizes
from leakledger.attacks.transcript.feature_exchange.exchanged import column, tasks
from leakledger.preprocess.messages import BinNumbers, ClassLabels, NewColumn
from leakledger.preprocess.views import View

Relation = Literal["exact", "magnitude", "estimate", "magnitude-estimate", "scaled"]


def _logit(x: Column) -> Column:
    return np.asarray(np.log(x) - np.log1p(-x))


INVERSES: Mapping[str, tuple[Callable[[Column], Column], Relation]] = MappingProxyType(
    {
        "tanh": (np.arctanh, "exact"),
        "sigmoid": (_logit, "exact"),
        "log": (np.exp, "magnitude"),
        "square-root": (np.square, "magnitude"),
        "square": (np.sqrt, "magnitude"),
        "round": (np.asarray, "estimate"),
        "zscore": (np.asarray, "scaled"),
        "normalisation": (np.asarray, "scaled"),
    }
)
"""What undoes a transformation of one column, and what it leaves open, the best first. Where a tanh or sigmoid is so
near to its bounds that rounding moves the value by more than a millionth, there is no claim. Frequencies and isotonic
steps do not say which value is which.
"""


def _undone(transformation: str, told: Column) -> tuple[Column, Relation, Column]:
    """The values (n,) that were transformed, NaN where they are lost, how they stand to the column, and what rounding
    moves each of them by.
    """
    inverse, relation = INVERSES[transformation]
    rounding = EPS * (1.0 if transformation == "sigmoid" else np.abs(told))  # which is computed as a sum with 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values, moved = inverse(told), inverse(told - rounding)
        off = np.abs(values - moved)
        kept = off <= LOST * sizes(values, off)
    return np.where(np.isfinite(values) & kept, values, np.nan), relation, off


def undone_whole(view: View) -> dict[Unknown, Solved]:
    """The columns that a transformation of one column tells exactly, in every record."""
    asked, found = tasks(view), dict[Unknown, Solved]()
    for m in view.received(NewColumn):
        task = asked.get(m.round)
        if task is not None and task.transformation in INVERSES:
            values, relation, off = _undone(task.transformation, np.asarray(m.payload.values, np.float64))
            if relation == "exact" and np.isfinite(values).all():
                found.setdefault(column(m.sender, task.features[0]), Solved(values, (m.sequence,), noise=off))
    return found


def told_columns(view: View) -> Iterator[ColumnClaim]:
    """One claim for each column, from the transformation that leaves least open."""
    asked, best = tasks(view), dict[tuple[str, str], tuple[int, ColumnClaim]]()
    for m in view.received(NewColumn):
        task = asked.get(m.round)
        if task is not None and task.transformation in INVERSES:
            values, relation, _ = _undone(task.transformation, np.asarray(m.payload.values, np.float64))
            rank, key = list(INVERSES).index(task.transformation), (m.sender, task.features[0])
            rank += len(INVERSES) if np.isnan(values).mean() > 0.5 else 0
            if key not in best or rank < best[key][0]:
                best[key] = rank, ColumnClaim(*key, values, (m.sequence,), relation)
    for m in view.received(BinNumbers):
        if m.round in asked:
            task = asked[m.round]
            key = (m.sender, task.features[task.devices.index(m.sender)])
            claim = ColumnClaim(*key, m.payload.numbers.astype(np.float64), (m.sequence,), "scaled")
            best.setdefault(key, (2 * len(INVERSES), claim))
    yield from (claim for _, claim in best.values())
    target = str(view.public.schema.get("target", ""))
    seen: set[str] = set()
    for m in view.received(ClassLabels):
        if target and m.sender not in seen:
            seen.add(m.sender)
            yield ColumnClaim(m.sender, target, m.payload.labels.astype(np.float64), (m.sequence,))
