"""Checks of leakage: is it below a ceiling, and has it grown since the baseline?

*Ceiling* quotes `audit.verdicts`: its hypotheses with the ceiling in place of the floor, its bound that assumes nothing
on the shape of scores, and its list of what is missing for "no leak above".

*Regression* compares one number per cluster, L: what the attack gains over the prior, as a share of what the prior
leaves to gain (`audit.gate.levels`). Every attack by every adversary of the kind, every metric that decides, of
records also the worst of a batch, and what these do not tell (`snapshot.BESIDE`): one hypothesis each. The check fails
where one of them grew, at alpha over the gate, by more than the floor in the mean; it passes where all of their upper
bounds lie below the margin, controls held and nothing new is unread; else it is inconclusive. What single parties and
columns leak is compared beside it (`audit.gate.parts`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from leakledger.audit.gate.baseline import UNKEPT
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
from leakledger.audit.gate.parts import SHARE, WHOLE, Part, Sides, by_series, parts, weighted
from leakledger.audit.gate.policy import Gate, LeakageGate
from leakledger.audit.gate.snapshot import BESIDE, UNTRUE, Cell, Measure, Snapshot
from leakledger.audit.gate_records import Status
from leakledger.audit.records import POWER, SCORER, at_most, metric_title, plural
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.significance import FEWEST

NAMED = 3  # parts that one reason names
TINY = 1e-300  # what a p-value of 0 is divided by


@dataclass(frozen=True)
class Compared:
    """One series of the candidate beside the same of the baseline, or a part of it; `silent` says which side made no
    claim.
    """

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
    part: Part = WHOLE

    @property
    def who(self) -> str:
        m = self.measure
        return " ".join(
            [f"{m.attack} by {'+'.join(m.observers)} ({metric_title(m.metric)})", *filter(None, [self.part.words])]
        )


@dataclass(frozen=True)
class Regression:
    """All series of one cell, and their parts."""

    cell: Cell
    gate: LeakageGate
    compared: tuple[Compared, ...]
    parts: tuple[Compared, ...]
    doubts: tuple[str, ...]  # what forbids a pass, whatever the numbers are

    @property
    def clusters(self) -> int:
        return min((c.difference.clusters for c in self.compared), default=0)

    def hypotheses(self, family: int) -> int:
        """As how many the series of this cell count, which is one of a `family`."""
        return round(family * len(self.compared) / (1 - (SHARE if self.parts else 0)))

    @property
    def weighted(self) -> list[tuple[float, Compared]]:
        """What can be tested, with its p-value adjusted for all of the cell; 1 of what grew by less than the floor."""
        tested, single = ([c for c in of if c.difference.p is not None] for of in (self.compared, self.parts))
        values = weighted(*([_grown(c, self.gate) for c in of] for of in (tested, single)))
        return list(zip(values, [*tested, *single], strict=True))

    @property
    def p(self) -> float | None:
        """That anything of the cell grew by more than the floor, before Holm."""
        return min((p for p, _ in self.weighted), default=None)

    def most(self, alpha: float) -> float:
        """The most that any series gets that grew by more than the floor, however sure that is, or any part that grew
        by more than chance explains in this cell.
        """
        grown = (c for c in self.compared if c.trusted and c.difference.mean > self.gate.floor)
        surely = (c for p, c in self.weighted if c.part.words and p <= alpha)
        return max((c.now for c in (*grown, *surely)), default=0.0)

    def failing(self, p: float | None, alpha: float) -> list[Compared]:
        """What grew at `alpha`; `p` is that of the cell, corrected: what multiplies the smallest multiplies each."""
        found = self.weighted
        if p is None or p > alpha:
            return []
        smallest = min(q for q, _ in found)
        return [c for q, c in found if q <= max(smallest, alpha * smallest / max(p, TINY))]


class Seeds(NamedTuple):
    """The seeds that were played, of a setting and of its baseline; `pairs`: whether both runs are of the same."""

    now: Sequence[int]
    before: Sequence[int]
    pairs: bool


def regressions(
    now: Snapshot,
    finished: Mapping[str, Sequence[int]],
    before: Snapshot,
    matches: Mapping[str, str],
    gates: Sequence[LeakageGate],
    gate: Gate,
) -> Iterator[Regression]:
    """One for each cell that a gate judges and that either run has a claim about, or played an attack on. `finished`:
    the seeds under which each setting ran to its end; of others nobody knows what they would show.
    """
    pairs = set(now.seeds) == set(before.seeds)
    kept = before.columns is not None
    mine = _by_cell([m for m in now.measures if kept or m.metric not in BESIDE], {s: s for s in matches})
    theirs = _by_cell(before.measures, {b: a for a, b in matches.items()})
    columns, its_columns = (by_series(of or () if kept else ()) for of in (now.columns, before.columns))
    beside = (m for m in now.measures if m.metric in BESIDE)
    unkept = set() if kept else {m.cell for m in (*(now.columns or ()), *beside)}
    for cell in sorted({*mine, *theirs}):
        judge = next((g for g in gates if g.judges(cell.adversary, cell.asset)), None)
        if judge is None or judge.regression is False:
            continue
        its = matches[cell.setting]
        failed = _mistrusted(now, cell.setting) | _mistrusted(before, its)
        a, b = mine.get(cell, {}), theirs.get(cell, {})
        seeds = Seeds(finished[cell.setting], before.seeds, pairs)
        compared, single = [], []
        for k in sorted({*a, *b}, key=str):
            whole = _compared((a.get(k), b.get(k)), seeds, gate.alpha, judge.margin)
            compared.append(replace(whole, trusted=not failed & {whole.measure.attack, SCORER}))
            of_columns = (columns.get((cell.setting, *k), {}), its_columns.get((its, *k), {}))
            for part, sides in parts((a.get(k), b.get(k)), *of_columns):
                found = _part(sides, seeds, gate.alpha)
                single.append(replace(found, part=part, trusted=compared[-1].trusted))
        doubts = (*_doubts(cell, compared, now, before, matches), *([UNKEPT] if cell in unkept else []))
        yield Regression(cell, judge, tuple(compared), tuple(single), doubts)


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


def _grown(c: Compared, gate: LeakageGate) -> float:
    """The p-value of one series; 1 where it grew by no more than the floor, or nobody can trust it."""
    d = c.difference
    return d.p if c.trusted and d.p is not None and d.mean > gate.floor else 1.0


def _compared(sides: Sides, seeds: Seeds, alpha: float, margin: float) -> Compared:
    """One series, its growth bounded whatever the seeds."""
    found, (mine, theirs) = _part(sides, seeds, alpha), levels(*sides)
    if found.pairs:
        fewer, more = (len(x.keys() - y.keys()) if all(sides) else 0 for x, y in ((theirs, mine), (mine, theirs)))
        return replace(found, fewer=fewer, more=more)
    if found.difference.high is None:
        return found
    # What neither run met may be worse: the bound assumes nothing on it.
    high = highest_growth(*_samples(mine, theirs, seeds), alpha, margin)
    return replace(found, difference=replace(found.difference, high=max(found.difference.high, high)))


def _part(sides: Sides, seeds: Seeds, alpha: float) -> Compared:
    """One series or a part of one; a side that made no claim has the prior alone, so 0 in each seed."""
    a, b = sides
    measure = a or b
    assert measure is not None
    mine, theirs = levels(a, b)
    difference = _paired(mine, theirs, alpha) if seeds.pairs else unpaired(*_samples(mine, theirs, seeds), alpha)
    own = _sample(mine, seeds.now)
    alone = paired(own.values, np.zeros(1), own.seeds, alpha)
    silent = "" if a and b else "the run" if b else "the baseline"
    return Compared(measure, difference, mean_share(a), alone.low, mean_share(b), silent, 0, 0, seeds.pairs)


def _samples(mine: Levels, theirs: Levels, seeds: Seeds) -> tuple[Sample, Sample]:
    """Both runs as samples of other seeds, as many clusters to a seed as any seed has."""
    each = max(Counter((run, seed) for run, of in enumerate((mine, theirs)) for seed, _, _ in of).values(), default=1)
    return _with_silence(mine, seeds.now, each), _with_silence(theirs, seeds.before, each)


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


def _paired(a: Levels, b: Levels, alpha: float) -> Difference:
    """Clusters that both have, or the other's against 0 where one has none."""
    keys = sorted(a.keys() & b.keys()) if a and b else sorted({*a, *b})
    candidate: Floats = np.array([a.get(k, 0.0) for k in keys])
    baseline: Floats = np.array([b.get(k, 0.0) for k in keys])
    return paired(candidate, baseline, [seed for seed, _, _ in keys], alpha)


def _doubts(
    cell: Cell, compared: Sequence[Compared], now: Snapshot, before: Snapshot, matches: Mapping[str, str]
) -> Iterator[str]:
    """What keeps a check from passing, apart from its numbers."""
    attacks = {c.measure.attack for c in compared} | {SCORER}
    for run, setting, where in ((now, cell.setting, "in this run"), (before, matches[cell.setting], "before")):
        for broken in run.broken:
            if broken.setting == setting and broken.attack in attacks and broken.kind != UNTRUE:
                yield f"the {broken.kind} control of {broken.attack} did not hold {where}"
    known = {t for s, kind, t in before.unread if (s, kind) == (matches[cell.setting], cell.adversary)}
    new = sorted({t for s, kind, t in now.unread if (s, kind) == (cell.setting, cell.adversary)} - known)
    if new:
        yield f"messages that no attack reads and that were not there before: {', '.join(new)}"
    played = {p.attack: p for p in now.played if (p.setting, p.adversary) == (cell.setting, cell.adversary)}
    for c in compared:
        if c.silent == "the run" and c.measure.attack not in played:
            yield f"{c.measure.attack} was not played, and was before"
        elif c.silent == "the run" and not played[c.measure.attack].tried:
            silence = played[c.measure.attack].silence or "of this series"
            yield f"{c.measure.attack} made no claim ({silence}), and no control shows that it works here"
        elif c.fewer:
            yield f"{c.measure.attack} makes no claim about {plural(c.fewer, 'cluster')} that it attacked before"
        if c.more:
            yield f"{c.measure.attack} makes claims about {plural(c.more, 'cluster')} of which it had none before"


def answer(r: Regression, p: float | None, family: int, gate: Gate) -> tuple[Status, list[str], Compared]:
    """Status, reasons and the series that speaks for the cell. `p` is corrected for `family` hypotheses."""
    worst = _speaks(r)
    if failing := r.failing(p, gate.alpha):
        single = _most_grown(c for c in failing if c.part.words)
        speaks = worst if len(single) < len(failing) else single[0]
        said = f"{speaks.who} gets {speaks.now:.2f} of what the prior leaves, {speaks.before:.2f} before"
        return "fail", [said, *([f"what grew alone: {_named(single)}"] if single else [])], speaks
    reasons = list(dict.fromkeys(r.doubts))
    hypotheses = r.hypotheses(family)
    if r.clusters < FEWEST:
        reasons.append(f"{plural(r.clusters, 'cluster')}; from {FEWEST} on they can say something")
    elif hypotheses * smallest_p(r.clusters) > gate.alpha:
        enough = enough_to_fail(hypotheses, gate.alpha)
        none = f"{plural(r.clusters, 'cluster')} can fail none of {plural(family, 'check')}, so they pass none either"
        reasons.append(f"{none}; {enough} can")
    else:
        open_ones = [c for c in r.compared if c.difference.high is None or c.difference.high >= r.gate.margin]
        if open_ones:
            worst = max(open_ones, key=lambda c: c.difference.high or 0.0)
            high = "an unknown amount" if worst.difference.high is None else at_most(worst.difference.high, 2)
            reasons.append(f"{worst.who} may have grown by up to {high}, margin {r.gate.margin:g}")
            if not worst.pairs:
                reasons.append("the same seeds as before would be compared in pairs, which takes fewer clusters")
    if unsettled := _unsettled(r, family, gate.alpha):
        worst = worst if reasons else unsettled[0]
        reasons.append(f"{_whose(unsettled)} may have grown alone, and more seeds tell: {_named(unsettled)}")
    if reasons:
        return "inconclusive", reasons, worst
    rare = f"clusters rarer than {unseen(r.clusters, gate.alpha):.0%} could be unseen"
    grown = [f"grew by less than {r.gate.margin:g} in the mean of {r.clusters} clusters; {rare}"]
    return "pass", [*grown, *_suspected(r), *_chance(r)], worst


def _unsettled(r: Regression, family: int, alpha: float) -> list[Compared]:
    """Parts of which nobody can say that chance explains their growth: by themselves they grew, and so few clusters
    could never fail them; or they grew beyond chance among the parts of the cell, and not among all of the gate.
    """
    count = sum(c.difference.p is not None for c in r.parts)

    def limit(c: Compared) -> float:
        blind = family * count * smallest_p(c.difference.clusters) > SHARE * alpha
        return alpha if blind else alpha / count

    beyond = (c for c in r.parts if c.trusted and c.difference.mean > r.gate.floor)
    return _most_grown(c for c in beyond if c.difference.p is None or c.difference.p <= limit(c))


def _most_grown(found: Iterable[Compared]) -> list[Compared]:
    """Of equal growth, to two digits, a whole party or column first."""
    return sorted(found, key=lambda c: (-round(c.difference.mean, 2), sum(map(bool, c.part)), c.part, c.measure.name))


def _named(found: Sequence[Compared]) -> str:
    said = [f"{c.who}, from {c.before:.2f} to {c.now:.2f}" for c in found[:NAMED]]
    return "; ".join([*said, *([f"{len(found) - NAMED} more"] if len(found) > NAMED else [])])


def _whose(found: Sequence[Compared]) -> str:
    return "single parties or columns" if len(found) > 1 else "a single party or column"


def _chance(r: Regression) -> Iterator[str]:
    """What a pass says of parts: how many were compared, and the growth that chance explains."""
    if r.parts:
        most = max(r.parts, key=lambda c: c.difference.mean)
        grown = most.difference.mean > r.gate.margin
        yield (
            f"of {len(r.parts)} single parties and columns none grew beyond chance"
            + (f"; most, by {most.difference.mean:.2f}: {most.who}" if grown else "")
        )


def _suspected(r: Regression) -> Iterator[str]:
    """Growth below the margin that a comparison by itself would call growth, and so many comparisons may not."""
    grown = [c for c in r.compared if c.difference.mean > r.gate.floor and (c.difference.low or 0.0) > 0.0]
    if grown:
        most = max(grown, key=lambda c: c.difference.mean)
        yield (f"by itself {most.who} grew by {most.difference.mean:.2f}: a smaller margin would not let it pass")


def _speaks(r: Regression) -> Compared:
    """The series that decides: the surest growth beyond the floor, else the highest upper bound."""

    def rank(c: Compared) -> tuple[bool, float, float]:
        p, high = _grown(c, r.gate), c.difference.high
        return p < 1, -p, float("inf") if high is None else high

    return max(r.compared, key=rank)


def needed(r: Regression, c: Compared, family: int, gate: Gate) -> int | None:
    """Clusters that show a change of nothing to be below the margin, with the planned power, and can fail one of a
    `family` of checks; of other seeds no fewer than bound what they did not meet. None of a part, which no margin
    bounds.
    """
    if c.part.words:
        return None
    planned = clusters_needed(c.difference.scatter, r.gate.margin, gate.alpha, gate.power, r.hypotheses(family))
    return planned if c.pairs or planned is None else max(planned, fewest(r.gate.margin, gate.alpha))
