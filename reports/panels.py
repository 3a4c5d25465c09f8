"""Small multiples: panels of points with intervals and lines between them, as plain SVG.

For what charts of the report do not fit: many panels with the same few series, in a page or in a file of its own.
Colours are CSS variables, of the page or of the file's own style sheet. A series has a shape beside its colour.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from leakledger.reports import svg, text

LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 30.0, 40.0  # around a plot, in px
LEGEND, LINE_HEIGHT, LETTER = 22.0, 16.0, 6.2
INK, MUTED, LINE = (f"var(--{name})" for name in ("ink", "muted", "line"))
ROLES = ("paper", "ink", "muted", "line", "accent", "warn", "good")
LIGHT = ("#fff", "#1d2733", "#55616f", "#dce2e8", "#1c5f8f", "#8a5200", "#1b6843")
DARK = ("#12171c", "#e4e9ee", "#a2aeba", "#2f3842", "#7ab8e4", "#e8bb6a", "#86d0a7")


@dataclass(frozen=True)
class Mark:
    """A point at (x, y), both in [0, 1] of its panel, y upwards; `low` to `high` is an interval of y, `left` to `right`
    one of x; `label` is its name beside it, `tip` all of it in words.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""
    tip: str = ""
    left: float | None = None
    right: float | None = None


@dataclass(frozen=True)
class Series:
    """Marks of one kind, joined in their order where `joined`; without a `shape` only the line is drawn."""

    name: str
    colour: str
    marks: tuple[Mark, ...]
    shape: str = "circle"
    joined: bool = True
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """`ticks`: (place in [0, 1], label) of both axes."""

    title: str
    x_title: str
    y_title: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: tuple[Series, ...]


def drawn(panels: Sequence[Panel], across: int, width: float = 200.0, height: float = 150.0) -> ET.Element:
    """The panels row by row, `across` in each, plots of so many px, one legend below. Raises ValueError for none."""
    if not panels:
        raise ValueError("there is no panel to draw")
    across = min(across, len(panels))
    cell = LEFT + width + RIGHT, TOP + height + BOTTOM
    down = -(-len(panels) // across)
    known = {s.name: s for p in panels for s in p.series}
    whole = across * cell[0]
    places, lines = _legend_places(list(known), whole)
    total = down * cell[1] + LEGEND + LINE_HEIGHT * lines
    root = svg.element("svg", viewBox=f"0 0 {whole:.0f} {total:.0f}", width=whole, height=total)
    for i, panel in enumerate(panels):
        at = i % across * cell[0] + LEFT, i // across * cell[1] + TOP
        _panel(svg.element("g", root, transform=f"translate({at[0]:g},{at[1]:g})"), panel, width, height)
    for (x, line), series in zip(places, known.values(), strict=True):
        group = svg.element(
            "g", root, transform=f"translate({x:g},{down * cell[1] + LEGEND - 6 + line * LINE_HEIGHT:g})"
        )
        if series.joined:
            _path(group, [(-10, 0), (10, 0)], series)
        _shape(group, 0, 0, series)
        _text(group, series.name, 16, 4, "start")
    return root


def as_file(root: ET.Element, name: str, title: str, words: str, foot: str = "") -> str:
    """A drawing as a file of its own: light, dark on a dark screen, and light in print; `foot` is its last line."""
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    if foot:
        svg.element("text", root, foot, x=8, y=height + 8, font_size="10", fill=MUTED, font_family="sans-serif")
        height += 18
    root.set("height", f"{height:g}")
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    root.insert(0, svg.element("rect", width=width, height=height, fill="var(--paper)"))
    svg.inline(root, name, title, words)
    light, dark = (" ".join(f"--{role}: {c};" for role, c in zip(ROLES, p, strict=True)) for p in (LIGHT, DARK))
    style = svg.element("style")
    style.text = f"svg {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    root.insert(2, style)
    return ET.tostring(root, encoding="unicode") + "\n"


def even_ticks(low: float, high: float, count: int, shown: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """So many ticks at equal distances from `low` to `high`."""
    return tuple((k / (count - 1), shown(low + (high - low) * k / (count - 1))) for k in range(count))


def _panel(group: ET.Element, panel: Panel, width: float, height: float) -> None:
    _text(group, text.shortened(text.visible(panel.title), int(width / LETTER)), 0, -12, "start", INK)
    for place, label in panel.y_ticks:
        y = height * (1 - place)
        svg.element("line", group, x1=0, x2=width, y1=y, y2=y, stroke=LINE)
        _text(group, label, -6, y + 4, "end")
    for place, label in panel.x_ticks:
        _text(group, label, width * place, height + 15, "middle")
    _text(group, panel.x_title, width / 2, height + 31, "middle")
    _text(group, panel.y_title, 0, 0, "middle").set("transform", f"translate(-34,{height / 2:g}) rotate(-90)")
    for series in panel.series:
        points = [(m.x * width, (1 - m.y) * height) for m in series.marks]
        if series.joined and len(points) > 1:
            _path(group, points, series)
        for (x, y), mark in zip(points, series.marks, strict=True):
            look = {"stroke": series.colour, "stroke_width": "1.2", "opacity": "0.6"}
            if mark.low is not None and mark.high is not None:
                ends = (1 - mark.low) * height, (1 - mark.high) * height
                svg.element("line", group, x1=x, x2=x, y1=ends[0], y2=ends[1], **look)
            if mark.left is not None and mark.right is not None:
                svg.element("line", group, x1=mark.left * width, x2=mark.right * width, y1=y, y2=y, **look)
            shape = _shape(group, x, y, series)
            if shape is not None and mark.tip:
                svg.element("title", shape, mark.tip)
            if mark.label:
                _text(group, mark.label, x + 6, y - 5, "start", INK)


def _path(group: ET.Element, points: Sequence[tuple[float, float]], series: Series) -> None:
    d = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = {"stroke_dasharray": "5 3"} if series.dashed else {}
    svg.element("path", group, d=d, fill="none", stroke=series.colour, stroke_width="1.5", **dash)


def _shape(group: ET.Element, x: float, y: float, series: Series) -> ET.Element | None:
    """The mark of a series; None of one without."""
    filled = {"fill": series.colour}
    if series.shape == "circle":
        return svg.element("circle", group, cx=x, cy=y, r=3.6, **filled)
    if series.shape == "square":
        return svg.element("rect", group, x=x - 3.2, y=y - 3.2, width=6.4, height=6.4, **filled)
    if series.shape == "diamond":
        return svg.element("path", group, d=f"M{x:.1f},{y - 4.6:.1f}l4.6,4.6l-4.6,4.6l-4.6,-4.6Z", **filled)
    if series.shape == "triangle":
        return svg.element("path", group, d=f"M{x:.1f},{y - 4.4:.1f}l4.4,8h-8.8Z", **filled)
    if series.shape == "cross":
        d = f"M{x - 3.4:.1f},{y - 3.4:.1f}l6.8,6.8m0,-6.8l-6.8,6.8"
        return svg.element("path", group, d=d, fill="none", stroke=series.colour, stroke_width=1.8)
    return None


def _legend_places(names: Sequence[str], whole: float) -> tuple[list[tuple[float, int]], int]:
    """(x, line) of each name of the legend, and the number of lines."""
    places, x, line = [], 16.0, 0
    for name in names:
        length = 34 + LETTER * len(name)
        if x > 16 and x + length > whole:
            x, line = 16.0, line + 1
        places.append((x, line))
        x += length
    return places, line + 1


def _text(group: ET.Element, content: str, x: float, y: float, anchor: str, colour: str = MUTED) -> ET.Element:
    look = {"font_size": "11", "font_family": "sans-serif"}
    return svg.element("text", group, content, x=x, y=y, text_anchor=anchor, fill=colour, **look)
