"""Decides, for each setting, kind of adversary and asset: leaks, no leak above the ceiling, or inconclusive.

* *leaks*: a fact shows it; or some series gains more than the floor over the prior, in the mean over clusters, for one
  party or in one cluster, at level alpha over the whole audit (`significance`).
* *no leak above c*: attacks made claims and none failed, every series that could hide a leak is bounded below c
  (`ceilings`): overall, and for each party and column; nothing told to such an adversary stayed unread; every control
  held, those that show the attack's power at this strength among them.
* *inconclusive*: everything else. `missing` says what it would take.

A weak attack, a small sample and an unread message all end here: silence is no evidence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakledger.audit.bounds import above_bounds
from leakledger.audit.clusters import SEEDS, mean_interval
from leakledger.audit.leakage import SERVER, adversary
from leakledger.audit.records import (
    POWER,
    SCORER,
    UNTIMED,
    CaseRecord,
    Observers,
    Ruling,
    at_most,
    failed_controls,
    plural,
)
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.summary import advantage_interval
from leakledger.audit.verdicts.ceilings import fewest, independent, upper_bound
from leakledger.audit.verdicts.evidence import BOUNDED, CHECKS, Cell, Key, Series, cells, played_by
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.significance import FEWEST, holm, in_one_cluster, of_any, over_clusters

TINY = 1e-300  # what a p-value of 0 is divided by
NOTHING = 1e-12  # of a metric's scale: what rounding makes of a prior that is perfect


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
    (`above_bounds`): what they found shows no leak. Where the
    scoring itself failed, nothing found shows anything.
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
    """What is tested of a series: its mean, each party's, each single cluster. How many does not depend on results.

    Of a column and of what is `BOUNDED` nothing: the prior's guess is the best one of a whole batch, and another guess
    may beat it there without any message. They only bound what may leak.
    """
    if series.column or series.metric in BOUNDED:
        return
    excess = series.gains - policy.floor * series.rooms
    if (p := over_clusters(excess, series.seeds)) is not None:
        yield Test(series, "", p, _mean(series))
    parties = sorted(set(series.victims))
    for victim in parties if len(parties) > 1 else ():
        own = series.of(victim)
        if (p := over_clusters(own.gains - policy.floor * own.rooms, own.seeds)) is not None:
            yield Test(own, f"of {victim}", p, _mean(own))
    for k in np.flatnonzero(series.spreads > 0):
        where = f"in one batch, of {series.victims[k]} under seed {series.seeds[k]}"
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
        reason = f"{best.series.attack} by {'+'.join(best.series.observers)} gets more than the prior{where}"
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
    return max(_tested(told) or told, key=_got, default=None)


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


def _interval(series: Series) -> tuple[float, float] | None:
    """The interval of the advantage; an unseen cluster lies between the prior and perfect, or where one was seen."""
    values = series.advantages
    return mean_interval(values, series.seeds, (min(0.0, float(values.min())), 1.0))


def missing_for(
    records: Sequence[CaseRecord], key: Key, cell: Cell, usable: Sequence[Series], policy: Policy
) -> Iterator[str]:
    """What keeps a cell from the verdict that nothing leaks; nothing where it may be said."""
    yield from doubts_of(records, key, cell, usable)
    if key[2] != CHECKS:
        yield from dict.fromkeys(m for s in usable for m in _unbounded(s, policy))
        yield from (m for s in _tested(usable) for m in _unlikely(s, policy))


def doubts_of(records: Sequence[CaseRecord], key: Key, cell: Cell, usable: Sequence[Series]) -> Iterator[str]:
    """What keeps a cell from that verdict whatever its numbers are."""
    setting, kind, asset = key
    cases = [r for r in records if r.setting.id == setting]
    attacks = {s.attack for s in cell.series}
    yield from _failures(cases, attacks)
    for _, attack in sorted(above_bounds(cases)):
        if attack in attacks:
            yield f"{attack} gets more than no adversary can: the defense, or the truth, is not what it is taken for"
    yield from _untried(cases, cell.series, ("leaky", POWER) if asset == "records" else ("leaky",))
    for _, where in sorted(cell.wrong):
        yield f"{where} vouched for something that is not so"
    unseen = {u.topic for r in cases for u in r.unread if adversary(u.observers) == kind}
    if unseen:
        yield f"{len(unseen)} kind{'s' if len(unseen) > 1 else ''} of message unread: {', '.join(sorted(unseen))}"
    if asset == CHECKS:
        if not unseen:
            yield "that no check fired is no proof that nothing is told"
        return
    yield from dict.fromkeys(_silences(cell))
    if cell.left_out:
        yield f"no claim about {cell.left_out} of the attacked batches"
    if asset == "records":  # of which batches are counted, since not every client has one in each round
        yield from _unattacked_rounds(cases)
    else:
        yield from _left_out(usable, cases, kind)
    if not cell.series:
        yield "no attack made a claim"
    whole = _tested(usable)
    if whole and all(np.abs(s.rooms).max() < NOTHING for s in whole):
        yield "the prior alone has all of it right, so that no attack could show anything"


def _tested(series: Iterable[Series]) -> list[Series]:
    """Those that are tested and not only bounded (`hypotheses`)."""
    return [s for s in series if not s.column and s.metric not in BOUNDED]


def _silences(cell: Cell) -> Iterator[str]:
    """The attacks that made no claim as a whole, or none under some seeds, with what one of them said."""
    heard: dict[tuple[str, Observers], set[int]] = {}
    for s in cell.series:
        heard.setdefault((s.attack, s.observers), set()).update(s.seeds)
    for (attack, who), silent in sorted(cell.silent.items()):
        reason = min(silent.values())
        if spoken := heard.get((attack, who)):
            of = len(spoken | silent.keys())
            yield f"{attack} by {'+'.join(who)} made no claim in {len(silent)} of {plural(of, 'seed')}: {reason}"
        else:
            yield f"{attack} made no claim: {reason}"


def _unattacked_rounds(cases: Iterable[CaseRecord]) -> Iterator[str]:
    """How many rounds no batch was attacked of, in the case with most; nothing where there is none."""
    trained = [(int(u.value), r) for r in cases for u in r.utility if u.metric == "rounds"]
    left = [(n - len({t.round for t in r.trials if t.asset == "records" and t.victim}), n) for n, r in trained]
    most, rounds = max(left, default=(0, 0))
    if most > 0:
        yield f"{most} of {rounds} rounds of training were not attacked"


def _left_out(usable: Sequence[Series], cases: Sequence[CaseRecord], kind: str) -> Iterator[str]:
    """The adversaries of a kind of whom no attack says anything about some party, in every seed or in some: one that
    speaks of another asset alone, or to other adversaries, leaves this one open. Nothing where no attack speaks at all.
    """
    about: dict[Observers, dict[int, set[str]]] = {}
    for case in cases if usable else ():
        for who in (o for o in played_by(case) if adversary(o) == kind):
            about.setdefault(who, {})[case.seed] = set()
    for s in usable:
        for seed, victim in zip(s.seeds, s.victims, strict=True):
            about[s.observers][seed].add(victim)
    for who, seeds in sorted(about.items()):
        outside = cases[0].setting.parties - sum(o != SERVER for o in who)
        fewer = [len(victims) for victims in seeds.values() if len(victims) < outside]
        if fewer:
            some = f" in {len(fewer)} of {len(seeds)} seeds" if len(fewer) < len(seeds) else ""
            yield f"no claim by {'+'.join(who)} about {outside - min(fewer)} of {outside} parties{some}"


def _untried(cases: Iterable[CaseRecord], series: Iterable[Series], kinds: Sequence[str]) -> Iterator[str]:
    """The attacks of which nothing shows that they work here: under some seeds a control of such a kind was not even
    played.
    """
    played = {(c.attack, c.kind, r.seed) for r in cases for c in r.controls}
    heard: dict[str, set[int]] = {}
    for s in series:
        heard.setdefault(s.attack, set()).update(s.seeds)
    for attack, seeds in sorted(heard.items()):
        for kind in kinds:
            if without := sum((attack, kind, seed) not in played for seed in seeds):
                some = f" in {without} of {len(seeds)} seeds" if without < len(seeds) else ""
                yield f"no {kind} control of {attack} was played{some}"


def _failures(cases: Iterable[CaseRecord], attacks: set[str]) -> Iterator[str]:
    """The controls that did not hold, of these attacks and of the scorer."""
    own = {*attacks, SCORER}
    failed = {
        (c.kind, c.attack, c.expected == UNTIMED) for r in cases for c in r.controls if not c.passed and c.attack in own
    }
    for kind, attack, untimed in sorted(failed):
        if untimed:
            yield f"{attack} reads times, and planted messages have none to show that it works"
        elif kind == POWER:
            yield f"{attack} gets nowhere against rows that were planted under this batch size and defense"
        else:
            yield f"the {kind} control of {attack} failed"


def _unlikely(series: Series, policy: Policy) -> Iterator[str]:
    """The cluster that gets more than luck explains, of those that no test of their own can judge because nobody knows
    how the prior's guesses scatter there. A score of mean b that is never negative reaches v in at most b / v of all
    cases (Markov's inequality). It is no proof, since b is an estimate; but one batch in sixty that is told whole is
    not safe because the mean of all lies below the ceiling.
    """
    if PERFECT[series.metric] != 1:
        return
    values, baselines = 1 - series.rooms + series.gains, np.maximum(1 - series.rooms, 0.0)
    alone = (series.spreads > 0) & (series.draws >= FEWEST)  # what `in_one_cluster` judges
    untested = ~alone & (series.gains > policy.ceiling * series.rooms) & (values > 0)
    likely = np.divide(baselines, values, out=np.ones_like(values), where=untested)
    k = int(np.argmin(likely)) if len(likely) else 0
    if untested.any() and len(likely) * likely[k] <= policy.alpha:
        who = f"{series.attack} by {'+'.join(series.observers)}"
        of = f" of {series.victims[k]}" if series.victims[k] else ""
        yield f"{who} gets {values[k]:.2f}{of} under seed {series.seeds[k]}, where the prior gets {baselines[k]:.2f}"


def _unbounded(series: Series, policy: Policy) -> Iterator[str]:
    """Why a series, or that of one party or column, is not bounded below the ceiling, its losses left out."""
    who = f"{series.attack} by {'+'.join(series.observers)}"
    limits = _interval(series)
    if limits is not None and limits[1] < 0 and not series.column:
        yield f"{who} does worse than the prior, so it is no measure of what there is"
    needed = max(fewest(policy.ceiling, policy.alpha), SEEDS)
    parties = sorted(set(series.victims))
    parts = [series, *(series.of(v) for v in parties)] if len(parties) > 1 else [series]
    for part in parts:
        values = independent(part.without_losses.advantages, part.seeds, needed)
        if len(values) < needed:
            seeds = len(set(part.seeds))
            yield f"{plural(seeds, 'seed')}, of at least {needed} that no leak above {policy.ceiling:g} needs"
            return
        bound = upper_bound(values, policy.alpha)
        if not bound < policy.ceiling:  # nor where it is no number
            of = f" of {part.victims[0]}" if part is not series else ""
            column = f" in column {series.column}" if series.column else ""
            among = plural(len(values), "independent cluster")
            yield f"{who} may get up to {at_most(bound, 2)}{of}{column}, in {among}"
            return
