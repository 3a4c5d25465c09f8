"""The leakage-utility plane: where each setting stands on one asset, and which settings no other one beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakledger.audit.records import Score, Setting, UtilityScore
from leakledger.reports.findings import worst
from leakledger.reports.utility import main_metric

ASSETS = ("records", "statistics", "vocabulary")


@dataclass(frozen=True)
class Point:
    """One setting: its utility and the finding with the highest advantage. `number` is the setting's on the page."""

    number: int
    setting: Setting
    utility: UtilityScore
    finding: Score
    kind: Literal["on the front", "dominated", "reference"] = "dominated"

    @property
    def leakage(self) -> float:
        return self.finding.advantage or 0.0


@dataclass(frozen=True)
class Plane:
    """The settings of one asset; `absent` are those without a utility or without a scored finding."""

    asset: str
    metric: str
    points: tuple[Point, ...]
    absent: tuple[Setting, ...]

    @property
    def front(self) -> tuple[Point, ...]:
        """The points on the Pareto front, by rising utility."""
        front = (p for p in self.points if p.kind == "on the front")
        return tuple(sorted(front, key=lambda p: (p.utility.value, p.leakage)))


def planes(
    settings: Mapping[int, Setting], scores: Sequence[Score], utility: Sequence[UtilityScore]
) -> tuple[Plane, ...]:
    """One plane for each asset with a scored finding: in each of them an advantage means another thing."""
    metric = main_metric(utility)
    if metric is None:
        return ()
    scored = {s.asset: None for s in scores if s.status == "scored" and s.advantage is not None}
    assets = sorted(scored, key=lambda a: ASSETS.index(a) if a in ASSETS else len(ASSETS))
    return tuple(_plane(asset, metric, settings, scores, utility) for asset in assets)


def _plane(
    asset: str, metric: str, settings: Mapping[int, Setting], scores: Sequence[Score], utility: Sequence[UtilityScore]
) -> Plane:
    useful = {u.setting: u for u in utility if u.metric == metric}
    points, absent = [], []
    for number, setting in settings.items():
        finding, value = worst(scores, setting.id, asset), useful.get(setting.id)
        if finding is None or value is None:
            absent.append(setting)
        else:
            points.append(Point(number, setting, value, finding))
    return Plane(asset, metric, tuple(_with_kind(p, points) for p in points), tuple(absent))


def _with_kind(point: Point, points: Sequence[Point]) -> Point:
    """The pooled reference is no choice that a federation has: it neither is on the front nor dominates."""
    if point.setting.reference:
        return replace(point, kind="reference")
    beaten = any(_beats(p, point) for p in points if not p.setting.reference)
    return point if beaten else replace(point, kind="on the front")


def _beats(a: Point, b: Point) -> bool:
    better = a.utility.value > b.utility.value or a.leakage < b.leakage
    return a.utility.value >= b.utility.value and a.leakage <= b.leakage and better
