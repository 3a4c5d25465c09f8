"""Columns that are told whole: a transformation that can be undone, a bin for each record, the labels."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import Column
from leakledger.attacks.transcript.feature_exchange.exchanged import tasks
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
"""What undoes a transformation of one column, and what it leaves open, the best first. A saturated tanh or sigmoid is
infinite: no claim. Frequencies and isotonic steps do not say which value is which.
"""


def told_columns(view: View) -> Iterator[ColumnClaim]:
    """One claim for each column, from the transformation that leaves least open."""
    asked, best = tasks(view), dict[tuple[str, str], tuple[int, ColumnClaim]]()
    for m in view.received(NewColumn):
        task = asked.get(m.round)
        if task is not None and task.transformation in INVERSES:
            inverse, relation = INVERSES[task.transformation]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                values = inverse(np.asarray(m.payload.values, np.float64))
            values = np.where(np.isfinite(values), values, np.nan)
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
