"""Statistics under noise, read with the noise: what a party released, what is known of its distribution, an interval.

The parameters of the noise are public (`PublicFacts.statistics`). A noised number states nothing exactly; with noise of
that distribution it is the best estimate of what is under it, and its interval is that of the noise at `level`. Each
party's numbers come in its own message to the server; and of the one party outside, to everyone who knows all others:
the totals less what these sent.

    mean = S/n, variance = Q/n - mean^2    in [-1, 1] of the declared range
    interval of a ratio: +- z sqrt(var_S + r^2 var_n) / n, to first order

An extreme is told by a place near it in rank. Its rank is off by no more than t = (2/epsilon) ln((grid + 1)/(1 -
level)) (McSherry and Talwar 2007): where t is below half a rank, the place is the extreme; else it is known only that
the least value is not above the place, where t is below the rank aimed at, and otherwise nothing beyond the range. A
quantile is estimated by its place; how far ranks are apart in value is not known, so its interval is the range.

Every row is in one cell of each table, so that each table's cells add up to the number of rows, under noise of its own.
These sums, the count itself, where it is told, and what messages without noise say of it (updates, evaluations) are
averaged to n, each by its precision. By as much as the k values of a table, y of c cells each, add up to something
else, each of them is off by a k-th of that:

    x = y + (n - sum of y) / k, share p = x/n    var_p = (c var (1 - 1/k) + var_n (1/k - p)^2) / n^2

A rate among the rows of a value is claimed where the value is surely held: of c rows, every order of magnitude alike,
any number is of the class, and either noised cell has its likelihood.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve, ndtri

from leakledger.attacks.base import ObserversOf, Statistic, StatisticClaim
from leakledger.preprocess.messages import (
    NoisedCounts,
    NoisedCountTotals,
    NoisedExtremes,
    NoisedGlobalExtremes,
    NoisedMoments,
    NoisedMomentTotals,
    NoisedTallies,
    NoisedTallyTotals,
    Payload,
)
from leakledger.preprocess.views import MalformedMessage, Mechanism, Message, View

TABLES = ((NoisedCounts, NoisedCountTotals), (NoisedTallies, NoisedTallyTotals))  # a party's, and all parties'
NOISED_TABLES = tuple(kind for pair in TABLES for kind in pair)
NOISED = (NoisedMoments, NoisedMomentTotals, NoisedExtremes, NoisedGlobalExtremes, *NOISED_TABLES)
MOST_ROWS, STEPS = 1e6, 400  # of a value that come into question
SURELY = 30.0  # deviations of noise: from there on a ratio is as good as normal
RATES = (np.arange(201) + 0.5) / 201  # of the rows of a value that come into question
LEAST = 1e-9  # rows: no deviation of noise counts as less
MOST_LAPLACE = 20  # cells whose sum is not taken for normal
FLAT = 1e-6  # scales of noise: nearer to 0 the density of a sum is as it is there
FAINT = 1e5  # epsilon: noise that hides nothing, to be read through in a control
NOISED_TO: tuple[ObserversOf, ...] = ("server", "all but first")  # by whom noised statistics are read
Ends = tuple[float, float, float]  # estimate, low, high
Known = Mapping[tuple[str, str], Mapping[str, Any]]  # (statistic, feature) -> parameters of its noise
Stated = Mapping[str, StatisticClaim]  # party -> its number of rows
Source = tuple[type[Payload], str]  # a kind of release, and the feature of its table; "" for the count


@dataclass(frozen=True)
class Told:
    """What one party released of one kind, by field."""

    party: str
    values: Mapping[str, Any]
    evidence: tuple[int, ...]

    def beside(self, rows: Mapping[str, "Counted"]) -> "Told":
        """The same, read with the party's number of rows."""
        return replace(self, evidence=tuple(sorted({*self.evidence, *rows[self.party].evidence})))

    def claim(
        self, feature: str, statistic: Statistic, ends: Ends, middle: float = 0.0, half: float = 1.0, value: str = ""
    ) -> StatisticClaim:
        """Estimate and ends of [-1, 1] as a claim in raw units."""
        x, low, high = (middle + half * end for end in ends)
        return StatisticClaim(self.party, feature, statistic, x, low, high, self.evidence, value)


@dataclass(frozen=True)
class Counted:
    """A number of rows, the deviation of its noise, and how far that goes with the chance of the interval."""

    rows: float
    spread: float
    reach: float
    evidence: tuple[int, ...]


def noised_claims(view: View, level: float, counted: Iterable[StatisticClaim] = ()) -> Iterator[StatisticClaim]:
    """Counts, means, deviations, extremes, shares of values and target rates, with intervals of nominal `level`.
    `counted`: what is claimed of numbers of rows without noise.
    """
    stated = {c.party: c for c in counted if c.statistic == "count"}
    of_rows = {party: list(own.values()) for party, own in told_of_rows(view, level).items()}
    yield from _counts(of_rows, level, stated)
    rows = {party: _average([*own, *_beside(stated.get(party))], level) for party, own in of_rows.items()}
    known = noise_on(view, NoisedMoments)
    for told in released(view, NoisedMoments, NoisedMomentTotals) if known else ():
        yield from _moments(told.beside(rows), known, rows[told.party], level)
    known = noise_on(view, NoisedExtremes)
    for told in released(view, NoisedExtremes, NoisedGlobalExtremes) if known else ():
        yield from _extremes(told, known, level)
    for kind, total in TABLES:
        known = noise_on(view, kind)
        for told in released(view, kind, total) if known else ():
            yield from _shares(view, told.beside(rows), known, rows[told.party], level)


def released(view: View, kind: type[Payload], total: type[Payload]) -> Iterator[Told]:
    """Each outside party's release: as it sent it, or from the totals, where it is the only one outside."""
    known = noise_on(view, kind)
    direct = {m.sender: Told(m.sender, _numbers(m, known), (m.sequence,)) for m in view.received(kind)}
    yield from direct.values()
    outside = [c for c in view.public.clients if c not in view.observers]
    everyone = next(view.readable(total), None)
    if direct or len(outside) != 1 or everyone is None:
        return
    own = {m.sender: _numbers(m, known) for m in view.readable(kind) if m.sender in view.observers}
    if len(own) == len(view.public.clients) - 1:
        rest = _less(_numbers(everyone, known), list(own.values()), kind)
        yield Told(outside[0], rest, (everyone.sequence,))


def _numbers(message: Message, known: Known) -> Mapping[str, Any]:
    """The fields of a release. Raises MalformedMessage for tables that are none of the declared values of features."""
    told: Mapping[str, Any] = vars(message.payload)
    declared = {f: len(noise["values"]) for (statistic, f), noise in known.items() if statistic == "table"}
    for feature, cells in told.get("counts", {}).items():
        if not cells.ndim or not cells.size or len(cells) != declared.get(feature):
            raise MalformedMessage(f"{message.name}: it has a table that is not of the declared values of a feature")
    return told


def _less(total: Mapping[str, Any], own: Sequence[Mapping[str, Any]], kind: type[Payload]) -> Mapping[str, Any]:
    """The release that the total has beside the own ones: the rest of sums, what only another can have set of
    extremes (None elsewhere).
    """
    if kind is NoisedExtremes:
        least, greatest = (np.array([o[name] for o in own]) for name in ("minimum", "maximum"))
        return {
            "minimum": np.where(total["minimum"] < least.min(axis=0), total["minimum"], -1),
            "maximum": np.where(total["maximum"] > greatest.max(axis=0), total["maximum"], -1),
        }
    if "counts" in total:
        return {"counts": {f: total["counts"][f] - sum(o["counts"][f] for o in own) for f in total["counts"]}}
    return {name: total[name] - sum(o[name] for o in own) for name in total}


def noise_on(view: View, kind: type[Payload]) -> Known:
    """The noise on what travels as `kind`."""
    said: Iterable[Mechanism] = view.public.statistics
    own = [{**m.parameters, "kind": m.kind} for m in said if m.parameters.get("topic") == kind.topic]
    return {(p["statistic"], p["feature"]): p for p in own}


def _counts(told: Mapping[str, Sequence[Counted]], level: float, stated: Stated) -> Iterator[StatisticClaim]:
    """Each party's number of rows, of what is told of it under noise, within what is stated of it without; that alone
    where it is exact, or where noise misses it.
    """
    for party, counted in told.items():
        rows = _average(counted, level)
        least, most, evidence = 1.0, inf, rows.evidence
        if party in stated:
            least, most = stated[party].low, stated[party].high
            evidence = tuple(sorted({*evidence, *stated[party].evidence}))
            if least == most or not least - rows.reach < rows.rows < most + rows.reach:
                yield stated[party]
                continue
        whole = round(min(max(rows.rows, least), most))  # the interval reaches it: it may lie between two numbers
        low, high = (min(max(rows.rows + off, least), most) for off in (-rows.reach, rows.reach))
        yield StatisticClaim(party, "", "count", whole, min(low, whole), max(high, whole), evidence)


def told_of_rows(view: View, level: float) -> dict[str, dict[Source, Counted]]:
    """All that is told of each party's number of rows under noise, by what tells it."""
    told: dict[str, dict[Source, Counted]] = {}
    for kind, total in ((NoisedMoments, NoisedMomentTotals), *TABLES):
        known = noise_on(view, kind)
        for one in released(view, kind, total) if known else ():
            told.setdefault(one.party, {}).update({(kind, f): c for f, c in _counted(one, known, level)})
    return told


def rows_but_for(
    source: Source, told: Mapping[Source, Counted], stated: StatisticClaim | None, level: float
) -> Counted | None:
    """A party's number of rows by all that tells it but one source; None where nothing else does."""
    counted = [*(c for other, c in told.items() if other != source), *_beside(stated)]
    return _average(counted, level) if counted else None


def _beside(claim: StatisticClaim | None) -> list[Counted]:
    """What is stated of a number of rows without noise, anywhere in its interval alike."""
    if claim is None:
        return []
    width = claim.high - claim.low
    return [Counted(claim.estimate, width / sqrt(12), width, claim.evidence)]


def _average(counted: Sequence[Counted], level: float) -> Counted:
    """By precision; at least one row."""
    if len(counted) == 1:
        return replace(counted[0], rows=max(counted[0].rows, 1.0))
    precision = np.array([1 / max(c.spread, LEAST) ** 2 for c in counted])
    rows = float(precision @ [c.rows for c in counted] / precision.sum())
    spread = 1 / sqrt(float(precision.sum()))
    evidence = tuple(sorted({n for c in counted for n in c.evidence}))
    return Counted(max(rows, 1.0), spread, float(ndtri((1 + level) / 2)) * spread, evidence)


def _counted(told: Told, known: Known, level: float) -> Iterator[tuple[str, Counted]]:
    """What one release says of the number of rows: its count, or the sum of the cells of each feature's table."""
    if "counts" not in told.values:
        noise = known["count", ""]
        rows = told.values["count"] / noise["sensitivity"]
        yield "", Counted(rows, spread(noise), _reach(noise, level), told.evidence)
        return
    for f, cells in told.values["counts"].items():
        rows, each = rows_by_value(cells, known["table", f]), spread(known["table", f])
        width = each * sqrt(rows.size)
        yield f, Counted(float(rows.sum()), width, float(ndtri((1 + level) / 2)) * width, told.evidence)


def _moments(told: Told, known: Known, counted: Counted, level: float) -> Iterator[StatisticClaim]:
    features = [f for statistic, f in known if statistic == "sum"]
    z, rows = float(ndtri((1 + level) / 2)), counted.rows
    per_row = z / rows if rows > counted.reach else inf  # a count that may be noise alone says nothing of ratios
    spare = {key: spread(p) for key, p in known.items()}
    for i, f in enumerate(features):
        noise = known["sum", f]
        middle, half = (noise["high"] + noise["low"]) / 2, (noise["high"] - noise["low"]) / 2
        mean, square = (told.values[n][i] / noise["sensitivity"] / rows for n in ("sums", "squares"))
        mean, square = float(np.clip(mean, -1, 1)), float(np.clip(square, 0, 1))
        error = per_row * hypot(spare["sum", f], mean * counted.spread)
        yield told.claim(f, "mean", _cut(mean, error, -1.0), middle, half)
        variance = max(square - mean**2, 0.0)
        off = per_row * hypot(spare["square", f], square * counted.spread) + 2 * abs(mean) * error
        std, low, high = (sqrt(x) for x in _cut(variance, off, 0.0))
        yield told.claim(f, "std", (std, low, high), 0.0, half)


def _cut(x: float, off: float, lowest: float) -> Ends:
    """Estimate and ends, within what the statistic can be: up to 1."""
    return x, max(x - off, lowest), min(x + off, 1.0)


def _extremes(told: Told, known: Known, level: float) -> Iterator[StatisticClaim]:
    for name in ("minimum", "maximum"):
        statistic: Statistic = "minimum" if name == "minimum" else "maximum"
        for i, f in enumerate(f for s, f in known if s == name):
            noise, place = known[name, f], int(told.values[name][i])
            if place < 0:
                continue
            low, high, step = noise["low"], noise["high"], (noise["high"] - noise["low"]) / noise["grid"]
            value = low + step * place
            if "level" in noise:
                level_of = f"{noise['level']:g}"
                yield StatisticClaim(told.party, f, "quantile", value, low, high, told.evidence, level_of)
                continue
            off = 2 / noise["epsilon"] * log((noise["grid"] + 1) / (1 - level))
            ends = (low, high)
            if off < 0.5 and noise["rank"] == 1:
                ends = (value - step, value + step)
            elif off < noise["rank"] - 0.5:
                ends = (low, value + step) if name == "minimum" else (value - step, high)
            yield StatisticClaim(told.party, f, statistic, value, *ends, told.evidence)


def _shares(view: View, told: Told, known: Known, counted: Counted, level: float) -> Iterator[StatisticClaim]:
    binary, z = view.public.schema.get("task") == "binary", float(ndtri((1 + level) / 2))
    for f, cells in told.values["counts"].items():
        noise = known["table", f]
        rows, each = rows_by_value(cells, noise), spread(noise)
        most = float(np.clip(2 * rows.sum(axis=1).max(initial=1.0), 2.0, MOST_ROWS))
        total, lacking, part = counted.rows, (counted.rows - float(rows.sum())) / len(rows), 1 / len(rows)
        per_row = z / total if total > counted.reach else inf
        for value, own in zip(noise["values"], rows, strict=True):
            share = float(np.clip((own.sum() + lacking) / total, 0, 1))
            around = hypot(each * sqrt(own.size * (1 - part)), counted.spread * (part - share))
            yield told.claim(f, "frequency", _cut(share, per_row * max(around, LEAST), 0.0), value=value)
            ends = _rate(own, noise, most, level) if binary and own.size == 2 else None
            if ends is not None:
                yield told.claim(f, "target_rate", ends, value=value)


def _rate(own: NDArray[np.float64], noise: Mapping[str, Any], most: float, level: float) -> Ends | None:
    """The share of the second class among the rows of a value, by the noised rows of both (2,), and the ends of what is
    likely given these. None where nobody may hold the value: of many that nobody holds noise makes some look held.
    """
    each, total, z = spread(noise), float(own.sum()), float(ndtri((1 + level) / 2))
    if total <= z * each * sqrt(2):
        return None
    rate = float(np.clip(own[1] / total, 0, 1))
    if total > SURELY * each:
        return _cut(rate, z * each * hypot(1 - rate, rate) / total, 0.0)
    rows, weight = row_numbers(most)
    second = np.floor(RATES * (rows[:, None] + 1))  # of 0 .. rows, each as likely
    likelihood = log_density(own[0] - (rows[:, None] - second), noise) + log_density(own[1] - second, noise)
    mass = np.exp(likelihood - log_density(own, noise).sum()) * weight[:, None] / len(RATES)
    if mass.sum() < level / (1 - level):
        return None
    rates = (second / rows[:, None]).ravel()
    order = np.argsort(rates, kind="stable")
    below = np.cumsum(mass.ravel()[order]) / mass.sum()
    places = np.searchsorted(below, [(1 - level) / 2, (1 + level) / 2])
    low, high = rates[order][np.minimum(places, rates.size - 1)].tolist()
    return min(max(rate, low), high), low, high


def row_numbers(most: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers of rows that a value which is held may have, up to `most`, and how likely each is: every order of
    magnitude alike.
    """
    rows, steps = np.unique(np.rint(np.geomspace(1, most, STEPS)), return_counts=True)  # many steps round to few rows
    return rows, steps / STEPS


def log_density(
    x: NDArray[np.float64], noise: Mapping[str, Any], cells: int = 1, beside: float = 0.0
) -> NDArray[np.float64]:
    """Of the noise of a sum of so many cells, up to a constant. Of up to `MOST_LAPLACE` Laplace ones it is that of the
    difference of two gamma variables, whose tails are no normal distribution's. `beside`: the deviation of another
    number's noise that is added; it makes either wider.
    """
    density: NDArray[np.float64]
    if noise["kind"] == "discrete-laplace" and 0 < cells <= MOST_LAPLACE:
        order, scale = cells - 0.5, noise["scale"] / noise["sensitivity"]
        z = np.maximum(np.abs(x) / hypot(scale, beside / sqrt(2 * cells)), FLAT)
        density = order * np.log(z) + np.log(kve(order, z)) - z
        return density
    density = -0.5 * (x / hypot(spread(noise) * sqrt(cells), beside)) ** 2
    return density


def rows_by_value(cells: Any, noise: Mapping[str, Any]) -> NDArray[np.float64]:
    """(k, classes or 1) noised rows of a table."""
    rows: NDArray[np.float64] = np.asarray(cells, np.float64).reshape(len(noise["values"]), -1) / noise["sensitivity"]
    return rows


def spread(noise: Mapping[str, Any]) -> float:
    """The standard deviation of the noise on one number, in units of the sensitivity."""
    if noise["kind"] == "discrete-gaussian":
        return float(noise["scale"]) / float(noise["sensitivity"])
    decay = exp(-1 / noise["scale"])
    return sqrt(2 * decay) / (1 - decay) / float(noise["sensitivity"])


def _reach(noise: Mapping[str, Any], level: float) -> float:
    """How far the noise of one number goes in either direction with chance `level`, in units of the sensitivity."""
    steps = float(noise["scale"]) / float(noise["sensitivity"])
    if noise["kind"] == "discrete-gaussian":
        return float(ndtri((1 + level) / 2)) * steps
    return -log(1 - level) * steps
