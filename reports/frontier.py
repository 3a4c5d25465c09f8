"""The frontier of each method: leakage against utility over the strength of every defense, one panel an asset; and
over epsilon, what was got of records below what no adversary can exceed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.audit.records import ASSETS, FrontierPoint, at_most, metric_title
from leakledger.reports import svg, text
from leakledger.reports.charts import Figure
from leakledger.reports.panels import Mark, Panel, Series, drawn, even_ticks

SHAPES = ("circle", "square", "diamond", "triangle", "cross")
COLOURS = ("var(--accent)", "var(--warn)", "var(--ink)", "var(--muted)")
FIRST = {"accuracy": "Cells of records", "exact_rows": "Whole rows"}
ACROSS, MOST_PANELS = 3, 6  # in a row; assets drawn of one method, those that a defense changes most first
CHANGED = 0.005  # of leakage between two defenses: less is no difference that a picture shows
APART = 0.1  # of a panel, between two points that both have their strength beside them
AIR = 0.08  # of the range of utility, beside the outermost points
UNDEFENDED = "none"
LEAST = 1e-6  # epsilons below are drawn as that


@dataclass(frozen=True)
class Frontier:
    """One method under one training: all its points, and the picture of the assets that differ most."""

    method: str
    training: str
    partition: str
    points: tuple[FrontierPoint, ...]
    figure: Figure
    left_out: tuple[str, ...]
    bounds: Figure | None = None

    @property
    def metric(self) -> str:
        return self.points[0].utility_metric


def frontiers(points: Sequence[FrontierPoint]) -> tuple[Frontier, ...]:
    """One for each method, training and partition, in the order of the record."""
    groups: dict[tuple[str, str, str], list[FrontierPoint]] = {}
    for p in points:
        groups.setdefault((p.method, p.training, p.partition), []).append(p)
    return tuple(_frontier(i, key, own) for i, (key, own) in enumerate(groups.items(), 1))


def asset_name(p: FrontierPoint) -> str:
    """The asset in words."""
    return FIRST.get(p.metric) or ASSETS.get(p.asset, p.asset).capitalize()


def _frontier(number: int, key: tuple[str, str, str], points: Sequence[FrontierPoint]) -> Frontier:
    assets: dict[str, list[FrontierPoint]] = {}
    for p in points:
        assets.setdefault(asset_name(p), []).append(p)
    order = sorted(assets, key=lambda name: (name not in FIRST.values(), -_range(assets[name])))
    shown = [a for a in order if a in FIRST.values() or _range(assets[a]) > CHANGED][:MOST_PANELS] or order[:1]
    families = list(dict.fromkeys(p.family for p in points))
    panels = [_panel(name, assets[name], families) for name in shown]
    title = f"Leakage against {metric_title(points[0].utility_metric)}, {key[0]}, {key[1]}"
    words = f"{text.plural(len({p.setting for p in points}), 'defense')}, {text.plural(len(panels), 'asset')}."
    image = svg.inline(drawn(panels, ACROSS), f"frontier-{number}", title, f"{words} The table has the numbers.")
    caption = (
        "Lower right is better: less leakage, more utility. Lines join the strengths of one defense; bars are 95 % "
        "intervals; the dashed line joins what no other defense beats; the bound is what no adversary exceeds."
    )
    left_out = tuple(a for a in order if a not in shown)
    return Frontier(*key, tuple(points), Figure(image, caption), left_out, _bounds(number, key, assets))


def _bounds(number: int, key: tuple[str, str, str], assets: Mapping[str, Sequence[FrontierPoint]]) -> Figure | None:
    """Leakage and bounds over epsilon, of assets that have both; None where no two settings have."""
    bounded = {
        name: sorted((p for p in points if p.bound is not None and math.isfinite(_spent(p))), key=_spent)
        for name, points in assets.items()
    }
    shown = {name: own for name, own in bounded.items() if len({_spent(p) for p in own}) > 1}
    if not shown:
        return None
    title = f"Leakage and its bound over epsilon, {key[0]}, {key[1]}"
    panels = [_over_epsilon(name, own) for name, own in shown.items()]
    image = svg.inline(drawn(panels, ACROSS), f"bounds-{number}", title, "The table has the numbers.")
    deltas = sorted({p.delta for own in shown.values() for p in own if p.delta is not None})
    at = f"at delta {' and '.join(f'{d:g}' for d in deltas)} " if deltas else ""
    caption = (
        f"Epsilon {at}is that of what training sends, for one record and by itself; what is sent before training may "
        "have none. Bars are 95 % intervals. Below the upper line an attack that gets more than this one is possible."
    )
    return Figure(image, caption)


def _over_epsilon(name: str, points: Sequence[FrontierPoint]) -> Panel:
    low, high = (math.log10(_spent(p)) for p in (points[0], points[-1]))
    air = AIR * (high - low)
    low, high = low - air, high + air

    def place(p: FrontierPoint) -> float:
        return (math.log10(_spent(p)) - low) / (high - low)

    def got(p: FrontierPoint) -> Mark:
        down, up = (None if end is None else _unit(end) for end in (p.leakage_low, p.leakage_high))
        told = f"leakage {text.number(p.leakage)}, bound {text.bound(p.bound)}"
        said = f"{p.defense}: epsilon {at_most(_spent(p), 4)}, {told}"
        return Mark(place(p), _unit(p.leakage), down, up, tip=text.visible(said))

    most = tuple(Mark(place(p), _unit(p.bound or 0.0)) for p in points)
    series = (
        Series("no adversary above", "var(--good)", most, "cross", dashed=True),
        Series("got by attacks", "var(--accent)", tuple(map(got, points))),
    )
    ticks = even_ticks(low, high, 3, lambda v: f"{10**v:.2g}" if v < 2 else f"{10**v:.0f}")
    return Panel(name, "epsilon", "leakage", ticks, even_ticks(0, 1, 3, lambda v: f"{v:g}"), series)


def _spent(p: FrontierPoint) -> float:
    return math.inf if p.epsilon is None else max(p.epsilon, LEAST)


def _range(points: Sequence[FrontierPoint]) -> float:
    return max(p.leakage for p in points) - min(p.leakage for p in points)


def _panel(name: str, points: Sequence[FrontierPoint], families: Sequence[str]) -> Panel:
    ends = [e for p in points for e in (p.utility, p.utility_low, p.utility_high) if e is not None]
    low, high = min(ends), max(ends)
    air = AIR * (high - low) or 0.05
    low, high = low - air, high + air

    labels = _labels(points, low, high)

    def across(utility: float) -> float:
        return (utility - low) / (high - low)

    def mark(p: FrontierPoint) -> Mark:
        down, up = (None if end is None else _unit(end) for end in (p.leakage_low, p.leakage_high))
        left, right = (None if end is None else across(end) for end in (p.utility_low, p.utility_high))
        return Mark(across(p.utility), _unit(p.leakage), down, up, labels[p.setting], _tip(p), left, right)

    own = {f: sorted((p for p in points if p.family == f), key=lambda p: p.strength or 0.0) for f in families}
    series = [
        Series(
            "no defense" if f == UNDEFENDED else text.visible(f),
            COLOURS[i % len(COLOURS)],
            tuple(mark(p) for p in found),
            SHAPES[i % len(SHAPES)],
        )
        for i, (f, found) in enumerate(own.items())
        if found
    ]
    front = sorted((p for p in points if p.front), key=lambda p: (p.utility, p.leakage))
    if len(front) > 1:
        places = tuple(Mark(across(p.utility), _unit(p.leakage)) for p in front)
        series.append(Series("not beaten", "var(--muted)", places, "", dashed=True))
    bounded = sorted((p for p in points if p.bound is not None), key=lambda p: p.utility)
    if bounded:
        tips = [f"{p.defense}: no adversary gets more than {text.bound(p.bound)}" for p in bounded]
        places = tuple(
            Mark(across(p.utility), _unit(p.bound or 0.0), tip=text.visible(t))
            for p, t in zip(bounded, tips, strict=True)
        )
        series.append(Series("bound", "var(--good)", places, "cross", joined=len(bounded) > 1))
    ticks = even_ticks(low, high, 3, lambda v: f"{v:.2f}")
    return Panel(
        name,
        metric_title(points[0].utility_metric),
        "leakage",
        ticks,
        even_ticks(0, 1, 3, lambda v: f"{v:g}"),
        tuple(series),
    )


def _labels(points: Sequence[FrontierPoint], low: float, high: float) -> dict[str, str]:
    """Setting -> its strength; empty where another label stands there already."""
    taken: list[tuple[float, float]] = []
    labels = {}
    for p in points:
        x, y = (p.utility - low) / (high - low), _unit(p.leakage)
        free = p.strength is not None and all(abs(x - a) > APART or abs(y - b) > APART for a, b in taken)
        labels[p.setting] = f"{p.strength:g}" if free else ""
        taken += [(x, y)] if free else []
    return labels


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _tip(p: FrontierPoint) -> str:
    worth = f"{metric_title(p.utility_metric)} {text.number(p.utility)}"
    said = f"{p.defense}: {worth}, leakage {text.number(p.leakage)} by {p.attack}"
    return text.visible(said + (", inconclusive" if p.open else ""))
