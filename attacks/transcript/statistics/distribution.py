"""Quantiles of a party, from how many of its values lie below the points of a search for quantiles.

Source of the leak: "Bridging Local and Federated Data Normalization in Federated Learning", algorithm 3, whose counts
are points of the distribution function of whoever sends them. Of n values, with a of them at or below a point M, the
value of rank k (from 0) is at most M where a > k; and at least M where no more than k are below it. So every count
bounds the quantiles that lie between the values of rank floor((n - 1) p) and ceil((n - 1) p), for certain.

* `quantiles.local` tells the server each client's counts at every point.
* All clients but one, who know their own counts, have those of the last one from `quantiles.global`. Where that is not
  told, the points betray it: the next one is above this one if and only if less than the rank sought are below it.

* Fewer observers have the counts of several clients together. Where none of these rows are below a point, or all are at
  or below, that is so of each client: a column that the observers' rows alone spread is searched where only these are.

The bounds at the beginning are the public ones of the column. The least and the greatest value are bounded in the same
way, and claimed where the bounds are `NEAR` each other: a search for both ends (`ppf-minmax`) leaves the extremes of
whoever has them as little room as it leaves the global ones.

So is every rank, and hence mean and deviation: of a column of few whole numbers, which is searched between all of them,
the counts are the histogram. With bounds l and u of each value, c the mean of their middles and h that of half widths,

    |mean - c| <= h    and    mean of min (x - c)² - h² <= variance <= mean of max (x - c)²    over x from l to u
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.attacks.transcript.statistics.own import OwnTable, latest_before, rows_of_the_last, the_one_outside
from leakledger.attacks.transcript.statistics.quartiles import LEVELS
from leakledger.preprocess.messages import GlobalRanks, LocalExtremes, LocalRanks, LocalRows, SearchPoints, TotalRows
from leakledger.preprocess.views import Message, NumericBlock, View

RANKED = (LocalRanks, GlobalRanks, SearchPoints, TotalRows)
ENDS = (0.0, 1.0)
EXTREMES: Mapping[Statistic, float] = {"minimum": 0.0, "maximum": 1.0}
NEAR = 0.01  # of the public range of the column, or half a deviation of the own rows: wider bounds say less than these
MOST_ROWS = 10**7  # of which every rank is bounded by itself
ROUNDING = 1e-9  # of the largest number, of means over rows
Ints = NDArray[np.int64]
Ends = tuple[float | None, float | None, int]  # of a column, None where open, and the message that says so


@dataclass(frozen=True)
class Counted:
    """About one party, at a point of a column: at most so many values are below it, at least so many at or below."""

    column: int
    point: float
    most_below: float
    least_at_most: float
    evidence: int


def distribution_claims(view: View, tables: Mapping[str, OwnTable]) -> Iterable[StatisticClaim]:
    """Claims about senders of counts, and about the one client outside. Raises Unreadable as tables do."""
    rows = {m.sender: m for m in view.received(LocalRows)}
    for party, told in rows.items():
        ranks = [m for m in view.received(LocalRanks) if m.sender == party]
        counted = [c for m in ranks for c in _stated(view, m, told)]
        yield from _quantiles(view, party, told.payload, counted, told.sequence, tables)
    last, total = the_one_outside(view), next(view.readable(TotalRows), None)
    if last is None and not rows and total is not None and tables:
        yield from _of_several(view, tables, total)
    if last is not None and last not in rows and total is not None and tables:
        count = rows_of_the_last(last, tables, total)
        yield count
        counted = [*_told(view, tables, total.payload), *_betrayed(view, tables, total.payload)]
        yield from _quantiles(view, last, LocalRows(int(count.estimate)), counted, total.sequence, tables)


def _of_several(view: View, tables: Mapping[str, OwnTable], total: Message) -> Iterator[StatisticClaim]:
    """Of each of several clients outside: above a point that none of their rows is below are all of each one's, and
    likewise at or below.
    """
    left = total.payload.count - sum(t.rows for t in tables.values())
    if left < 1:
        return
    every = [*_told(view, tables, total.payload), *_betrayed(view, tables, total.payload)]
    ends = [
        replace(
            c, most_below=0.0 if c.most_below <= 0 else np.inf, least_at_most=1.0 if c.least_at_most >= left else 0.0
        )
        for c in every
    ]
    for party in (c for c in view.public.clients if c not in view.observers):
        bounds = _quantiles(view, party, LocalRows(1), ends, total.sequence, tables)  # one row stands for any
        yield from (c for c in bounds if c.high - c.low <= _near_of(view, c.feature, tables))


def points_of(view: View, number: int) -> Message | None:
    """The points that were searched when message `number` was sent."""
    return latest_before(view, SearchPoints, number)


def _stated(view: View, m: Message, told: Message) -> Iterator[Counted]:
    if (points := points_of(view, m.sequence)) is None:
        return
    at_most = told.payload.count - m.payload.above
    for (q, column), point in np.ndenumerate(points.payload.point):
        yield Counted(column, float(point), int(m.payload.below[q, column]), int(at_most[q, column]), m.sequence)


def _own(view: View, tables: Mapping[str, OwnTable], point: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """(quantiles, columns) how many of the observers' values are below, as the search counts it, and at or below."""
    less, at_most = (np.zeros(point.shape, np.int64) for _ in range(2))
    for c, name in enumerate(numeric_names(view.public)[: point.shape[1]]):
        values = np.sort(np.concatenate([t.column(name) for t in tables.values()]))
        less[:, c], at_most[:, c] = (np.searchsorted(values, point[:, c], side) for side in ("left", "right"))
    return (less if _strict(view) else at_most), at_most


def _strict(view: View) -> bool:
    return view.public.scaler.options.get("at_points") == "left-out"


def _told(view: View, tables: Mapping[str, OwnTable], total: TotalRows) -> Iterator[Counted]:
    for m in view.readable(GlobalRanks):
        if (points := points_of(view, m.sequence)) is not None:
            below, at_most = _own(view, tables, points.payload.point)
            most, least = m.payload.below - below, total.count - m.payload.above - at_most
            for (q, column), point in np.ndenumerate(points.payload.point):
                yield Counted(column, float(point), int(most[q, column]), int(least[q, column]), m.sequence)


def _betrayed(view: View, tables: Mapping[str, OwnTable], total: TotalRows) -> Iterator[Counted]:
    """From each point to the next: where the search went on. A point that stays and is found has the rank itself,
    unless float64 leaves the search nowhere else to go.
    """
    steps = list({m.sequence: m for m in view.readable(SearchPoints)}.values())
    distinct = [m for i, m in enumerate(steps) if i == 0 or _differ(steps[i - 1], m)]
    place = np.array(_levels(steps))[:, None] * (total.count - 1) + 1
    rank = np.floor(place)
    for before, now, then in zip([None, *distinct], distinct, distinct[1:], strict=False):
        point, later = now.payload.point, then.payload.point
        below, at_most = _own(view, tables, point)
        most = np.where(later > point, rank - 1 - below, np.inf)
        least = np.where(later < point, rank - below, -np.inf)
        hit = (later == point) & then.payload.found & _halved(before, point)
        most, least = np.where(hit, rank - (place == rank) - below, most), np.where(hit, rank - at_most, least)
        for (q, column), x in np.ndenumerate(point):
            if not now.payload.found[q, column]:
                yield Counted(column, float(x), float(most[q, column]), float(least[q, column]), then.sequence)


def _halved(before: Message | None, point: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(quantiles, columns) whether float64 has points between this one and the ends of the range that it halves, which
    are as far away as the point before. At the first point there is a column without any, which is one number.
    """
    return np.array(True) if before is None else np.abs(point - before.payload.point) > 2 * np.spacing(np.abs(point))


def _levels(steps: Sequence[Message]) -> tuple[float, ...]:
    """What is searched: three quartiles, or both ends (`ppf-minmax`)."""
    searched = len(steps[0].payload.point) if steps else len(LEVELS)
    return tuple(map(float, LEVELS)) if searched == len(LEVELS) else ENDS


def _differ(one: Message, other: Message) -> bool:
    """Whether they are of different rounds: a broadcast is one message to each."""
    a, b = one.payload, other.payload
    return not (np.array_equal(a.point, b.point) and np.array_equal(a.found, b.found))


def _quantiles(
    view: View,
    party: str,
    rows: LocalRows,
    counted: Iterable[Counted],
    first: int,
    tables: Mapping[str, OwnTable],
) -> Iterator[StatisticClaim]:
    by_column: dict[int, list[Counted]] = {}
    for one in counted:
        by_column.setdefault(one.column, []).append(one)
    for block in view.public.layout.numeric if view.public.layout else ():
        if block.start not in by_column or rows.count < 1:
            continue
        known, ends = by_column[block.start], _ends(view, party, block, first)
        yield from _moments(party, block, ends, rows.count, known, first, _near(block, tables))
        for name, level in LEVELS.items():
            if (claim := _bounded(party, block, ends, "quantile", level, rows.count, known, first, name)) is not None:
                yield claim
        for statistic, level in EXTREMES.items():
            claim = _bounded(party, block, ends, statistic, level, rows.count, known, first)
            if claim is not None and claim.high - claim.low <= _near(block, tables):
                yield claim


def _ends(view: View, party: str, block: NumericBlock, first: int) -> Ends:
    """The party's own extremes where it states them, else the public bounds."""
    stated = [
        (float(m.payload.minimum[block.start]), float(m.payload.maximum[block.start]), m.sequence)
        for m in view.received(LocalExtremes)
        if m.sender == party and block.start < len(m.payload.minimum)
    ]
    return stated[-1] if stated else (block.low, block.high, first)


def _moments(
    party: str, block: NumericBlock, ends: Ends, rows: int, counted: Sequence[Counted], first: int, near: float
) -> Iterator[StatisticClaim]:
    """Mean and deviation, where what counts leave of every value leaves the mean `near` bounds."""
    low, high, told = ends
    if low is None or high is None or rows > MOST_ROWS:
        return
    least, most, ranks = np.full(rows, low), np.full(rows, high), np.arange(rows)
    for c in counted:
        least = np.where(ranks >= c.most_below, np.maximum(least, c.point), least)
        most = np.where(ranks < c.least_at_most, np.minimum(most, c.point), most)
    if block.integer:
        least, most = np.ceil(least), np.floor(most)
    half = float((most - least).mean()) / 2
    if (least > most).any() or 2 * half > near:
        return
    centre = float((least + most).mean()) / 2
    squares = [np.maximum(np.maximum(least - centre, centre - most), 0.0), np.maximum(most - centre, centre - least)]
    fewest, largest = (float((x**2).mean()) for x in squares)
    evidence = tuple(sorted({first, told, *(c.evidence for c in counted)}))
    slack = ROUNDING * max(abs(low), abs(high))
    yield StatisticClaim(party, block.feature, "mean", centre, centre - half - slack, centre + half + slack, evidence)
    stds = [sqrt(max(v, 0.0)) for v in (fewest - half**2, (fewest + largest) / 2, largest)]
    yield StatisticClaim(party, block.feature, "std", stds[1], max(stds[0] - slack, 0.0), stds[2] + slack, evidence)


def _bounded(
    party: str,
    block: NumericBlock,
    ends: Ends,
    statistic: Statistic,
    level: float,
    rows: int,
    counted: Sequence[Counted],
    first: int,
    name: str = "",
) -> StatisticClaim | None:
    """What counts leave of the quantile at a level of so many rows between the ends of the column, rounded inwards of
    whole numbers; None where an end is open or they contradict.
    """
    place, (least, most, told) = level * (rows - 1), ends
    lows = [(c.point, c.evidence) for c in counted if c.most_below <= floor(place)]
    highs = [(c.point, c.evidence) for c in counted if c.least_at_most >= ceil(place) + 1]
    lows += [] if least is None else [(least, told)]
    highs += [] if most is None else [(most, told)]
    if not lows or not highs:
        return None
    (low, why_low), (high, why_high) = max(lows), min(highs)
    if block.integer:
        low, high = float(ceil(low)), float(floor(high))
    if low > high:
        return None
    evidence = tuple(sorted({first, why_low, why_high}))
    return StatisticClaim(party, block.feature, statistic, (low + high) / 2, low, high, evidence, name)


def _near_of(view: View, feature: str, tables: Mapping[str, OwnTable]) -> float:
    assert view.public.layout is not None
    return next(_near(b, tables) for b in view.public.layout.numeric if b.feature == feature)


def _near(block: NumericBlock, tables: Mapping[str, OwnTable]) -> float:
    own = [t.column(block.feature) for t in tables.values() if t.rows]
    spread = float(np.concatenate(own).std()) if own else 0.0
    public = block.high - block.low if block.low is not None and block.high is not None else 0.0
    return max(NEAR * public, spread / 2)
