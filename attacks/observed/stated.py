"""What messages state in the clear, rearranged: dictionaries, sizes, counts, means, deviations, extremes.

Exact: the claims are what the messages say. Column statistics are named by the public layout, whose numeric blocks come
first and in the order of the scaler's columns. Codes of a categorical feature may stand in such blocks too; statistics
of codes are none of the feature, and nothing is claimed of them here.

From `zscore.mean` (n, mean m) and `zscore.variance` (S, squared deviations from the announced global mean M) follows
the client's own variance: S/n - (m - M)². It is exact while rounding leaves it its digits: of a column that is
constant, or far from the global mean beside its deviation, the difference is rounding itself, and only a bound is
claimed. So it is of numbers so small that their squares are none (`vanished`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from leakledger.attacks.base import Statistic, StatisticClaim, VocabularyClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.preprocess.messages import (
    GlobalMeans,
    LocalDictionary,
    LocalExtremes,
    LocalLogs,
    LocalMeans,
    LocalRows,
    LocalSizes,
    LocalSquares,
    PooledCategories,
    PooledColumns,
)
from leakledger.preprocess.views import Message, NumericBlock, View

STATED_STATISTICS = (
    LocalSizes,
    LocalMeans,
    GlobalMeans,
    LocalSquares,
    LocalExtremes,
    PooledColumns,
    LocalRows,
    LocalLogs,
)
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a sum, for the root of the number of its terms
EXACT = 1e-9  # of a deviation: more that rounding may have changed is no exact claim
VANISHED = 1e-315  # of a mean of squares: what is lost where these are below float64's numbers, with some to spare
NEAR_ZERO = 1e-140  # other numbers than one further from 0 than this lie so far from it that their squares are kept

STATED = (LocalDictionary, PooledCategories, *STATED_STATISTICS)


def stated(view: View) -> list[StatisticClaim | VocabularyClaim]:
    """Everything that outside parties state of themselves in messages which the observers can read."""
    return [
        *vocabularies(view),
        *sizes(view),
        *moments(view),
        *extremes(view),
        *columns(view),
        *row_counts(view),
    ]


def vocabularies(view: View) -> Iterable[VocabularyClaim]:
    for kind in (LocalDictionary, PooledCategories):
        for m in view.received(kind):
            for feature, values in m.payload.values.items():
                yield VocabularyClaim(m.sender, feature, tuple(sorted(set(values))), (m.sequence,), certain=True)


def dictionary_sizes(view: View) -> Iterable[StatisticClaim]:
    """How many values the dictionaries have."""
    for kind in (LocalDictionary, PooledCategories):
        for m in view.received(kind):
            for feature, values in m.payload.values.items():
                yield _exact(m, feature, "size", len(set(values)))


def sizes(view: View) -> Iterable[StatisticClaim]:
    for m in view.received(LocalSizes):
        for feature, size in m.payload.sizes.items():
            yield _exact(m, feature, "size", size)


def moments(view: View) -> Iterable[StatisticClaim]:
    squares = {m.sender: m for m in view.received(LocalSquares)}
    announced = next((m.payload.mean for m in view.readable(GlobalMeans)), None)
    for m in view.received(LocalMeans):
        count, means = m.payload.count, m.payload.mean
        yield _exact(m, "", "count", count)
        yield from _by_feature(view, m, "mean", means)
        if m.sender in squares and announced is not None:
            yield from _deviations(view, m, squares[m.sender], announced)


def _deviations(view: View, m: Message, squared: Message, announced: Any) -> Iterable[StatisticClaim]:
    """The client's own deviations: exact, or with the interval that rounding of sums over its rows leaves open."""
    count, means = m.payload.count, m.payload.mean
    around, away = squared.payload.squares / count, means - announced
    lost = ROUNDING * np.sqrt(count) * (around + away**2 + np.abs(away) * (np.abs(means) + np.abs(announced)))
    lost += vanished(means, announced, np.sqrt(around))
    variance = np.maximum(around - away**2, 0)
    within = [np.sqrt(variance), np.sqrt(np.maximum(variance - lost, 0)), np.sqrt(variance + lost)]
    std, low, high = np.where(lost <= 2 * EXACT * variance, within[0], within)
    for block in _blocks(view, std):
        x, least, most = (float(ends[block.start]) for ends in (std, low, high))
        yield StatisticClaim(m.sender, block.feature, "std", x, least, most, (m.sequence, squared.sequence))


def vanished(*sizes: Any) -> Any:
    """How much a mean of squares may lack of numbers whose mean, centre and deviation are `sizes`, since float64 has no
    squares of numbers below about 1e-162: their deviation is 0 though they differ. Nothing where all `sizes` are 0.
    """
    largest = np.max(np.abs(np.broadcast_arrays(*sizes)), axis=0)
    return np.where((largest > 0) & (largest < NEAR_ZERO), VANISHED, 0.0)


def extremes(view: View) -> Iterable[StatisticClaim]:
    for m in view.received(LocalExtremes):
        yield from _by_feature(view, m, "minimum", m.payload.minimum)
        yield from _by_feature(view, m, "maximum", m.payload.maximum)


def columns(view: View) -> Iterable[StatisticClaim]:
    for m in view.received(PooledColumns):
        table = m.payload.rows
        yield _exact(m, "", "count", len(table))
        if not len(table):
            continue
        named: Mapping[Statistic, Any] = {
            "mean": table.mean(0),
            "std": _deviations_of(table),
            "minimum": table.min(0),
            "maximum": table.max(0),
        }
        for statistic, values in named.items():
            yield from _by_feature(view, m, statistic, values)


def _deviations_of(table: Any) -> Any:
    """(d,) the deviations of columns, also of numbers so small that their squares are none (`vanished`)."""
    largest = np.abs(table).max(0)
    unit = np.where((largest > 0) & (largest < NEAR_ZERO), largest, 1.0)
    return (table / unit).std(0) * unit


def row_counts(view: View) -> Iterable[StatisticClaim]:
    """Searches begin with the client's row count."""
    for m in view.received(LocalRows):
        yield _exact(m, "", "count", m.payload.count)
    for m in view.received(LocalLogs):
        yield _exact(m, "", "count", m.payload.count)


def _exact(message: Message, feature: str, statistic: Statistic, value: float, *more: int) -> StatisticClaim:
    number = float(value)
    return StatisticClaim(message.sender, feature, statistic, number, number, number, (message.sequence, *more))


def _by_feature(view: View, m: Message, statistic: Statistic, values: Any, *more: int) -> Iterable[StatisticClaim]:
    """One claim per numeric feature; other columns are encoded categories."""
    for block in _blocks(view, values):
        yield _exact(m, block.feature, statistic, values[block.start], *more)


def _blocks(view: View, values: Any) -> list[NumericBlock]:
    """The columns of the table's numeric features that `values` has a number for."""
    known, blocks = numeric_names(view.public), view.public.layout.numeric if view.public.layout else ()
    return [b for b in blocks if b.feature in known and b.start < len(values)]
