"""What aggregates that everyone is told say about the only client outside: the published figure less the own ones.

Topics: `zscore.global-mean` and `-std`, `pooled.statistics`, `minmax.global`, `local.padding`. With two clients each is
in this position; among n, any n - 1 together. Extremes and padding say something only where no observer holds them.
Extremes, means and deviations that were computed on ciphertexts are near the true ones, and no more (`decrypted`):
claims are as wide, and more candidates fit.

Mean and deviation are told without the number of rows N that they are over. Two things betray it. The mean of whole
numbers is T / N with T whole, so that only multiples of its reduced denominator can be N; by float64 this separates
denominators up to about 10^6. And every N must leave the last client a variance that is not negative. Each candidate N
gives n = N - own, m = (N M - own sum) / n and a deviation s; its weight is

    1/k(N)  p(n)  t3((m - M') / (tau S'))  t3(log(s / S') / sigma)  |d(m, log s) / d(M, log S)|
    log n ~ Normal(log own rows, 1 or 3)

around mean M' and deviation S' of the own rows, since M and S have n in them already: the last factor, N/n times
N S^2 / (n s^2), is what few rows change. tau and sigma are those of `prior` or 0, weighed by how far observers are
from each other, and wider by the sampling of n rows and of the own ones. Half of the weight is one tau and one sigma
for all columns, half is that each column has its own. With the chance `FAR` the client is unlike all observers, its
means and its deviations by any number of theirs. With the chance `CONSTANT` a column is constant there, which only
an N can be that leaves it no deviation. One row has none either: it is possible where none is left, and nowhere else.

with k(N) the number of sums that N rows may have beside multiples of N, N^w for w whole features that have nothing in
common (`whole_sums`): of two means that are both whole multiples of 1/N and of 1/(2N), the second is then 2^w times as
unlikely. Where a mean is near several multiples of 1/N, it is as many times as likely. Whether others share the
divisors of the own rows, nobody knows: half of the weight is what it is if they do, half if they do not. Where columns
of whole numbers vouch for one N that has the weight `level` or more, claims of mean and deviation are those that it
leaves; itself it is exact from a weight of 0.9999 on. Where another message tells n exactly (sums of byte casts and
counts of targets do), it is the only candidate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.attacks.observed.stated import ROUNDING, VANISHED, vanished
from leakledger.attacks.transcript.statistics.decrypted import extremes_within, moments_within
from leakledger.attacks.transcript.statistics.own import OwnTable, integer_features, the_one_outside
from leakledger.attacks.transcript.statistics.prior import BASE, FREEDOM, LOG_STD_SPREADS, MEAN_SPREADS
from leakledger.attacks.transcript.statistics.whole_sums import independent, log_rests
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
PUBLISHED = (GlobalMeans, GlobalDeviations, PooledStatistics, GlobalExtremes, PaddedSizes)
ROW_SPREADS = np.array([1.0, 3.0])
MOST, TRIED, SHARP = 100, 4000, 1e-3
ALIKE = 0.5  # how likely parties are samples of the same rows, as they are where rows are dealt out
NEAR = np.log([ALIKE, *(1 - ALIKE) * BASE])  # the weights of 0 and the spreads of `prior`
FAR = 0.05  # how likely the last client is unlike all others, by any number of their deviations
MEANS_FAR, STDS_FAR = 10.0 ** np.arange(1, 13), np.linspace(1.5, 24.0, 12)
MATCHED = 0.63  # the square of the scale at which Student's t with three degrees of freedom fits normal numbers best
CONSTANT = 0.05  # how likely a column that varies elsewhere is constant in one party
COINCIDENCE = 1e-3  # of the variance: what is closer to no deviation than this may be so by chance
# The weight from which on a count is exact: with the level alone one in twenty was wrong, of made-up federations whose
# means of whole numbers are told in full, and more where they are only near, since chance passes more candidates.
VOUCHED = 0.9999


def published_claims(
    view: View, tables: Mapping[str, OwnTable], level: float, counted: StatisticClaim | None = None
) -> list[StatisticClaim]:
    """Claims about the one client outside; none where several are. `counted`: its number of rows, where another message
    tells it exactly. Raises Unreadable for a table without a feature.
    """
    outside = the_one_outside(view)
    names = numeric_names(view.public)
    if outside is None or not tables:
        return []
    claims = [*_extremes(view, outside, tables, names), *_sizes(view, outside, tables)]
    if names and (told := _told_moments(view, names)) is not None:
        claims += _moments(view, outside, tables, names, told, level, counted)
    return claims


@dataclass(frozen=True)
class Told:
    """(features,) mean and deviation, and how far the mean and the deviation's square may lie from the true ones; the
    square is over N - `ddof`.
    """

    mean: Floats = field(repr=False)
    std: Floats = field(repr=False)
    mean_within: Floats = field(repr=False)
    variance_within: Floats = field(repr=False)
    ddof: int
    evidence: tuple[int, ...]


@dataclass(frozen=True)
class Candidates:
    """What the last client may have: (C,) rows and their weights; (C, features) mean and variance for each, and how far
    these may lie from the true ones if that is the number of rows.
    """

    rows: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    means: Floats = field(repr=False)
    variances: Floats = field(repr=False)
    means_within: Floats = field(repr=False)
    variances_within: Floats = field(repr=False)

    def where(self, kept: NDArray[np.bool_]) -> "Candidates":
        return Candidates(*(getattr(self, f.name)[kept] for f in fields(self)))

    def columns(self, names: Sequence[str]) -> Iterable[tuple[str, Statistic, Floats, Floats, Floats]]:
        """Of each statistic its estimates, and the least and the most that it may be: (C,) each."""
        yield "", "count", self.rows, self.rows, self.rows
        for i, n in enumerate(names):
            mean, by = self.means[:, i], self.means_within[:, i]
            yield n, "mean", mean, mean - by, mean + by
            variance, by = self.variances[:, i], self.variances_within[:, i]
            std, low, high = (np.sqrt(np.maximum(v, 0.0)) for v in (variance, variance - by, variance + by))
            yield n, "std", std, low, high


def _told_moments(view: View, names: Sequence[str]) -> Told | None:
    """The published mean and deviation of the numeric columns, which come first; None where they may be anything."""
    mean, std, pooled = (_first(view, k) for k in (GlobalMeans, GlobalDeviations, PooledStatistics))
    evidence: tuple[int, ...]
    if mean is not None and std is not None:
        both, evidence = (mean.payload.mean, std.payload.std), (mean.sequence, std.sequence)
    elif pooled is not None:
        both, evidence = (pooled.payload.mean, pooled.payload.std), (pooled.sequence,)
    else:
        return None
    m, s = (np.asarray(x, np.float64)[: len(names)] for x in both)
    if not m.shape == s.shape == (len(names),):
        return None
    within = moments_within(view, names, s)
    ddof = int(view.public.scaler.options.get("ddof", 0))
    return Told(m, s, *within, ddof, evidence) if np.isfinite([m, s, *within]).all() else None


def _first(view: View, kind: type[Payload]) -> Message | None:
    return next(view.readable(kind), None)


def _moments(
    view: View,
    party: str,
    tables: Mapping[str, OwnTable],
    names: Sequence[str],
    told: Told,
    level: float,
    counted: StatisticClaim | None,
) -> Iterable[StatisticClaim]:
    own = [np.stack([t.column(n) for n in names], axis=1) for t in tables.values()]  # (rows, features) each
    whole = np.array([n in integer_features(view.public.layout) for n in names])
    found = _candidates(own, told, whole, None if counted is None else counted.estimate)
    evidence = (*told.evidence, *(() if counted is None else counted.evidence))
    if not len(found.rows):
        return
    best = int(found.weights.argmax())
    likely = bool(found.weights[best] >= level)
    vouched = max(level, VOUCHED) if likely else level
    # Other columns may have a grid that nobody knows, and too few rows hide what all have in common: chance may fit.
    vouching = sum(map(len, own)) > whole.sum() > 0 or counted is not None
    for feature, statistic, values, lows, highs in found.columns(names):
        share = vouched if statistic == "count" or not vouching else level
        sure = bool(found.weights[best] >= share)
        low, high = _within(lows, found.weights, share)[0], _within(highs, found.weights, share)[1]
        if statistic == "count" and not vouching:
            high, sure = max(high, low + 1), False
        if sure:  # published to float64 at best: the rest is rounding
            slack = 0.0 if statistic == "count" else 1e-6 * abs(float(values[best])) + 1e-12
            low, high = float(lows[best]) - slack, float(highs[best]) + slack
        low = max(low, 0.0) if statistic == "std" else low
        estimate = float(values[best]) if likely else _within(values, found.weights, 0.0)[0]
        yield StatisticClaim(party, feature, statistic, estimate, low, high, evidence)


def _candidates(each: Sequence[Floats], told: Told, whole: NDArray[np.bool_], counted: float | None) -> Candidates:
    """Every number of rows that the last client may have; `counted`, where that is known."""
    own, parties = np.vstack(each), len(each)
    usual = max(len(own) / parties, 1.0)
    every = np.arange(1.0, MOST * usual + 1) if counted is None else np.array([counted])
    rows, logs = _fitting(every, own, told, whole, parties)
    if len(rows) > TRIED:  # nothing is known of N: even steps in its logarithm do
        kept = np.unique(np.geomspace(1, len(rows), TRIED).astype(np.int64) - 1)
        rows, logs = rows[kept], logs[kept]
    all_ = _less_own(rows, logs, own, told)
    noise = 1e-9 * (told.std**2 + told.mean**2) * ((rows + len(own)) / rows)[:, None]
    near = noise + all_.variances_within
    possible = np.all((all_.variances >= -near) & ((all_.variances <= near) | (rows[:, None] > 1)), axis=1)
    # Below 0 a variance shows what rounding makes of it, which may as well have taken as much from one above.
    lost = np.maximum(all_.variances_within, -2 * all_.variances)
    found = replace(all_, variances_within=lost).where(np.asarray(possible))
    away = np.log(found.rows / usual)[:, None] / ROW_SPREADS
    chance = logsumexp(-0.5 * away**2 - np.log(ROW_SPREADS), axis=1) - np.log(found.rows)
    chance += _like_own(found, each, told, whole)
    logs = found.weights + chance[:, None]
    weights = np.exp(logs - logs.max(axis=0, initial=-np.inf))
    return replace(found, weights=(weights / weights.sum(axis=0)).mean(axis=1) if len(logs) else logs[:, 0])


def _like_own(found: Candidates, each: Sequence[Floats], told: Told, whole: NDArray[np.bool_]) -> Floats:
    """(C,) the logarithm of how likely what is told is for each number of rows, if means and deviations are as far from
    the own ones as a party's may be, and as those of `each` observer are. Columns without a deviation say nothing, nor
    do those of numbers whose squares float64 does not have.
    """
    own, n = np.vstack(each), found.rows[:, None]
    varied = told.std**2 > VANISHED
    spread = np.where(varied, told.std, 1.0)
    counts: Floats = _witnesses(own, varied) * varied.astype(np.float64)
    least = np.maximum(COINCIDENCE * spread**2, whole / n)  # of a variance: one below is as likely to be chance
    variance = np.maximum(found.variances, np.maximum(found.variances_within, least))
    unit = np.where(_deviations(own) > 0, _deviations(own), spread)
    # By how much mean and logarithm of the deviation change with what is told: what is told is that much likelier.
    grown = (n + len(own)) / n
    by_mean, by_std = _apart(found.means, np.sqrt(variance), n, own, unit)
    by_mean, by_std = by_mean + np.log(grown / unit), by_std + np.log(grown * spread**2 / variance)
    # A column that is constant there leaves no deviation, by rounding. What else does is spread over `least`.
    none_left = (np.abs(found.variances) <= found.variances_within) & (n > 1)
    constant = np.where(none_left, np.log(CONSTANT * grown * spread**2 / least), -np.inf)
    by_std = np.logaddexp(np.log(1 - CONSTANT) + by_std, constant)
    seen = [np.zeros((len(NEAR), 1, len(varied)))] * 2
    for i in range(1, len(each)):
        known = np.vstack(each[:i])
        if min(len(known), len(each[i])):
            scale = np.where(_deviations(known) > 0, _deviations(known), spread)
            mean, std = each[i].mean(axis=0), np.maximum(_deviations(each[i]), 1e-9 * scale)
            rows = np.full((1, 1), float(len(each[i])))
            terms = _apart(mean, std, rows, known, scale)
            seen = [s + t[: len(NEAR)] for s, t in zip(seen, terms, strict=True)]
    likely = np.zeros(len(found.rows))
    for of, known in zip((by_mean, by_std), seen, strict=True):
        near = _over_spreads(of[: len(NEAR)] + known, counts, NEAR) - _over_spreads(known, counts, NEAR)
        far = _over_spreads(of[len(NEAR) :], counts, np.full(len(MEANS_FAR), -np.log(len(MEANS_FAR))))
        likely += np.logaddexp(np.log(1 - FAR) + near, np.log(FAR) + far)
    return likely


def _over_spreads(logs: Floats, counts: Floats, base: Floats) -> Floats:
    """(C,) the logarithm of a likelihood, from that of each column under each of the spreads (T, C, F), where columns
    count for so many (F,) and spreads have the log weights `base` (T,): half of the weight is one spread for all
    columns, half is one for each.
    """
    shared = logsumexp(base[:, None] + (counts * logs).sum(axis=2), axis=0)
    single = (counts * logsumexp(base[:, None, None] + logs, axis=0)).sum(axis=1)
    either: Floats = np.logaddexp(shared, single)
    return either


def _witnesses(own: Floats, varied: NDArray[np.bool_]) -> float:
    """For how many independent columns each varied one counts: F columns with correlations R for F / sum R^2."""
    columns = own[:, varied & (_deviations(own) > 0)]
    if columns.shape[1] < 2:
        return 1.0
    return float(columns.shape[1] / (np.corrcoef(columns, rowvar=False) ** 2).sum())


def _deviations(rows: Floats) -> Floats:
    """(F,) the deviation of each column: 0 of one number in all rows, whose mean may be rounded to another."""
    return np.where((rows != rows[:1]).any(axis=0), rows.std(axis=0), 0.0)


def _apart(mean: Floats, std: Floats, rows: Floats, own: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """(T, C, F) each: how likely mean and deviation (C, F) of so many rows (C, 1) are beside the own rows, by how far
    parties are apart: not at all, by the spreads of `prior`, and by `MEANS_FAR` or `STDS_FAR`, in `unit`. One row has
    no deviation.
    """
    few = MATCHED * (1 / rows + 1 / max(len(own), 1))
    away, ratio = (mean - own.mean(axis=0)) / unit, np.log(std / unit)
    return (
        np.array([_log_t3(away, np.hypot(tau, few**0.5)) for tau in (0.0, *MEAN_SPREADS, *MEANS_FAR)]),
        np.array(
            [
                np.where(rows > 1, _log_t3(ratio, np.hypot(s, (few / 2) ** 0.5)), 0.0)
                for s in (0.0, *LOG_STD_SPREADS, *STDS_FAR)
            ]
        ),
    )


def _log_t3(x: Floats, scale: Floats) -> Floats:
    result: Floats = -np.log(scale) - (FREEDOM + 1) / 2 * np.log1p((x / scale) ** 2 / FREEDOM)
    return result


def _fitting(rows: Floats, own: Floats, told: Told, whole: NDArray[np.bool_], parties: int) -> tuple[Floats, Floats]:
    """The numbers of rows (C,) under which means of whole numbers are whole multiples, and (C, 2) the logarithm of how
    likely the means then are, with and without common divisors.
    """
    total = rows + len(own)
    fits, near, sharply = np.ones(len(rows), np.bool_), np.zeros(len(rows)), np.zeros(len(whole), np.bool_)
    for i in np.flatnonzero(whole):
        mean, within = told.mean[i], told.mean_within[i]
        slack = 4e-15 * parties * total * abs(mean) + 1e-12 + total * within
        sharp = 0.5 if within else SHARP
        off = np.abs(total * mean - np.round(total * mean))
        fits &= (off <= slack) | (slack > sharp)
        if slack[0] <= sharp and abs(mean) > within:
            sharply[i] = True
            near += np.log(np.maximum(2 * slack, 1.0))
    told_by = own[:, sharply]
    near *= independent(told_by) / max(sharply.sum(), 1)
    rests = log_rests(total[fits], told_by)
    return rows[fits], np.minimum(near[fits, None] - rests, 0.0)


def _less_own(rows: Floats, logs: Floats, own: Floats, told: Told) -> Candidates:
    """Mean and variance of what is left of all rows without the own ones; `logs` in place of weights. Of a column that
    is constant there, or far from the others' beside its deviation, the variance is rounding itself.
    """
    n = rows[:, None]
    share = (n + len(own)) / n  # by which errors of what is told grow
    away = (told.mean - own.mean(axis=0)) * len(own) / n
    around, own_part = (n + len(own) - told.ddof) / n * told.std**2, ((own - told.mean) ** 2).sum(axis=0) / n
    mean, variance = told.mean + away, around - own_part - away**2
    lost = ROUNDING * np.sqrt(n + len(own))  # of each of these, in sums over so many rows
    within = share * (told.mean_within + lost * np.hypot(told.mean, told.std))
    variance_within = share * told.variance_within + lost * (around + own_part + away**2)
    variance_within += (2 * np.abs(away) + within) * within + vanished(told.mean, told.std, own.mean(axis=0))
    return Candidates(rows, logs, mean, variance, within, variance_within)


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
            slack = extremes_within(view, n)
            if low == high:  # ends that lie within the slack of each other are told as their middle
                slack *= 2
            if not len(column) or low + slack < column.min():
                yield _near(view, party, n, "minimum", low, slack, m)
            if not len(column) or high - slack > column.max():
                yield _near(view, party, n, "maximum", high, slack, m)


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
