"""Leakage of each asset against utility, over the strength of every defense: where each setting of an audit stands.

A *line* is one way of preprocessing, training and partition; its points are the defenses that were compared on it, each
of a *family* (the names of what is chained) at a *strength* (the one parameter that differs within the family). Leakage
is the advantage of the attack that gets most of an asset, with its interval; of records there are two questions: their
cells, and rows with every cell right. Of whole rows the bound stands beside it, in the same units: the advantage
that no adversary exceeds under that defense.

The front of a line has the defenses that no other one beats: less leakage at no less utility, or more utility at no
more leakage. A point of which the verdict is open beats nothing and is on no front: an attack that failed is no
defense. It is open where nobody is shown to learn anything and somebody may, and where somebody who may learn more is
shown to under another defense of the line: what another kind of adversary gets less of says nothing of that one. So it
is where the attack that counts gets nowhere against rows that were planted under that defense, whatever little it is
shown to get, and more leaks under another one: how much a better attack would get, it does not say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from leakledger.audit.leakage import asset_of
from leakledger.audit.records import (
    ASSETS,
    HEADLINE,
    POWER,
    AuditRecord,
    CaseRecord,
    FrontierPoint,
    PrivacyAccount,
    Ruling,
    Score,
    Setting,
    UtilityScore,
    at_most,
    beside,
    metric_title,
    speaks,
)

MAIN = ("f1", "r2", "auroc", "accuracy")  # the first that was measured stands for utility
WHOLE_ROWS = "exact_rows"
COLUMNS = {"accuracy": "cells of records", WHOLE_ROWS: "whole rows"}
WORST = ("leaks", "inconclusive", "no leak")
LINES = 2  # defenses, none included, from which on there is something to compare

Line = tuple[str, str, str]


def frontier(
    records: Sequence[CaseRecord], scores: Sequence[Score], utility: Sequence[UtilityScore], rulings: Sequence[Ruling]
) -> tuple[FrontierPoint, ...]:
    """The points of all lines that compare several defenses, asset by asset; none without a utility metric."""
    settings = {r.setting.id: r.setting for r in records}
    metric = next((m for m in MAIN if any(u.metric == m for u in utility)), None)
    if metric is None:
        return ()
    useful = {u.setting: u for u in utility if u.metric == metric}
    lines: dict[Line, list[Setting]] = defaultdict(list)
    for s in settings.values():
        if s.id in useful and not s.reference:
            lines[s.method, s.training, s.partition].append(s)
    worst, spent = _worst(scores), _spent(records)
    weak = {(r.setting.id, c.attack) for r in records for c in r.controls if c.kind == POWER and not c.passed}
    found: list[FrontierPoint] = []
    for own in lines.values():
        if len({s.defense for s in own}) >= LINES:
            strengths = _strengths(own)
            for asset, kind in dict.fromkeys(key[1:] for key in worst if key[0] in {s.id for s in own}):
                about = [r for r in rulings if r.asset == asset and r.setting in {s.id for s in own}]
                scored = [(s, worst[s.id, asset, kind]) for s in own if (s.id, asset, kind) in worst]
                powerless = [asset == "records" and (s.id, of.attack) in weak for s, of in scored]
                found += with_front(
                    [
                        _point(s, strengths[s.id], of, useful[s.id], about, spent[s.id], without)
                        for (s, of), without in zip(scored, powerless, strict=True)
                    ]
                )
    return tuple(found)


def absent(record: AuditRecord) -> tuple[str, ...]:
    """What a frontier does not say by itself: a line for each setting that has no point, with the reason, one where
    settings are compared on seeds that may differ, and what is ruled on assets that it does not show.
    """
    shown = {p.setting for p in record.frontier}
    attacked, useful = {c.setting.id for c in record.cases}, {u.setting for u in record.utility}
    scored = {s.setting for s in record.scores if s.advantage is not None}
    found = list[str]()
    for s in dict.fromkeys(c.setting for c in (*record.cases, *record.aborted)):
        if s.reference or s.id in shown:
            continue
        if s.id not in attacked:
            why = "all its cases were aborted"
        elif s.id not in useful:
            why = "nothing measures its utility"
        elif s.id not in scored:
            why = "no attack on it was scored"
        else:
            why = "no other defense was compared with it"
        found.append(f"Not in it: {s.defense} ({s.id}), of which nothing is known here: {why}.")
    found += _unmeasured(record, shown)
    if left := len(record.aborted) + record.missing:
        cases = "case was" if left == 1 else "cases were"
        found.append(f"{left} {cases} aborted or did not run: settings are compared on the seeds that finished.")
    return tuple(found)


def _unmeasured(record: AuditRecord, shown: Collection[str]) -> list[str]:
    """A line for the assets of which no setting that is `shown` has a point, with what is ruled on them: that a table
    lacks them says nothing of them.
    """
    placed, ruled = {p.asset for p in record.frontier}, defaultdict[str, set[str]](set)
    for r in record.rulings:
        if r.setting in shown and r.asset in ASSETS and r.asset not in placed:
            ruled[r.asset].add(r.verdict)
    said = [f"{ASSETS[a]} ({next(v for v in WORST if v in ruled[a])})" for a in ASSETS if a in ruled]
    return [f"Not in it, as no advantage was measured of them: {', '.join(said)}."] if said else []


def _spent(records: Sequence[CaseRecord]) -> Mapping[str, Mapping[str, Any]]:
    """Setting -> the epsilon of training alone for one record, the largest over seeds, with what it holds for; nothing
    where it has none.
    """
    found: dict[str, list[tuple[float, PrivacyAccount]]] = {r.setting.id: [] for r in records}
    for r in records:
        for account in (a for a in r.privacy if a.unit == "record"):
            found[r.setting.id] += [(p.epsilon, account) for p in account.parts if p.stage == "training"]
    largest = {setting: max(own, key=itemgetter(0), default=None) for setting, own in found.items()}
    return {
        setting: {"epsilon": of[0], "delta": of[1].delta, "unit": of[1].unit, "relation": of[1].relation} if of else {}
        for setting, of in largest.items()
    }


def with_front(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points of one line and asset, those marked that no other one beats."""
    sure = [p for p in points if not p.open]
    return [replace(p, front=not p.open and not any(beats(q, p) for q in sure)) for p in points]


def beats(a: FrontierPoint, b: FrontierPoint) -> bool:
    """Whether `a` is as good as `b` in both, and better in one; leakage below 0 is as good as none."""
    mine, theirs = max(a.leakage, 0.0), max(b.leakage, 0.0)
    return a.utility >= b.utility and mine <= theirs and (a.utility > b.utility or mine < theirs)


def _worst(scores: Sequence[Score]) -> Mapping[tuple[str, str, str], Score]:
    """(setting, asset, metric) -> the score that counts, of headline metrics and of whole rows."""
    groups: dict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for s in scores:
        if s.advantage is None:
            continue
        if s.metric == WHOLE_ROWS:
            groups[s.setting, "records", WHOLE_ROWS].append(s)
        elif speaks(s.asset, s.metric):
            groups[s.setting, asset_of(s), HEADLINE.get(s.asset, "")].append(s)
    return {key: max(own, key=_rank) for key, own in groups.items()}


def _rank(s: Score) -> tuple[bool, float, float]:
    """Those whose controls held before others, then by advantage."""
    gain = s.advantage if s.advantage is not None else float("-inf")
    return s.status == "scored", gain, s.advantage_low if s.advantage_low is not None else gain


def _strengths(own: Iterable[Setting]) -> Mapping[str, tuple[str, str, float | None]]:
    """Setting -> family, the parameter that differs within it, and its value; None where there is not one."""
    families: dict[str, list[Setting]] = defaultdict(list)
    for s in own:
        families[" then ".join(dict.fromkeys(name.partition(" ")[0] for name, _ in s.steps)) or "none"].append(s)
    found: dict[str, tuple[str, str, float | None]] = {}
    for family, members in families.items():
        names = [name for name, _ in members[0].steps]
        varying = [k for k in range(len(names)) if len({m.steps[k][1] for m in members}) > 1]
        chosen = varying[0] if len(varying) == 1 else len(names) - 1 if not varying and names else None
        for m in members:
            known = chosen is not None
            found[m.id] = (family, names[chosen] if known else "", m.steps[chosen][1] if known else None)  # type: ignore[index]
    return found


def _point(
    s: Setting,
    strength: tuple[str, str, float | None],
    score: Score,
    useful: UtilityScore,
    rulings: Sequence[Ruling],
    spent: Mapping[str, Any],
    powerless: bool,
) -> FrontierPoint:
    """The point of one setting; `rulings` on its asset, of the whole line. `powerless`: its attack is, there."""
    room = None if score.baseline is None else 1 - score.baseline
    bounded = score.bound is not None and room
    family, parameter, value = strength
    return FrontierPoint(
        setting=s.id,
        method=s.method,
        training=s.training,
        partition=s.partition,
        defense=s.defense,
        family=family,
        parameter=parameter,
        strength=value,
        asset=asset_of(score),
        metric=score.metric,
        attack=score.attack,
        observers=score.observers,
        leakage=score.advantage or 0.0,
        leakage_low=score.advantage_low,
        leakage_high=score.advantage_high,
        clusters=score.clusters,
        bound=(score.bound - (score.baseline or 0.0)) / room if bounded and room and score.bound is not None else None,
        utility_metric=useful.metric,
        utility=useful.value,
        utility_low=useful.low,
        utility_high=useful.high,
        seeds=useful.seeds,
        open=score.status != "scored" or _may_leak_more(s.id, score.advantage or 0.0, rulings, powerless),
        **spent,
    )


def _may_leak_more(setting: str, leakage: float, rulings: Sequence[Ruling], powerless: bool) -> bool:
    """Whether the verdict on a setting is open, or on an adversary who learns more than `leakage` elsewhere; of an
    attack that is `powerless` there, whether anyone does. `rulings` are those on one asset in all settings of a line.
    """
    own = {r.adversary: r.verdict for r in rulings if r.setting == setting}
    doubted = {who for who, verdict in own.items() if verdict == "inconclusive"}
    if doubted and "leaks" not in own.values():
        return True
    asked = (r for r in rulings if r.adversary in doubted or (powerless and r.setting != setting))
    return any(r.verdict == "leaks" and (r.advantage or 0.0) > leakage for r in asked)


@dataclass(frozen=True)
class FrontierTable:
    """One line as a table for a terminal: a row for each defense, a column for each asset that defenses change, and the
    assets that none does in words.
    """

    title: str
    rows: tuple[dict[str, str], ...]
    unchanged: tuple[str, ...]


def tables(points: Sequence[FrontierPoint]) -> tuple[FrontierTable, ...]:
    """A table for each method, training and partition."""
    lines: dict[Line, dict[str, dict[str, FrontierPoint]]] = {}
    for p in points:
        by = lines.setdefault((p.method, p.training, p.partition), {})
        by.setdefault(COLUMNS.get(p.metric, ASSETS.get(p.asset, p.asset)), {})[p.setting] = p
    return tuple(_table(", ".join(line), by) for line, by in lines.items())


def _table(title: str, by: Mapping[str, Mapping[str, FrontierPoint]]) -> FrontierTable:
    own = {p.setting: p for found in by.values() for p in found.values()}  # one of each defense, for what all share
    alone = len(own) < LINES  # of others nothing is known
    changed = [asset for asset, found in by.items() if alone or len(found) < len(own) or _differ(found.values())]
    spent = any(p.epsilon is not None for p in own.values())
    rows = tuple(
        {
            "defense": p.defense,
            **({"epsilon of training": _epsilon(p)} if spent else {}),
            **{asset: _cell(by[asset].get(setting)) for asset in changed},
            metric_title(p.utility_metric): f"{p.utility:.3f}{beside(p.utility_low, p.utility_high, 2)}",
        }
        for setting, p in own.items()
    )
    same = {asset: next(iter(found.values())) for asset, found in by.items() if asset not in changed}
    unchanged = tuple(f"{asset} {p.leakage:.2f}{' (open)' if p.open else ''}" for asset, p in same.items())
    return FrontierTable(title, rows, unchanged)


def _differ(points: Iterable[FrontierPoint]) -> bool:
    return len({(f"{p.leakage:.2f}", p.open, _bound(p)) for p in points}) > 1


def _epsilon(p: FrontierPoint) -> str:
    return "none" if p.epsilon is None else f"{at_most(p.epsilon, 4)} at delta {p.delta:g}, for a {p.unit}"


def _cell(p: FrontierPoint | None) -> str:
    """Leakage with its interval, the bound, and where the defense stands."""
    if p is None:
        return "no claim"
    standing = " (open)" if p.open else " (not beaten)" if p.front else ""
    return f"{p.leakage:.2f}{beside(p.leakage_low, p.leakage_high, 2)}{_bound(p)}{standing}"


def _bound(p: FrontierPoint) -> str:
    return "" if p.bound is None else f", at most {at_most(p.bound, 2)}"
