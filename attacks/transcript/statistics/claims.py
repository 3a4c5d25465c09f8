"""Claims from facts: counts, means, deviations, frequencies and sizes of single parties, exact but for rounding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.observed.stated import vanished
from leakledger.attacks.transcript.statistics.exact import Fact

ROUNDING = 1e-9  # relative, of sums of float64 parts
Entry = tuple[float, Fact]  # a value, and the fact that has it


def named(slot: Slot) -> Statistic | None:
    """The statistic that a posterior of this slot is about: the mean of a sum, the deviation of squares."""
    if slot.value:
        return "frequency" if slot.kind == "sum" else None
    names: Mapping[str, Statistic] = {"count": "count", "sum": "mean", "square": "std", "size": "size"}
    return names.get(slot.kind)


def known_claims(facts: Sequence[Fact]) -> list[StatisticClaim]:
    """What facts about single parties amount to; of several about the same number, the first."""
    by_party: dict[str, dict[Slot, Entry]] = {}
    for fact in (f for f in facts if len(f.group) == 1):
        mine = by_party.setdefault(next(iter(fact.group)), {})
        for slot, value in fact.values.items():
            mine.setdefault(slot, (value, fact))
    return [claim for party, known in by_party.items() for claim in _of_party(party, known)]


def exact(
    party: str, feature: str, statistic: Statistic, x: float, by: float, *facts: Fact, value: str = ""
) -> StatisticClaim:
    """A claim that is right to within `by`."""
    evidence = tuple(sorted({number for f in facts for number in f.evidence}))
    return StatisticClaim(party, feature, statistic, x, x - by, x + by, evidence, value)


def _of_party(party: str, known: Mapping[Slot, Entry]) -> Iterable[StatisticClaim]:
    rows, counted = known.get(Slot("count"), (0.0, None))
    if counted is not None:
        yield exact(party, "", "count", _whole(rows), 0.0, counted)
    for slot, (x, fact) in known.items():
        if slot.kind == "size":
            yield exact(party, slot.feature, "size", _whole(x), 0.0, fact)
        elif slot.kind == "sum" and counted is not None and rows > 0.5:
            mean, lost = x / _whole(rows), fact.within.get(slot, 0.0) / _whole(rows)
            name: Statistic = "frequency" if slot.value else "mean"
            yield exact(party, slot.feature, name, mean, ROUNDING * abs(mean) + lost, counted, fact, value=slot.value)
            if not slot.value:
                yield from _deviation(party, slot.feature, mean, _whole(rows), known, (counted, fact))


def _deviation(
    party: str, feature: str, mean: float, rows: float, known: Mapping[Slot, Entry], behind: tuple[Fact, Fact]
) -> Iterable[StatisticClaim]:
    if (around := spread_around(feature, mean, rows, known, behind[1])) is not None:
        variance, lost, fact = around
        std = sqrt(variance)
        claim = exact(party, feature, "std", std, sqrt(variance + lost) - std + ROUNDING * std, *behind, fact)
        yield replace(claim, low=max(claim.low, 0.0))


def spread_around(
    feature: str, mean: float, rows: float, known: Mapping[Slot, Entry], summed: Fact
) -> tuple[float, float, Fact] | None:
    """The variance of rows around their mean, how far rounding takes it, and the fact that has the squares; None where
    there is none. `summed`: the fact that has the sum.
    """
    far = summed.within.get(Slot("sum", feature), 0.0) / rows
    for kind in ("deviation", "square"):
        x, fact = known.get(Slot(kind, feature), (0.0, None))
        if fact is not None:
            centre = fact.centre[feature, ""] if kind == "deviation" else 0.0
            around, offset = x / rows, (mean - centre) ** 2
            variance, lost = max(around - offset, 0.0), 1e-12 * (around + mean**2 + centre**2)
            lost += fact.within.get(Slot(kind, feature), 0.0) / rows + (2 * abs(mean - centre) + far) * far
            lost += float(vanished(mean, centre, sqrt(max(around, 0.0))))
            return variance, lost, fact
    return None


def _whole(x: float) -> float:
    return float(round(x)) if abs(x - round(x)) < 0.5 else x
