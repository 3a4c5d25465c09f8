"""Checks of leakage: is it below a ceiling, and has it grown since the baseline?

*Ceiling* quotes `audit.verdicts`: its hypotheses with the ceiling in place of the floor, its bound that assumes nothing
on the shape of scores, and its list of what is missing for "no leak above".

*Regression* compares one number per cluster, L: what the attack gains over the prior, as a share of what the prior
leaves to gain (`audit.gate.levels`). Every attack by every adversary of the kind, every metric, and the worst record of
batches beside the mean: one hypothesis each. The check fails where one of them grew, at alpha over the gate, by more
than the floor in the mean; it passes where all of their upper bounds lie below the margin, controls held and nothing
new is unread; else it is inconclusive.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakledger.audit.gate.differences import (
    Difference,
    Floats,
    Sample,
    clusters_needed,
    enough_to_fail,
    highest_growth,
    paired,
    smallest_p,
    unpaired,
    unseen,
)
from leakledger.audit.gate.levels import Levels, levels, mean_share
from leakledger.audit.gate.policy import Gate, LeakageGate
from leakledger.audit.gate.snapshot import UNTRUE, Cell, Measure, Snapshot
from leakledger.audit.gate_records import Status
from leakledger.audit.intervals import no_less
from leakledger.audit.records import POWER, SCORER
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.significance import FEWEST, of_any


@dataclass(frozen=True)
class Compared:
    """One series of the candidate beside the same of the baseline; `silent` says which side made no claim."""

    measure: Measure
    difference: Difference
    now: float
    now_low: float | None
    before: float
    silent: str
    fewer: int  # clusters of the baseline about which the candidate claims nothing
    more: int  # clusters of the candidate about which the baseline claims nothing: nobody knows what grew there
    pairs: bool = True  # of the same seeds
    trusted: bool = True  # its attack, and the scorer, failed no control in either run


@dataclass(frozen=True)
class Regression:
    """All series of one cell, and the p-value that one of them grew by more than the floor, before Holm."""

    cell: Cell
    gate: LeakageGate
    compared: tuple[Compared, ...]
    p: float | None
    doubts: tuple[str, ...]  # what forbids a pass, whatever the numbers are

    @property
    def clusters(self) -> int:
        return min((c.difference.clusters for c in self.compared), default=0)

    @property
    def most(self) -> float:
        """The most that any series gets that grew by more than the floor, however sure that is."""
        return max((c.now for c in self.compared if c.trusted and c.difference.mean > self.gate.floor), default=0.0)


def regressions(
    now: Snapshot, before: Snapshot, matches: Mapping[str, str], gates: Sequence[LeakageGate], gate: Gate
) -> Iterator[Regression]:
    """One for each cell that a gate judges and that either run has a claim about, or played an attack on."""
    mine = _by_cell(now.measures, {s: s for s in matches})
    theirs = _by_cell(before.measures, {b: a for a, b in matches.items()})
    for cell in sorted({*mine, *theirs}):
        judge = next((g for g in gates if g.judges(cell.adversary, cell.asset)), None)
        if judge is None or judge.regression is False:
            continue
        a, b = mine.get(cell, {}), theirs.get(cell, {})
        names = sorted({*a, *b}, key=str)
        found = (_compared(a.get(k), b.get(k), now, before, gate.alpha, judge.margin) for k in names)
        failed = _mistrusted(now, cell.setting) | _mistrusted(before, matches[cell.setting])
        compared = tuple(replace(c, trusted=not failed & {c.measure.attack, SCORER}) for c in found)
        yield Regression(
            cell, judge, compared, _p(compared, judge), tuple(_doubts(cell, compared, now, before, matches))
        )


def _mistrusted(run: Snapshot, setting: str) -> set[str]:
    """The attacks that failed a control there. One without power there still has what it got."""
    return {b.attack for b in run.broken if b.setting == setting and b.kind not in (POWER, UNTRUE)}


def _by_cell(measures: Sequence[Measure], names: Mapping[str, str]) -> dict[Cell, dict[tuple[object, ...], Measure]]:
    """The series by cell and name, under the candidate's names of settings."""
    found: dict[Cell, dict[tuple[object, ...], Measure]] = {}
    for m in measures:
        if m.cell.setting in names:
            cell = m.cell._replace(setting=names[m.cell.setting])
            found.setdefault(cell, {})[m.name] = m
    return found


def _p(compared: Sequence[Compared], gate: LeakageGate) -> float | None:
    """Bonferroni over the series of a cell; those that grew by less than the floor count, and prove nothing."""
    values = [c.difference.p for c in compared if c.difference.p is not None]
    if not values:
        return None
    return of_any([_grown(c, gate) for c in compared if c.difference.p is not None])


def _grown(c: Compared, gate: LeakageGate) -> float:
    """The p-value of one series; 1 where it grew by no more than the floor, or nobody can trust it."""
    d = c.difference
    return d.p if c.trusted and d.p is not None and d.mean > gate.floor else 1.0


def _compared(
    a: Measure | None, b: Measure | None, now: Snapshot, before: Snapshot, alpha: float, margin: float
) -> Compared:
    """One series; a side that made no claim has the prior alone, so 0 in each seed."""
    measure = a or b
    assert measure is not None
    mine, theirs = levels(a, b)
    own = _sample(mine, now.seeds)
    fewer, more, pairs = 0, 0, set(now.seeds) == set(before.seeds)
    if pairs:
        difference = _paired(mine, theirs, now.seeds, alpha)
        fewer, more = (len(x.keys() - y.keys()) if a and b else 0 for x, y in ((theirs, mine), (mine, theirs)))
    else:
        each = max(
            Counter((run, seed) for run, of in enumerate((mine, theirs)) for seed, _, _ in of).values(), default=1
        )
        both = (_with_silence(mine, now.seeds, each), _with_silence(theirs, before.seeds, each))
        difference = _of_other_seeds(*both, alpha, margin)
    alone = paired(own.values, np.zeros(1), own.seeds, alpha)
    silent = "" if a and b else "the run" if b else "the baseline"
    return Compared(measure, difference, mean_share(a), alone.low, mean_share(b), silent, fewer, more, pairs)


def _sample(levels: Levels, seeds: Sequence[int]) -> Sample:
    if not levels:
        return Sample.of(np.zeros(len(seeds)), seeds)
    return Sample.of(list(levels.values()), [seed for seed, _, _ in levels])


def _with_silence(levels: Levels, seeds: Sequence[int], each: int) -> Sample:
    """The sample, with the prior alone for clusters without a claim, `each` seed having so many: what an attack gets
    grows with how often it gets something, and other seeds have no clusters to compare one by one.
    """
    claimed = Counter(seed for seed, _, _ in levels)
    silent = [seed for seed in sorted({*seeds}) for _ in range(each - claimed[seed])]
    return Sample.of([*levels.values(), *np.zeros(len(silent))], [*(seed for seed, _, _ in levels), *silent])


def _paired(a: Levels, b: Levels, seeds: Sequence[int], alpha: float) -> Difference:
    """Clusters that both have, or the other's against 0 where one has none."""
    keys = sorted(a.keys() & b.keys()) if a and b else sorted({*a, *b})
    candidate: Floats = np.array([a.get(k, 0.0) for k in keys])
    baseline: Floats = np.array([b.get(k, 0.0) for k in keys])
    return paired(candidate, baseline, [seed for seed, _, _ in keys], alpha)


def _of_other_seeds(candidate: Sample, baseline: Sample, alpha: float, margin: float) -> Difference:
    """Two samples: growth is tested as by Welch, and bounded with no assumption on clusters that neither met."""
    found = unpaired(candidate, baseline, alpha)
    if found.high is None:
        return found
    return replace(found, high=max(found.high, highest_growth(candidate, baseline, alpha, margin)))


def _doubts(
    cell: Cell, compared: Sequence[Compared], now: Snapshot, before: Snapshot, matches: Mapping[str, str]
) -> Iterator[str]:
    """What keeps a check from passing, apart from its numbers."""
    attacks = {c.measure.attack for c in compared} | {SCORER}
    for run, setting, where in ((now, cell.setting, "this run"), (before, matches[cell.setting], "the baseline")):
        for broken in run.broken:
            if broken.setting == setting and broken.attack in attacks and broken.kind != UNTRUE:
                yield f"the {broken.kind} control of {broken.attack} did not hold in {where}"
    known = {t for s, kind, t in before.unread if (s, kind) == (matches[cell.setting], cell.adversary)}
    new = sorted({t for s, kind, t in now.unread if (s, kind) == (cell.setting, cell.adversary)} - known)
    if new:
        yield f"messages that no attack reads and the baseline did not have: {', '.join(new)}"
    played = {p.attack: p for p in now.played if (p.setting, p.adversary) == (cell.setting, cell.adversary)}
    for c in compared:
        if c.silent == "the run" and c.measure.attack not in played:
            yield f"{c.measure.attack} was not played, and was in the baseline"
        elif c.silent == "the run" and not played[c.measure.attack].tried:
            silence = played[c.measure.attack].silence or "of this series"
            yield f"{c.measure.attack} made no claim ({silence}), and no control shows that it works here"
        elif c.fewer:
            yield f"{c.measure.attack} makes no claim about {c.fewer} clusters that it attacked in the baseline"
        if c.more:
            yield f"{c.measure.attack} makes claims about {c.more} clusters of which the baseline has none"


def answer(r: Regression, p: float | None, family: int, gate: Gate) -> tuple[Status, list[str], Compared]:
    """Status, reasons and the series that speaks for the cell. `p` is corrected for `family` hypotheses."""
    worst = _speaks(r)
    who = f"{worst.measure.attack} by {'+'.join(worst.measure.observers)} ({worst.measure.metric})"
    if p is not None and p <= gate.alpha:
        said = f"{who} gets {worst.now:.2f} of what the prior leaves, {worst.before:.2f} in the baseline"
        return "fail", [said], worst
    reasons = list(dict.fromkeys(r.doubts))
    if r.clusters < FEWEST:
        reasons.append(f"{r.clusters} clusters; from {FEWEST} on they can say something")
    elif (hypotheses := family * len(r.compared)) * smallest_p(r.clusters) > gate.alpha:
        enough = enough_to_fail(hypotheses, gate.alpha)
        none = f"{r.clusters} clusters can fail none of {family} checks, so they pass none either"
        reasons.append(f"{none}; {enough} can")
    else:
        open_ones = [c for c in r.compared if c.difference.high is None or c.difference.high >= r.gate.margin]
        if open_ones:
            worst = max(open_ones, key=lambda c: c.difference.high or 0.0)
            who = f"{worst.measure.attack} by {'+'.join(worst.measure.observers)} ({worst.measure.metric})"
            high = "an unknown amount" if worst.difference.high is None else no_less(worst.difference.high, 2)
            reasons.append(f"{who} may have grown by up to {high}, margin {r.gate.margin:g}")
            if not worst.pairs:
                reasons.append("the seeds of the baseline would be compared in pairs, which takes fewer clusters")
    if reasons:
        return "inconclusive", reasons, worst
    rare = f"clusters rarer than {unseen(r.clusters, gate.alpha):.0%} could be unseen"
    grown = [f"grew by less than {r.gate.margin:g} in the mean of {r.clusters} clusters; {rare}"]
    return "pass", [*grown, *_suspected(r)], worst


def _suspected(r: Regression) -> Iterator[str]:
    """Growth below the margin that a comparison by itself would call growth, and so many comparisons may not."""
    grown = [c for c in r.compared if c.difference.mean > r.gate.floor and (c.difference.low or 0.0) > 0.0]
    if grown:
        most = max(grown, key=lambda c: c.difference.mean)
        yield (
            f"by itself {most.measure.attack} by {'+'.join(most.measure.observers)} ({most.measure.metric}) grew by "
            f"{most.difference.mean:.2f}: a smaller margin would not let it pass"
        )


def _speaks(r: Regression) -> Compared:
    """The series that decides: the surest growth beyond the floor, else the highest upper bound."""

    def rank(c: Compared) -> tuple[bool, float, float]:
        p, high = _grown(c, r.gate), c.difference.high
        return p < 1, -p, float("inf") if high is None else high

    return max(r.compared, key=rank)


def needed(c: Compared, gate: LeakageGate, settings: Gate) -> int | None:
    """Clusters that show a change of nothing to be below the margin, with the planned power; of other seeds no fewer
    than bound what they did not meet.
    """
    planned = clusters_needed(c.difference.scatter, gate.margin, settings.alpha, settings.power)
    return planned if c.pairs or planned is None else max(planned, fewest(gate.margin, settings.alpha))
