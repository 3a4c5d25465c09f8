"""What a search for the power of a Yeo-Johnson transformation tells: moments of a party's columns, bent and plain.

* `yeo-johnson.local` has mean and squared deviations of a client's columns under every power that is tried, and the
  power 1, which changes nothing, is the middle one of the first round: the server reads mean and deviation as they are.
* `yeo-johnson.global` tells everyone how many rows all have, and mean and deviation under the last power. All clients
  but one subtract their own: the rows of the last one exactly, and mean and deviation of its bent columns. Quartiles
  keep their order under the curve, so those of the bent column (`quartiles`), bent back, are those of the column. There
  is no claim where the curve leads back to no number that float64 tells from the next (`preprocess.power`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, sqrt

import numpy as np

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.attacks.observed.stated import ROUNDING as NOISE
from leakledger.attacks.observed.stated import vanished
from leakledger.attacks.transcript.statistics.own import OwnTable, latest_before, rows_of_the_last, the_one_outside
from leakledger.attacks.transcript.statistics.quartiles import quartiles
from leakledger.preprocess.messages import GlobalPowers, LocalLogs, LocalPowerMoments, TriedPowers
from leakledger.preprocess.views import Message, NumericBlock, View

POWERED = (LocalPowerMoments, TriedPowers, GlobalPowers)
UNCHANGED = 1e-9  # how far from 1 a power may be that changes nothing
ROUNDING = 1e-9  # relative, of moments in float64


def power_claims(view: View, tables: Mapping[str, OwnTable], level: float) -> Iterable[StatisticClaim]:
    """Claims about senders of moments, and about the one client outside. Raises Unreadable as tables do."""
    for logs in view.received(LocalLogs):
        for m in view.on(LocalPowerMoments, sender=logs.sender):
            if m.content is not None:
                yield from _unchanged(view, m, logs)
    last, told = the_one_outside(view), next(view.readable(GlobalPowers), None)
    if last is not None and told is not None and tables:
        count = rows_of_the_last(last, tables, told)
        yield count
        if count.estimate > 0:
            yield from _bent_back(view, count, told, tables, level)


def _unchanged(view: View, m: Message, logs: Message) -> Iterator[StatisticClaim]:
    """Mean and deviation of the columns that a message has under power 1."""
    if (tried := latest_before(view, TriedPowers, m.sequence)) is None:
        return
    names = numeric_names(view.public)
    for (g, c), power in np.ndenumerate(tried.payload.power):
        mean, squares = float(m.payload.mean[g, c]), float(m.payload.squares[g, c])
        if abs(power - 1) <= UNCHANGED and c < len(names) and isfinite(mean) and isfinite(squares):
            variance = squares / max(logs.payload.count, 1)
            lost = float(vanished(mean, sqrt(variance)))
            std, low, high = (sqrt(max(v, 0.0)) for v in (variance, variance - lost, variance + lost))
            evidence = tuple(sorted((tried.sequence, logs.sequence, m.sequence)))
            by = ROUNDING * (abs(mean) + std)
            yield StatisticClaim(m.sender, names[c], "mean", mean, mean - by, mean + by, evidence)
            yield StatisticClaim(m.sender, names[c], "std", std, max(low - by, 0.0), high + by, evidence)


def _bent_back(
    view: View, count: StatisticClaim, told: Message, tables: Mapping[str, OwnTable], level: float
) -> Iterator[StatisticClaim]:
    curves = {n: NumericBlock(n, 0, 0.0, 1.0, power=float(p)) for n, p in _columns(view, told.payload.power)}
    bent = {
        who: replace(t, columns={n: c.encoded(t.column(n)) for n, c in curves.items()}) for who, t in tables.items()
    }
    claims = [count]
    for i, n in enumerate(curves):
        own = np.concatenate([t.column(n) for t in bent.values()])
        mean, std = float(told.payload.mean[i]), float(told.payload.std[i])
        with np.errstate(over="ignore"):
            squares = told.payload.count * np.square([mean, std, *own])
        if np.isfinite(squares).all():  # images of numbers of 10^100 may be beyond that
            claims += _last(count, n, own, told, mean, std)
    for claim in quartiles(claims, bent, level):
        curve, ends = curves[claim.feature], np.array([claim.estimate, claim.low, claim.high])
        ends[1:] += NOISE * np.abs(ends[1:]) * [-1, 1]
        back = curve.raw(ends)
        if np.abs(back).max() < np.abs(curve.raw([-np.inf, np.inf])).min():
            yield replace(claim, estimate=float(back[0]), low=float(back[1]), high=float(back[2]))


def _last(
    count: StatisticClaim, feature: str, own: np.ndarray, told: Message, mean: float, std: float
) -> Sequence[StatisticClaim]:
    """Mean and deviation of what all rows have less the `own` ones, with what rounding makes of sums that cancel."""
    rows, total = count.estimate, told.payload.count
    away = (mean - own.mean()) * len(own) / rows
    m, around, own_part = mean + away, total * std**2 / rows, ((own - mean) ** 2).sum() / rows
    variance = around - own_part - away**2
    noise = NOISE * np.sqrt(total)
    far = noise * (total / rows * (abs(mean) + std) + np.abs(own).sum() / rows)
    lost = noise * (around + own_part + away**2) + (2 * abs(away) + far) * far + float(vanished(mean, std, own.mean()))
    s, low, high = (float(np.sqrt(max(v, 0.0))) for v in (variance, variance - lost, variance + lost))
    slack = 1e-6 * (abs(m) + s)
    return [
        StatisticClaim(count.party, feature, "mean", m, m - slack - far, m + slack + far, count.evidence),
        StatisticClaim(count.party, feature, "std", s, max(low - slack, 0.0), high + slack, count.evidence),
    ]


def _columns(view: View, values: Iterable[float]) -> list[tuple[str, float]]:
    return list(zip(numeric_names(view.public), values, strict=False))
