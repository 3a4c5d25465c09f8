"""Decides, for each setting, kind of adversary and asset: leaks, no leak above the ceiling, or inconclusive.

* *leaks*: a fact shows it; or some series gains more than the floor over the prior, in the mean over clusters, for one
  party or in one cluster, at level alpha over the whole audit (`significance`).
* *no leak above c*: attacks made claims and none failed, every series that could hide a leak is bounded below c
  (`ceilings`): overall, and for each party and column; nothing told to such an adversary stayed unread; every control
  held, those that show the attack's power at this strength among them.
* *inconclusive*: everything else. `missing` says what it would take.

A weak attack, a small sample and an unread message all end here: silence is no evidence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakledger.attacks.base import whose
from leakledger.audit.bounds import above_bounds
from leakledger.audit.records import SCORER, CaseRecord, Ruling, failed_controls
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.summary import advantage_interval
from leakledger.audit.verdicts.evidence import Cell, Key, Series, cells
from leakledger.audit.verdicts.missing import missing_for
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.significance import holm, in_one_cluster, of_any, over_clusters

TINY = 1e-300  # what a p-value of 0 is divided by


@dataclass(frozen=True)
class Test:
    """One hypothesis: that a series, or a part of it, gains no more than the floor."""

    series: Series
    where: str  # "": in the mean
    p: float
    advantage: float  # of what it is about


@dataclass(frozen=True)
class Failures:
    """The attacks, by setting, that failed a control (`failed_controls`) or got more than no adversary can
    (`above_bounds`): what they found shows no leak. Where the scoring itself failed, nothing found shows anything.
    """

    attacks: frozenset[tuple[str, str]]

    def trusts(self, setting: str, attack: str) -> bool:
        return not {(setting, attack), (setting, SCORER)} & self.attacks


@dataclass(frozen=True)
class _Tested:
    """Of one cell: the series of trusted attacks, their tests, and the p-value of the cell, adjusted for all cells that
    need one; None where a fact decides, or nothing can be tested.
    """

    usable: Sequence[Series]
    tests: Sequence[Test]
    p: float | None
    broken: Failures


def rulings(records: Sequence[CaseRecord], policy: Policy) -> tuple[Ruling, ...]:
    """One for each cell of the verdict table, in its order."""
    found, broken = cells(records), Failures(failed_controls(records) | above_bounds(records))
    usable = {key: [s for s in cell.series if broken.trusts(key[0], s.attack)] for key, cell in found.items()}
    tests = {key: [t for s in series for t in hypotheses(s, policy)] for key, series in usable.items()}
    family = [key for key, cell in found.items() if tests[key] and not _shown(key, cell, broken)]
    adjusted = dict(zip(family, holm([of_any([t.p for t in tests[key]]) for key in family]), strict=True))
    return tuple(
        _rule(records, key, cell, _Tested(usable[key], tests[key], adjusted.get(key), broken), policy)
        for key, cell in found.items()
    )


def hypotheses(series: Series, policy: Policy) -> Iterator[Test]:
    """What is tested of a series: its mean, each party's, each single cluster. How many does not depend on results."""
    if series.only_bounded:
        return
    excess = series.gains - policy.floor * series.rooms
    if (p := over_clusters(excess, series.seeds)) is not None:
        yield Test(series, "", p, _mean(series))
    parties = sorted(set(series.victims))
    for victim in parties if len(parties) > 1 else ():
        own = series.of(victim)
        if (p := over_clusters(own.gains - policy.floor * own.rooms, own.seeds)) is not None:
            yield Test(own, f"of {whose(victim)}", p, _mean(own))
    for k in np.flatnonzero(series.spreads > 0):
        where = f"in one batch, of {whose(series.victims[k])} under seed {series.seeds[k]}"
        p = in_one_cluster(float(excess[k]), float(series.spreads[k]), series.draws)
        yield Test(series, where, p, float(series.advantages[k]))


def _rule(
    records: Sequence[CaseRecord],
    key: Key,
    cell: Cell,
    tested: _Tested,
    policy: Policy,
) -> Ruling:
    ruling = Ruling(*key, "inconclusive", policy.ceiling, p=tested.p)
    if facts := _shown(key, cell, tested.broken):
        return replace(_measured(ruling, gets_most(key[2], cell, tested.usable)), verdict="leaks", reasons=facts)
    if (best := shown_to_get_most(tested.tests, tested.p, policy.alpha)) is not None:
        where = f" {best.where}" if best.where else ""
        reason = f"{best.series.who} gets more than the prior{where}"
        return replace(_measured(ruling, best.series), verdict="leaks", reasons=(reason,))
    ruling = _measured(ruling, gets_most(key[2], cell, tested.usable))
    missing = tuple(missing_for(records, key, cell, tested.usable, policy))
    return replace(ruling, verdict="inconclusive" if missing else "no leak", missing=missing)


def shown_to_get_most(tests: Sequence[Test], p: float | None, alpha: float) -> Test | None:
    """Of the tests that show a leak, one of the series that gets most; None where none does. `p` is that of the cell,
    adjusted: what multiplies the smallest of its tests, for the others and for the other cells, multiplies each.
    """
    smallest = min((t.p for t in tests), default=1.0)
    if p is None or p > alpha:
        return None
    shown = [t for t in tests if t.p <= max(smallest, alpha * smallest / max(p, TINY))]
    return max(shown, key=lambda t: (*_got(t.series), -t.p))


def gets_most(asset: str, cell: Cell, usable: Sequence[Series]) -> Series | None:
    """The series that gets most of those that a verdict rests on: what is quoted for a cell is never the lesser attack.

    Of columns, worst records and surest members only where there is nothing else, since the prior's guess is not the
    best one of them.
    """
    told = [s for s in usable or cell.series if asset != "columns" or not s.column]
    return max([s for s in told if not s.only_bounded] or told, key=_got, default=None)


def _shown(key: Key, cell: Cell, broken: Failures) -> tuple[str, ...]:
    """The facts that show a leak: of trusted attacks that were never wrong where they vouched for something."""
    wrong = {attack for attack, _ in cell.wrong}
    trusted = (said for attack, said in cell.facts if attack not in wrong and broken.trusts(key[0], attack))
    return tuple(dict.fromkeys(trusted))


def _mean(series: Series) -> float:
    return float(series.advantages.mean())


def _got(series: Series) -> tuple[float, float]:
    """How much a series gets: its advantage, and of equal ones how much was open, since what could be guessed tells
    less.
    """
    return _mean(series), float(series.rooms.mean())


def _measured(ruling: Ruling, series: Series | None) -> Ruling:
    """The ruling with what was measured of the series that it speaks of."""
    if series is None:
        return ruling
    advantage, low, high = stated_advantage(series)
    return replace(
        ruling,
        attack=series.attack,
        observers=series.observers,
        metric=series.metric,
        advantage=advantage,
        low=low,
        high=high,
        clusters=len(series.gains),
        seeds=len(set(series.seeds)),
        level=series.level,
    )


def stated_advantage(series: Series) -> tuple[float | None, float | None, float | None]:
    """The advantage of a series with its interval, the one that its scores state; None where the prior is perfect."""
    priors = PERFECT[series.metric] - series.rooms
    return advantage_interval(series.metric, list(priors + series.gains), list(priors), series.seeds)
