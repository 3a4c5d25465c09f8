"""The leakage-utility plane: where each setting stands on one asset, and which settings no other one beats.

Rows that are known by their values, by pseudonyms and by codes are different things to know, so each has a plane of its
own; and so have other data, numbers of parties, batch sizes and rounds: small multiples, whose fronts are their own. A
setting about which the verdict is open is shown and compared with nothing: an attack that failed is no defense.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakledger.audit import records
from leakledger.audit.records import Level, Ruling, Score, Setting, UtilityScore, plain_name
from leakledger.reports.findings import worst
from leakledger.reports.utility import main_metric

ASSETS = ("records", "statistics", "vocabulary")
NOTHING_LEARNT = {"auroc": 0.5, "r2": 0.0}
LEVELS: tuple[Level, ...] = ("", "value", "pseudonym", "code")


@dataclass(frozen=True)
class Point:
    """One setting: its utility and the finding with the highest advantage. `number` is the setting's on the page."""

    number: int
    setting: Setting
    utility: UtilityScore
    finding: Score
    kind: Literal["on the front", "dominated", "inconclusive", "reference"] = "dominated"

    @property
    def leakage(self) -> float:
        """Its advantage; one below 0 is as good as none."""
        return max(self.finding.advantage or 0.0, 0.0)


@dataclass(frozen=True)
class Plane:
    """The settings of one asset and level; `absent` are those without a utility or without a scored finding.

    `panel`: what sets its data, partition and training apart from those of other planes; "" where all have the same.
    `baseline`: what a model that has learnt nothing is worth by the metric, None where that was not measured.
    """

    asset: str
    level: Level
    metric: str
    points: tuple[Point, ...]
    absent: tuple[Setting, ...]
    panel: str = ""
    baseline: float | None = None

    @property
    def front(self) -> tuple[Point, ...]:
        """The points on the Pareto front, by rising utility."""
        front = (p for p in self.points if p.kind == "on the front")
        return tuple(sorted(front, key=lambda p: (p.utility.value, p.leakage)))


def planes(
    settings: Mapping[int, Setting],
    scores: Sequence[Score],
    utility: Sequence[UtilityScore],
    rulings: Sequence[Ruling],
    metric: str | None = None,
) -> tuple[Plane, ...]:
    """One plane for each asset, and level of it, with a scored finding, and each panel: in each an advantage means
    another thing. `metric`: the one that stands for utility; None is the main one of the audit.
    """
    metric = main_metric(utility) if metric is None else metric
    if metric is None:
        return ()
    found: dict[tuple[str, Level], list[Score]] = {}
    for s in scores:
        if s.status == "scored" and s.advantage is not None:
            found.setdefault((s.asset, s.level), []).append(s)
    order = sorted(found, key=lambda key: (_place(key[0], ASSETS), _place(key[1], LEVELS)))
    useful = {u.setting: u for u in utility if u.metric == metric}
    parts = panels(settings)
    return tuple(
        replace(
            _plane(*key, metric, own, found[key], useful, _open(found[key], rulings)),
            panel=panel,
            baseline=baseline(metric, own, utility),
        )
        for key in order
        for panel, own in parts.items()
    )


def panels(settings: Mapping[int, Setting]) -> dict[str, dict[int, Setting]]:
    """Settings by what sets their data, partition, parties and training apart, in words; one panel where none does."""
    parts = {"data": "", "partition": "", "parties": " parties", "training": ""}
    varied = [p for p in parts if len({getattr(s, p) for s in settings.values()}) > 1]
    found: dict[str, dict[int, Setting]] = {}
    for number, s in settings.items():
        found.setdefault(", ".join(f"{getattr(s, p)}{parts[p]}" for p in varied), {})[number] = s
    return found


def baseline(metric: str, settings: Mapping[int, Setting], utility: Sequence[UtilityScore]) -> float | None:
    """What always saying the commonest class is worth; an even coin for AUROC, the mean alone for R²."""
    name = plain_name(metric)
    if name in NOTHING_LEARNT:
        return NOTHING_LEARNT[name]
    ids = {s.id for s in settings.values()}
    own = [u.value for u in utility if u.setting in ids and plain_name(u.metric) == f"majority_{name}"]
    return max(own, default=None)


def _place(name: str, among: Sequence[str]) -> int:
    """The number of a name; what is not among them comes last."""
    return among.index(name) if name in among else len(among)


def _open(scores: Sequence[Score], rulings: Sequence[Ruling]) -> frozenset[str]:
    """The settings of which nothing behind these scores is shown to leak, and not everything shown not to."""
    about = {s.asset if s.asset in records.ASSETS else s.metric for s in scores}
    verdicts: dict[str, set[str]] = {}
    for r in rulings:
        if r.asset in about:
            verdicts.setdefault(r.setting, set()).add(r.verdict)
    return frozenset(setting for setting, said in verdicts.items() if "leaks" not in said and "inconclusive" in said)


def _plane(
    asset: str,
    level: Level,
    metric: str,
    settings: Mapping[int, Setting],
    scores: Sequence[Score],
    useful: Mapping[str, UtilityScore],
    doubtful: frozenset[str],
) -> Plane:
    points, absent = [], []
    for number, setting in settings.items():
        finding, value = worst(scores, setting.id, asset), useful.get(setting.id)
        if finding is None or value is None:
            absent.append(setting)
        else:
            points.append(Point(number, setting, value, finding))
    return Plane(asset, level, metric, tuple(_with_kind(p, points, doubtful) for p in points), tuple(absent))


def _with_kind(point: Point, points: Sequence[Point], doubtful: frozenset[str]) -> Point:
    """The pooled reference is no choice that a federation has, and what is open is no result: neither is on the front,
    and neither dominates.
    """
    if point.setting.reference:
        return replace(point, kind="reference")
    if point.setting.id in doubtful:
        return replace(point, kind="inconclusive")
    compared = (p for p in points if not p.setting.reference and p.setting.id not in doubtful)
    beaten = any(_beats(p, point) for p in compared)
    return point if beaten else replace(point, kind="on the front")


def _beats(a: Point, b: Point) -> bool:
    better = a.utility.value > b.utility.value or a.leakage < b.leakage
    return a.utility.value >= b.utility.value and a.leakage <= b.leakage and better
