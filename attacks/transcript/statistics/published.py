"""What aggregates that everyone is told say about the only client outside: the published figure less the own ones.

Topics: `zscore.global-mean` and `-std`, `pooled.statistics`, `minmax.global`, `local.padding`. With two clients each is
in this position; among n, any n - 1 together. Extremes and padding say something only where no observer holds them.
Extremes that were compared as ciphertexts are near the true ones, and no more: so near, claims are wide.

Mean and deviation are told without the number of rows N that they are over. Two things betray it. The mean of whole
numbers is T / N with T whole, so that only multiples of its reduced denominator can be N; by float64 this separates
denominators up to about 10^6. And every N must leave the last client a variance that is not negative. Each candidate N
gives n = N - own, m = (N M - own sum) / n and a deviation; its weight is

    N^-w  p(n)  t3((m - M) / (0.5 S))  t3(log(s / S) / 0.35)      log n ~ Normal(log own rows, 1)

with w whole features: of two means that are both whole multiples of 1/N and of 1/(2N), the second is 2^w times as
unlikely. Where one N has the weight `level` or more, the claim is exact if that N is right.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.attacks.transcript.statistics.own import OwnTable, integer_features
from leakledger.attacks.transcript.statistics.prior import FREEDOM
from leakledger.preprocess.messages import (
    GlobalDeviations,
    GlobalExtremes,
    GlobalMeans,
    PaddedSizes,
    Payload,
    PooledStatistics,
)
from leakledger.preprocess.views import Message, View

Floats = NDArray[np.float64]
COMPARED = ("ppf-minmax", "ppf-robust")  # scalers whose extremes come of comparisons
COMPARISON = 2 * 8e-5  # what one of them is off by, with noise, in halves of the declared range
PUBLISHED = (GlobalMeans, GlobalDeviations, PooledStatistics, GlobalExtremes, PaddedSizes)
ROW_SPREAD, MEAN_SPREAD, LOG_STD_SPREAD = 1.0, 0.5, 0.35
MOST, TRIED, SHARP = 100, 4000, 1e-3


def published_claims(view: View, tables: Mapping[str, OwnTable], level: float) -> list[StatisticClaim]:
    """Claims about the one client outside; none where several are. Raises Unreadable for a table without a feature."""
    outside = [c for c in view.public.clients if c not in view.observers]
    names = numeric_names(view.public)
    if len(outside) != 1 or not tables:
        return []
    claims = [*_extremes(view, outside[0], tables, names), *_sizes(view, outside[0], tables)]
    if names and (told := _told_moments(view, len(names))) is not None:
        claims += _moments(view, outside[0], tables, names, told, level)
    return claims


@dataclass(frozen=True)
class Told:
    mean: Floats = field(repr=False)
    std: Floats = field(repr=False)
    evidence: tuple[int, ...]


def _told_moments(view: View, features: int) -> Told | None:
    """The published mean and deviation (features,), of the numeric columns that come first."""
    mean, std, pooled = (_first(view, k) for k in (GlobalMeans, GlobalDeviations, PooledStatistics))
    evidence: tuple[int, ...]
    if mean is not None and std is not None:
        both, evidence = (mean.payload.mean, std.payload.std), (mean.sequence, std.sequence)
    elif pooled is not None:
        both, evidence = (pooled.payload.mean, pooled.payload.std), (pooled.sequence,)
    else:
        return None
    m, s = (np.asarray(x, np.float64)[:features] for x in both)
    return Told(m, s, evidence) if m.shape == s.shape == (features,) and np.isfinite([m, s]).all() else None


def _first(view: View, kind: type[Payload]) -> Message | None:
    return next(view.readable(kind), None)


def _moments(
    view: View, party: str, tables: Mapping[str, OwnTable], names: Sequence[str], told: Told, level: float
) -> Iterable[StatisticClaim]:
    own = np.vstack([np.stack([t.column(n) for n in names], axis=1) for t in tables.values()])  # (rows, features)
    whole = np.array([n in integer_features(view.public.layout) for n in names])
    rows, weights, means, variances = _candidates(own, told, whole, len(tables))
    if not len(rows):
        return
    stds = np.sqrt(np.maximum(variances, 0.0))
    best = int(weights.argmax())
    sure = bool(weights[best] >= level)
    columns: list[tuple[str, Statistic, Floats]] = [("", "count", rows)]
    for i, n in enumerate(names):
        columns += [(n, "mean", means[:, i]), (n, "std", stds[:, i])]
    for feature, statistic, values in columns:
        low, high = _within(values, weights, level)
        if sure:  # published to float64: the rest is rounding
            slack = 0.0 if statistic == "count" else 1e-6 * abs(float(values[best])) + 1e-12
            low, high = float(values[best]) - slack, float(values[best]) + slack
        estimate = float(values[best]) if sure else _within(values, weights, 0.0)[0]
        yield StatisticClaim(party, feature, statistic, estimate, low, high, told.evidence)


def _candidates(
    own: Floats, told: Told, whole: NDArray[np.bool_], parties: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """(C,) rows that the last client may have and their weights; (C, features) its mean and variance for each."""
    usual = max(len(own) / parties, 1.0)
    rows = np.arange(1.0, MOST * usual + 1)
    total = rows + len(own)
    fits = np.ones(len(rows), np.bool_)
    used = 0
    for mean in told.mean[whole]:
        slack = 4e-15 * parties * total * abs(mean) + 1e-12
        off = np.abs(total * mean - np.round(total * mean))
        fits &= (off <= slack) | (slack > SHARP)
        used += int(slack[0] <= SHARP and mean != 0)
    rows = rows[fits]
    if len(rows) > TRIED:  # nothing is known of N: even steps in its logarithm do
        rows = rows[np.unique(np.geomspace(1, len(rows), TRIED).astype(np.int64) - 1)]
    n = rows[:, None]
    mean = told.mean + (told.mean - own.mean(axis=0)) * len(own) / n
    around = ((n + len(own)) * told.std**2 - ((own - told.mean) ** 2).sum(axis=0)) / n
    variance = around - (mean - told.mean) ** 2
    noise = 1e-9 * (told.std**2 + told.mean**2) * (n + len(own)) / n
    possible = (variance >= -noise).all(axis=1)
    rows, mean, variance = rows[possible], mean[possible], variance[possible]
    logs = -used * np.log(rows + len(own)) - 0.5 * (np.log(rows / usual) / ROW_SPREAD) ** 2 - np.log(rows)
    spread = np.maximum(told.std, 1e-300)
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(np.sqrt(np.maximum(variance, 0.0)) / spread, 1e-6))
    for scaled in ((mean - told.mean) / (MEAN_SPREAD * spread), ratio / LOG_STD_SPREAD):
        logs -= (FREEDOM + 1) / 2 * np.log1p(np.where(told.std > 0, scaled, 0.0) ** 2 / FREEDOM).sum(axis=1)
    weights = np.exp(logs - logs.max(initial=-np.inf)) if len(logs) else logs
    return rows, weights / weights.sum() if len(logs) else weights, mean, variance


def _within(values: Floats, weights: Floats, level: float) -> tuple[float, float]:
    """The central interval: the smallest values that leave at most half of the rest on either side."""
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    ends = np.searchsorted(share, [(1 - level) / 2, (1 + level) / 2])
    low, high = values[order][np.minimum(ends, len(values) - 1)]
    return float(low), float(high)


def _extremes(view: View, party: str, tables: Mapping[str, OwnTable], names: Sequence[str]) -> Iterable[StatisticClaim]:
    for kind in (GlobalExtremes, PooledStatistics):
        if (m := _first(view, kind)) is None:
            continue
        for i, n in enumerate(names):
            column = np.concatenate([t.column(n) for t in tables.values()])
            low, high = float(m.payload.minimum[i]), float(m.payload.maximum[i])
            slack = _off_by(view, n) * (2 if low == high else 1)  # ends within the slack are told as their middle
            if not len(column) or low + slack < column.min():
                yield _near(view, party, n, "minimum", low, slack, m)
            if not len(column) or high - slack > column.max():
                yield _near(view, party, n, "maximum", high, slack, m)


def _off_by(view: View, feature: str) -> float:
    """How far a published extreme may lie from the true one: under comparisons, a part of the declared range."""
    if view.public.scaler.name not in COMPARED:
        return 0.0
    for block in view.public.layout.numeric if view.public.layout else ():
        if block.feature == feature and block.low is not None and block.high is not None:
            return compared_within(len(view.public.clients)) * (block.high - block.low) / 2
    return float("inf")  # of a range that nobody knows


def compared_within(clients: int) -> float:
    """How far from the extreme over clients a tree of comparisons may end, in halves of the declared range."""
    return (ceil(log2(clients)) + 1) * COMPARISON


def _near(
    view: View, party: str, feature: str, statistic: Statistic, x: float, slack: float, m: Message
) -> StatisticClaim:
    """A number within `slack` of x; exact where only one whole number is, and the feature has whole numbers."""
    low, high = x - slack, x + slack
    if slack and feature in integer_features(view.public.layout) and np.ceil(low) == np.floor(high):
        return _exactly(party, feature, statistic, float(np.rint(x)), m)
    return StatisticClaim(party, feature, statistic, x, low, high, (m.sequence,))


def _sizes(view: View, party: str, tables: Mapping[str, OwnTable]) -> Iterable[StatisticClaim]:
    if (m := _first(view, PaddedSizes)) is not None:
        for feature, size in m.payload.sizes.items():
            if size > max(len(t.values(feature)) for t in tables.values()):
                yield _exactly(party, feature, "size", float(size), m)


def _exactly(party: str, feature: str, statistic: Statistic, x: float, m: Message) -> StatisticClaim:
    return StatisticClaim(party, feature, statistic, x, x, x, (m.sequence,))
