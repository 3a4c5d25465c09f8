"""How the cost of encoders grows with parties and with values: one picture, as a file of its own.

Four panels with logarithmic axes and a line for each encoder: time and bytes, down the left with more and more parties,
down the right with more and more values. The file holds its styles, so that a page can show it as an image in light, in
dark and in print; nothing in it loads or runs. An encoder is named beside the end of its line, and its family has a
colour. What sends nothing has no line among the bytes, whose axis has no zero; the panel names it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from leakledger.reports import svg, text

WIDTH, HEIGHT = 310.0, 250.0  # of a panel's plot, in px
LEFT, RIGHT, TOP, BOTTOM, FOOT = 62.0, 128.0, 34.0, 60.0, 26.0
LINE_HEIGHT = 13.0  # of a label
FAMILIES = {
    "dictionary": ("pooled", "server-dictionary", "local"),
    "ring": ("uhe",),
    "intersection": ("dh-psi", "otmp-psi", "apsi"),
    "sums": ("bytes-norm", "mod-norm"),
    "code": ("target", "rolling-hash", "fasttext"),
}
DASHES = ("", "7 3", "2 3")  # of the first, second and third of a family
SERIES = (("parties", "parties", "parties"), ("values", "values per feature", "values per feature, four parties"))
METRICS = (("time", "processor time of all parties, ms"), ("bytes", "messages of all parties, kB"))
ROLES = ("paper", "ink", "muted", "line", *FAMILIES, "other")
LIGHT = ("#fff", "#1d2733", "#55616f", "#dce2e8", "#1c5f8f", "#8a5200", "#a3262c", "#1b6843", "#6b3fa0", "#55616f")
DARK = ("#12171c", "#e4e9ee", "#a2aeba", "#2f3842", "#7ab8e4", "#e8bb6a", "#f2a19e", "#86d0a7", "#c7a8f0", "#a2aeba")
RULES = """
svg { font: 11px sans-serif; } text { fill: var(--muted); } .paper { fill: var(--paper); }
.grid { stroke: var(--line); } .heading { fill: var(--ink); font-weight: bold; font-size: 12px; }
.cost { fill: none; stroke-width: 1.8; } .lead { stroke-width: 0.7; opacity: 0.6; }
"""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis: values from `low` to `high` lie at pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


def growth(rows: Sequence[Mapping[str, Any]], made: str) -> str:
    """The picture of rows as the benchmark `growth` has them, with `made` (machine and date) below it: an SVG file.

    Raises ValueError where a panel would be empty.
    """
    across, down = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    width, height = 2 * across, 2 * down + FOOT
    root = svg.element("svg", viewBox=f"0 0 {width:.0f} {height:.0f}", width=width, height=height)
    svg.element("rect", root, class_="paper", width=width, height=height)
    for i, (series, step, x_title) in enumerate(SERIES):
        for j, (metric, y_title) in enumerate(METRICS):
            lines = lines_of(rows, series, step, metric)
            if not any(lines.values()):
                raise ValueError(f"there is no {metric} of the series {series!r} to draw; run the benchmark growth")
            group = svg.element("g", root, transform=f"translate({i * across + LEFT:g},{j * down + TOP:g})")
            _panel(group, lines, f"{metric} by {step}", x_title, y_title)
    svg.element("text", root, made, x=LEFT, y=height - 8)
    svg.inline(root, "growth", "Growth of the cost of encoders", _words(rows))
    style = svg.element("style")
    style.text = _style()
    root.insert(2, style)
    return ET.tostring(root, encoding="unicode") + "\n"


def _style() -> str:
    """The file's style sheet: dark where a screen is, else light, and so in print."""
    light, dark = (" ".join(f"--{role}: {c};" for role, c in zip(ROLES, p, strict=True)) for p in (LIGHT, DARK))
    coloured = (
        f".cost.{f}, .lead.{f} {{ stroke: var(--{f}); }} .dot.{f}, .name.{f} {{ fill: var(--{f}); }}"
        for f in (*FAMILIES, "other")
    )
    screen = f"@media screen and (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    return "\n".join((f"svg {{ {light} }}", screen, RULES, *coloured))


def lines_of(
    rows: Sequence[Mapping[str, Any]], series: str, step: str, metric: str
) -> dict[str, list[tuple[float, float]]]:
    """For each encoder its (step, cost) in order of steps, without costs of zero."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        setting = row["setting"]
        if setting.get("series") == series and row["metric"] == metric:
            line = lines.setdefault(str(setting["encoder"]), [])
            if row["measured"] > 0:
                line.append((float(setting[step]), float(row["measured"])))
    return {encoder: sorted(line) for encoder, line in lines.items()}


def spread(wanted: Sequence[float], apart: float, end: float) -> list[float]:
    """Places near those wanted, in the same order, at least `apart` from each other and, if there is room, up to `end`.

    Moves as little as it takes: labels that would overlap are centred, as a block, on where they belong.
    """
    blocks: list[list[int]] = []
    for k in sorted(range(len(wanted)), key=lambda k: wanted[k]):
        blocks.append([k])
        while len(blocks) > 1 and _top(blocks[-1], wanted, apart, end) < (
            _top(blocks[-2], wanted, apart, end) + apart * len(blocks[-2])
        ):
            last = blocks.pop()
            blocks[-1] += last
    places = {k: _top(b, wanted, apart, end) + apart * i for b in blocks for i, k in enumerate(b)}
    return [places[k] for k in range(len(wanted))]


def _top(block: Sequence[int], wanted: Sequence[float], apart: float, end: float) -> float:
    """Where the first label of a block lies: the block is centred, but stays between 0 and `end`."""
    length = apart * (len(block) - 1)
    centred = sum(wanted[k] for k in block) / len(block) - length / 2
    return max(0.0, min(centred, end - length))


def _panel(
    group: ET.Element, lines: Mapping[str, Sequence[tuple[float, float]]], title: str, x_title: str, y_title: str
) -> None:
    steps, costs = ([point[k] for line in lines.values() for point in line] for k in (0, 1))
    x = Axis(min(steps), max(steps), 0.0, WIDTH)
    y = Axis(10.0 ** math.floor(math.log10(min(costs))), 10.0 ** math.ceil(math.log10(max(costs))), HEIGHT, 0.0)
    svg.element("text", group, title, class_="heading", x=0, y=-14)
    _grid(group, x, y, sorted(set(steps)))
    _text(group, x_title, WIDTH / 2, HEIGHT + 34, "middle")
    turned = _text(group, y_title, 0, 0, "middle")
    turned.set("transform", f"translate(-50,{HEIGHT / 2:g}) rotate(-90)")
    drawn = {encoder: line for encoder, line in lines.items() if line}
    places = spread([y.at(line[-1][1]) for line in drawn.values()], LINE_HEIGHT, HEIGHT)
    for (encoder, line), place in zip(drawn.items(), places, strict=True):
        _line(group, encoder, [(x.at(a), y.at(b)) for a, b in line], place)
    if silent := [encoder for encoder in lines if encoder not in drawn]:
        _text(group, f"no messages: {', '.join(silent)}", WIDTH / 2, HEIGHT + 49, "middle")


def _grid(group: ET.Element, x: Axis, y: Axis, steps: Sequence[float]) -> None:
    """A line for each step and each power of ten, with its number outside."""
    for step in steps:
        svg.element("line", group, class_="grid", x1=x.at(step), x2=x.at(step), y1=0, y2=HEIGHT)
        _text(group, text.count(step), x.at(step), HEIGHT + 16, "middle")
    for power in range(round(math.log10(y.low)), round(math.log10(y.high)) + 1):
        level = y.at(10.0**power)
        svg.element("line", group, class_="grid", x1=0, x2=WIDTH, y1=level, y2=level)
        _text(group, f"{10**power:,}" if power >= 0 else f"{10.0**power:g}", -6, level + 4, "end")


def _line(group: ET.Element, encoder: str, points: Sequence[tuple[float, float]], place: float) -> None:
    """A cost with a dot at each step, and the encoder's name at height `place` to the right of its end."""
    family = next((f for f, members in FAMILIES.items() if encoder in members), "other")
    dash = DASHES[FAMILIES[family].index(encoder)] if family in FAMILIES else ""
    path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
    svg.element("path", group, class_=f"cost {family}", d=path, **({"stroke-dasharray": dash} if dash else {}))
    for a, b in points:
        svg.element("circle", group, class_=f"dot {family}", cx=a, cy=b, r=2.4)
    end = points[-1]
    svg.element("line", group, class_=f"lead {family}", x1=end[0] + 4, y1=end[1], x2=WIDTH + 18, y2=place)
    svg.element("text", group, encoder, class_=f"name {family}", x=WIDTH + 21, y=place + 4)


def _text(group: ET.Element, content: str, x: float, y: float, anchor: str) -> ET.Element:
    return svg.element("text", group, content, x=x, y=y, **{"text-anchor": anchor})


def _words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the picture says, for those who do not see it: the last cost of each encoder in each series."""
    said = []
    for series, step, _ in SERIES:
        for encoder, line in lines_of(rows, series, step, "time").items():
            if line:
                said.append(f"{encoder}, {text.count(line[-1][0])} {step}: {text.count(round(line[-1][1]))} ms")
    return f"Lines on logarithmic axes. Time at the end of each: {'; '.join(said)}."
