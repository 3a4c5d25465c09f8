"""Quartiles of a party's numeric features, from mean and deviation and the shape of the observers' own rows.

A party with mean m and deviation s is taken to have the quantile m + s z(p), where z are the standardised own rows:
each observer's less its own mean, over its own deviation, all together. The interval adds up in quadrature, on each
side,

* what is open about m and s: how far their own intervals reach;
* the sampling of the two tables and that shapes differ: z at the levels p -+ t sqrt(p (1 - p) (1/n + 1/k) / 2 + a^2)
  of k own rows and n rows of the party, t the normal quantile of `level`. The half is what mean and deviation do not
  say of a sampled quartile (of a normal distribution, 0.36). The further m and s are from the own ones M and S, the
  less the own shape says: a = 0.04 + 0.08 (|m - M| / S + |log(s / S)|), at most 0.25.

It is cut at what no distribution goes beyond, m - s sqrt((1 - p) / p) and m + s sqrt(p / (1 - p)) (Cantelli), and at
extremes that are known; where nothing is left between those, the party has another shape, and these ends are the claim.
Own rows that have one number over and over (most gains are 0) have no width there: the ends then reach to the next own
numbers, and where there are none, to what no distribution goes beyond. So the shape alone never makes a claim exact; a
deviation of 0 does. Such a number means the same at another party, unlike m + s z: where all of those levels have one
number, it is the estimate, as far as the moments allow it. Observers without rows of their own know no shape: about
those there is no claim, nor where mean, deviation and rows are not all claimed. Extremes alone are no quartile.

Columns of two numbers (`binary`) have no shape of their own: a quartile is one of the two, exactly where rows and mean
are known, and else the interval is both. Exact moments show such a column in all of their digits: beside own rows of 40
and 999999999 any rows near 40 agree with these two but for a ten-millionth of their distance.

`level` is a promise for shapes that differ by a: at 90 %, 93 to 94 % hold where each column of each party has a skew of
its own. Where shapes are the same, the interval is too wide (96 to 97 % for normal columns). Shapes that differ by more
break it: of four parties of Adult that were made to differ (`divergent`), 78 % hold for one observer, 83 to 89 % for
two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.transcript.statistics.binary import Pair, own_pair
from leakledger.attacks.transcript.statistics.own import OwnTable

Floats = NDArray[np.float64]
Key = tuple[str, str, str]  # party, feature, statistic
LEVELS = {"0.25": 0.25, "0.5": 0.5, "0.75": 0.75}
NO_WIDTH = 1e-6  # relative: an interval no wider is exact but for rounding
AGREED = 1e-7  # relative: two ways to a variance are one
ROUNDED = 1e-12  # of the magnitudes of rows: how far their mean may be rounded
SAME = 1e-9  # deviations: standardised rows no further apart are one number
ALIKE, APART, MOST = 0.04, 0.08, 0.25  # how far the level of a quantile differs between parties


def quartiles(
    claims: Sequence[StatisticClaim],
    tables: Mapping[str, OwnTable],
    level: float,
    two: Mapping[str, Pair] | None = None,
) -> Iterable[StatisticClaim]:
    """Claims about quantiles, `value` the level as text, where `claims` have the moments. `two`: features whose columns
    have two numbers, and which.
    """
    if sum(t.rows for t in tables.values()) < 2:
        return
    told: dict[Key, StatisticClaim] = {(c.party, c.feature, c.statistic): c for c in claims if not c.value}
    pairs = [(p, f) for p, f, s in told if s == "std" and (p, f, "mean") in told and (p, "", "count") in told]
    if not pairs:
        return
    binary = {(p, f): numbers for p, f in pairs if (numbers := _numbers(told, tables, p, f, two or {}))}
    for (party, feature), numbers in binary.items():
        yield from _of_two(party, feature, numbers, told)
    pairs = [pair for pair in pairs if pair not in binary]
    if not pairs:
        return
    shapes = {f: _Shape.of(tables, f) for f in dict.fromkeys(f for _, f in pairs)}
    known = _Moments.of(pairs, told)
    behind = [told[p, f, "std"].evidence for p, f in pairs]
    for name, p in LEVELS.items():
        z, number = _standardised(pairs, shapes, known, p, level)
        ends = zip(pairs, behind, *(x.tolist() for x in known.quantile(p, z, number)), strict=True)
        for (party, feature), evidence, x, low, high in ends:
            yield StatisticClaim(party, feature, "quantile", x, low, high, evidence, name)


def _numbers(
    told: Mapping[Key, StatisticClaim],
    tables: Mapping[str, OwnTable],
    party: str,
    feature: str,
    two: Mapping[str, Pair],
) -> Pair | None:
    """The two numbers of a party's column: of everyone's, or by its own moments if both are exact."""
    mean, std = told[party, feature, "mean"], told[party, feature, "std"]
    pair = two.get(feature) or own_pair(tables, feature)
    exact = pair is not None and max(mean.high - mean.low, std.high - std.low) <= NO_WIDTH * (pair[1] - pair[0])
    return pair if feature in two or (exact and pair and _only(pair, mean, std, told[party, "", "count"])) else None


def _only(pair: Pair, mean: StatisticClaim, std: StatisticClaim, count: StatisticClaim) -> bool:
    """Whether the rows have no other numbers than these two, in all digits of mean and deviation: what is open or
    rounded of these, not of the distance of the two, which rows near one of them may lie far within. Of a deviation of
    which much is open, whole numbers of rows are left to say so.
    """
    a, b = pair
    rate = min(max((mean.estimate - a) / (b - a), 0.0), 1.0)
    off = mean.high - mean.low + ROUNDED * (abs(a) * (1 - rate) + abs(b) * rate)
    far = AGREED * std.estimate**2 + std.high**2 - std.low**2 + (b - a) * off
    if count.low == count.high >= 1 and abs(mean.estimate - _nearest(pair, rate, count.estimate)) > off:
        return False
    return abs(std.estimate**2 - (mean.estimate - a) * (b - mean.estimate)) <= far


def _nearest(pair: Pair, rate: float, rows: float) -> float:
    """The mean nearest to that of `rate` which so many rows of the two numbers have."""
    share = round(rate * rows) / rows
    return pair[0] * (1 - share) + pair[1] * share


def _of_two(party: str, feature: str, numbers: Pair, told: Mapping[Key, StatisticClaim]) -> Iterable[StatisticClaim]:
    """A quartile of a column of two numbers is one of them, or between them in one of n cases: known where mean and
    rows are, else open, however likely one of the two is.
    """
    mean, count, std = told[party, feature, "mean"], told[party, "", "count"], told[party, feature, "std"]
    (a, b), rows = numbers, max(count.estimate, 1.0)
    rate = (mean.estimate - a) / (b - a)
    sure = count.low == count.high and mean.high - mean.low <= NO_WIDTH * (b - a)
    for name, level in LEVELS.items():
        share = float(np.clip(level * (rows - 1) - (round(rows * (1 - rate)) - 1), 0.0, 1.0))
        x = a + (b - a) * share
        low, high = (x, x) if sure else numbers
        yield StatisticClaim(party, feature, "quantile", x, low, high, std.evidence, name)


@dataclass(frozen=True)
class _Moments:
    """Of R parties' features (R,): rows, ends of the mean and the deviation (3, R) as estimate, low and high, and known
    extremes."""

    rows: Floats
    mean: Floats
    std: Floats
    floor: Floats
    ceiling: Floats

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], told: Mapping[Key, StatisticClaim]) -> "_Moments":
        mean, std = (
            np.array([(c.estimate, c.low, c.high) for c in (told[p, f, s] for p, f in pairs)]).T
            for s in ("mean", "std")
        )
        floor, ceiling = (
            np.array([getattr(c, end) if (c := told.get((p, f, s))) else open_end for p, f in pairs])
            for s, end, open_end in (("minimum", "low", -np.inf), ("maximum", "high", np.inf))
        )
        rows = np.array([max(told[p, "", "count"].estimate, 1.0) for p, _ in pairs])
        return cls(rows, mean, std, floor, ceiling)

    def quantile(self, p: float, z: Floats, number: Floats) -> tuple[Floats, Floats, Floats]:
        """(R,) estimate, low and high, of the standardised quantile and its ends `z` (3, R). `number` (R,): what own
        rows have over and over there; NaN for nothing.
        """
        (m, m_low, m_high), (s, s_low, s_high) = self.mean, self.std
        shrunk, grown = z[0] * (s - s_low), z[0] * (s_high - s)
        down, up = np.where(z[0] > 0, shrunk, grown), np.where(z[0] > 0, grown, shrunk)
        unit = np.where(s_low > 0, s, s_high)  # of the shape: an estimate of 0 says nothing where only rounding is seen
        below = np.sqrt((m - m_low) ** 2 + (unit * (z[0] - z[1])) ** 2 + down**2)
        above = np.sqrt((m_high - m) ** 2 + (unit * (z[2] - z[0])) ** 2 + up**2)
        least = np.maximum(m_low - s_high * _reach(1 - p), self.floor)
        most = np.maximum(np.minimum(m_high + s_high * _reach(p), self.ceiling), least)
        low, high = np.maximum(m + s * z[0] - below, least), np.minimum(m + s * z[0] + above, most)
        none_left = low >= high
        low, high = np.where(none_left, least, low), np.where(none_left, most, high)
        x = np.clip(np.where(np.isnan(number), m + s * z[0], number), least, most)
        low, high = np.fmin(low, np.where(np.isnan(number), low, x)), np.fmax(high, np.where(np.isnan(number), high, x))
        return np.clip(x, low, high), low, high


@dataclass(frozen=True)
class _Shape:
    """The observers' rows (k,) in rising order, in deviations from the own mean and as they are (`numbers`), and mean
    and deviation of all.
    """

    rows: Floats = field(repr=False)
    numbers: Floats = field(repr=False)
    mean: float
    std: float

    @classmethod
    def of(cls, tables: Mapping[str, OwnTable], feature: str) -> "_Shape":
        columns = [t.column(feature) for t in tables.values() if t.rows]
        rows = np.sort(np.concatenate([(c - c.mean()) / (c.std() or 1.0) for c in columns]))
        whole = np.sort(np.concatenate(columns))
        return cls(rows, whole, float(whole.mean()), float(whole.std()))

    def at(self, level: Floats) -> Floats:
        """The quantile of the standardised rows, as numpy's default has it."""
        last = len(self.rows) - 1
        values: Floats = np.interp(np.clip(level, 0.0, 1.0) * last, np.arange(last + 1), self.rows)
        return values

    def repeated(self, low: Floats, high: Floats) -> Floats:
        """The number that all own rows have from the level `low` to the level `high`; NaN where they have several."""
        last = len(self.numbers) - 1
        first = self.numbers[np.floor(np.clip(low, 0, 1) * last).astype(int)]
        final = self.numbers[np.ceil(np.clip(high, 0, 1) * last).astype(int)]
        return np.where((first == final) & (self.std > 0), first, np.nan)

    def around(self, z: Floats, p: float) -> tuple[Floats, Floats]:
        """The next lower and the next higher standardised row of each z; Cantelli's bounds where there is none."""
        padded = np.concatenate([[-_reach(1 - p)], self.rows, [_reach(p)]])
        lower = padded[np.searchsorted(self.rows, z - SAME, side="left")]
        higher = padded[np.searchsorted(self.rows, z + SAME, side="right") + 1]
        return lower, higher

    def apart(self, mean: Floats, std: Floats) -> Floats:
        """By how much levels of quantiles differ between this shape and that of parties with such moments."""
        tiny = 1e-9 * (abs(self.mean) + self.std) + 1e-300
        away = np.abs(mean - self.mean) / max(self.std, tiny)
        away = away + np.abs(np.log(np.maximum(std, tiny) / max(self.std, tiny)))
        further: Floats = np.minimum(ALIKE + APART * away, MOST)
        return further


def _standardised(
    pairs: Sequence[tuple[str, str]], shapes: Mapping[str, _Shape], known: _Moments, p: float, level: float
) -> tuple[Floats, Floats]:
    """(3, R) the quantile of each pair's feature among the own rows, and its ends; (R,) the number that own rows have
    over and over there.
    """
    names = {f: i for i, f in enumerate(shapes)}
    which = np.array([names[f] for _, f in pairs])
    z, number = np.empty((3, len(pairs))), np.empty(len(pairs))
    for f, shape in shapes.items():
        of = which == names[f]
        sampled = p * (1 - p) * (1 / known.rows[of] + 1 / len(shape.rows)) / 2
        off = ndtri((1 + level) / 2) * np.sqrt(sampled + shape.apart(known.mean[0, of], known.std[0, of]) ** 2)
        at = shape.at(p + off * np.array([[0.0], [-1.0], [1.0]]))
        lower, higher = shape.around(at[0], p)
        z[:, of] = at[0], np.minimum(at[1], lower), np.maximum(at[2], higher)
        number[of] = shape.repeated(p - off, p + off)
    return z, number


def _reach(p: float) -> float:
    """How many deviations above the mean a quantile at level p may lie: sqrt(p / (1 - p)) (Cantelli)."""
    return float(np.sqrt(p / (1 - p)))
