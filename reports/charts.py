"""The report's charts: Altair specifications drawn to static SVG while the page is written.

Colours are the page's CSS variables, so a chart follows its light, dark and print style. A tooltip is an SVG title: no
script is needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from leakledger.audit.records import BucketScore, FeatureScore, metric_title, plain_name
from leakledger.reports import svg, text
from leakledger.reports.calibration import Curve
from leakledger.reports.columns import ColumnTable
from leakledger.reports.observations import Received
from leakledger.reports.plane import Plane, Point

PLANE_HEIGHT = 230
MOST_NUMBERED = 30  # of the points of a plane; of more, the numbers of those on the front alone can be read
WIDTH = 340  # of the plot in px: with its axis, a chart fits a phone without becoming illegible
INK, MUTED, LINE, ACCENT, WARN = (f"var(--{name})" for name in ("ink", "muted", "line", "accent", "warn"))
AXES = {
    **dict.fromkeys(("labelColor", "titleColor"), MUTED),
    **dict.fromkeys(("gridColor", "domainColor", "tickColor"), LINE),
    **dict.fromkeys(("labelFontSize", "titleFontSize"), 11),
    "titleFontWeight": "normal",
    "tickCount": 5,
}
UNNUMBERED = "substring(datum.value, indexof(datum.value, ' ') + 1)"
KINDS = ("on the front", "dominated", "inconclusive", "reference")
WHO = ("attack", "prior alone")
RIGHT = "share of cells that are right"  # what a chart of accuracies has across
MOST_FEATURES = 20  # drawn; the table has all


@dataclass(frozen=True)
class Figure:
    """A chart with the sentence that says how to read it."""

    image: Markup
    caption: str


def plane(points: Plane, name: str, panels: Sequence[Plane] = ()) -> Figure:
    """Utility against the worst advantage, one point per setting, with 95 % intervals and the Pareto front.

    `panels`: the planes whose axis of utility it shares, as small multiples do.
    """
    rows = [_point_row(p) for p in points.points]
    reach = _utility_axis((points, *panels))
    x = alt.X("x:Q", title=f"{metric_title(points.metric)} →", scale=alt.Scale(domain=reach, nice=False))
    y = alt.Y("y:Q", title="← worst advantage", scale=alt.Scale(domain=[0.0, 1.0], nice=False))
    base = _chart(rows)
    few = len(rows) <= MOST_NUMBERED
    numbered = rows if few else [row for row in rows if row["kind"] == "on the front"]
    layers = [
        base.mark_rule(color=MUTED, strokeWidth=1, aria=False).encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q"),
        base.mark_rule(color=MUTED, strokeWidth=1, aria=False).encode(x=alt.X("x_low:Q"), x2="x_high:Q", y=y),
        _points(base, x, y),
        _chart(_numbers(numbered, reach))
        .mark_text(align="left", dx=8, dy=-8, color=INK, fontSize=12, aria=False)
        .encode(x=x, y=y, text="number:N"),
    ]
    if len(points.front) > 1:
        front = _chart([_point_row(p) for p in points.front])
        step = front.mark_line(interpolate="step-before", color=ACCENT, strokeDash=[4, 3], strokeWidth=1.5, aria=False)
        layers.insert(0, step.encode(x=x, y=y))
    if points.baseline is not None:
        nothing = _chart([{"x": points.baseline, "label": f"nothing learnt: {text.number(points.baseline)}"}])
        rule = nothing.mark_rule(color=MUTED, strokeDash=[1, 3], strokeWidth=1.5)
        layers.insert(0, rule.encode(x=x, description="label:N"))
    words = {"auroc": "an even coin", "r2": "the mean alone"}.get(
        plain_name(points.metric), "the commonest class alone"
    )
    dotted = f" The dotted line is what {words} is worth." if points.baseline is not None else ""
    return Figure(
        _draw(alt.layer(*layers).properties(width=WIDTH, height=PLANE_HEIGHT), name, *_plane_words(points)),
        "Lower right is better: 1 on the vertical axis is everything, 0 nothing beyond guessing. Bars are 95 % "
        f"intervals; numbers are those of {'the settings' if few else 'settings on the front'}. The dashed line is the "
        f"Pareto front of the settings that a federation can run.{dotted}",
    )


def _utility_axis(planes: Sequence[Plane]) -> list[float]:
    """The range of utility over all panels, what a model that learnt nothing is worth included."""
    rows = [_point_row(p) for plane in planes for p in plane.points]
    nothing = [dict.fromkeys(("x", "x_low", "x_high"), p.baseline) for p in planes if p.baseline is not None]
    return _domain([*rows, *nothing], "x")


def _points(base: alt.Chart, x: alt.X, y: alt.Y) -> alt.Chart:
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", columnPadding=14, symbolSize=80)
    colours = alt.Scale(domain=KINDS, range=[ACCENT, MUTED, MUTED, WARN])
    shapes = alt.Scale(domain=KINDS, range=["circle", "square", "cross", "diamond"])
    points: alt.Chart = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("kind:N", scale=colours, legend=legend),
        shape=alt.Shape("kind:N", scale=shapes, legend=legend),
        description="label:N",
    )
    return points


def _point_row(p: Point) -> dict[str, Any]:
    u, f = p.utility, p.finding
    return {
        "x": u.value,
        "x_low": u.value if u.low is None else u.low,
        "x_high": u.value if u.high is None else u.high,
        "y": p.leakage,
        "y_low": p.leakage if f.advantage_low is None else max(f.advantage_low, 0.0),  # as the point: below 0 is none
        "y_high": p.leakage if f.advantage_high is None else max(f.advantage_high, 0.0),
        "number": str(p.number),
        "kind": p.kind,
        "label": _label(p),
    }


def _numbers(rows: Sequence[dict[str, Any]], axis: Sequence[float]) -> list[dict[str, Any]]:
    """The settings' numbers where they stand; points too close for two labels share one, as in 1, 3."""
    low, high = axis
    shared: list[dict[str, Any]] = []
    for row in rows:
        near = (s for s in shared if abs(s["x"] - row["x"]) < 0.07 * (high - low) and abs(s["y"] - row["y"]) < 0.05)
        label = next(near, None)
        if label is None:
            shared.append({axis: row[axis] for axis in ("x", "y", "number")})
        else:
            label["number"] += f", {row['number']}"
    return shared


def _label(p: Point) -> str:
    utility, leakage = text.number(p.utility.value), text.number(p.leakage)
    words = f"{p.number}. {p.setting.id}: {metric_title(p.utility.metric)} {utility}, advantage {leakage}"
    return text.visible(f"{words} ({p.finding.attack}, {metric_title(p.finding.metric)})")


def _plane_words(points: Plane) -> tuple[str, str]:
    front = ", ".join(p.setting.id for p in points.front) or "no setting"
    leakage = f"Leakage of {points.asset}{f' by {points.level}' if points.level else ''}"
    return (
        f"{leakage} against {metric_title(points.metric)}",
        f"{text.plural(len(points.points), 'setting')}. On the Pareto front: {front}. The table has the numbers.",
    )


def _values(rows: Iterable[Mapping[str, Any]], axis: str) -> list[float]:
    return [row[f"{axis}{end}"] for row in rows for end in ("_low", "", "_high")]


def _domain(rows: Sequence[Mapping[str, Any]], axis: str) -> list[float]:
    """The values' range with some air; a single value stands in the middle."""
    low, high = min(_values(rows, axis)), max(_values(rows, axis))
    air = 0.08 * (high - low) or 0.05
    return [low - air, high + air]


def calibration(curve: Curve, name: str) -> Figure:
    """Accuracy in each bucket of the attack's own uncertainty, beside that of the prior alone on the same cells."""
    rows = [
        Compared(
            text.span(b.low_entropy, b.high_entropy),
            b,
            f"{text.number(b.value)} of {text.plural(b.cells, 'cell')}, prior alone {text.number(b.baseline)}",
        )
        for b in curve.buckets
    ]
    title = f"{curve.attack}: accuracy by entropy, {curve.kind} cells"
    words = f"{text.plural(len(rows), 'bucket')} from the surest to the least sure. The table has the numbers."
    return Figure(
        _compared(rows, f"entropy ({curve.unit})", name, title, words),
        "An attack that knows when it is right has its dots far right on top: its surest cells need no truth to be "
        "trusted. Bars are 95 % intervals; squares are the prior alone on the same cells.",
    )


def features(columns: ColumnTable, name: str) -> Figure:
    """Accuracy of each feature beside the prior's, those with the highest advantage on top."""
    rows = [
        Compared(f.feature, f, f"{f.feature}: {text.number(f.value)}, prior alone {text.number(f.baseline)}")
        for f in columns.features[:MOST_FEATURES]
    ]
    finding = columns.finding
    title = f"{columns.unit} by column, {finding.attack} under {columns.setting.id}"
    unit = RIGHT if columns.unit == "Accuracy" else columns.unit.lower()
    hidden = len(columns.features) - len(rows)
    rest = f" {text.plural(hidden, 'column')} with less advantage only in the table." if hidden else ""
    return Figure(
        _compared(rows, None, name, title, f"{text.plural(len(rows), 'column')}. The table has the numbers.", unit),
        f"By falling advantage over the prior. Bars are 95 % intervals over clusters.{rest}",
    )


@dataclass(frozen=True)
class Compared:
    """One line of a chart that sets an attack's share of right cells beside the prior's."""

    label: str
    found: FeatureScore | BucketScore
    tip: str


def _compared(
    rows: Sequence[Compared], down: str | None, name: str, title: str, words: str, unit: str = RIGHT
) -> Markup:
    """Dots with intervals for the attack, squares for the prior, one line per row in their order."""
    lines = [f"{i:03} {text.shortened(text.visible(r.label), 15)}" for i, r in enumerate(rows)]
    plain = [
        {
            "line": line,
            "low": r.found.value if r.found.low is None else r.found.low,
            "high": r.found.value if r.found.high is None else r.found.high,
            "share": share,
            "who": who,
            "tip": text.visible(r.tip),
        }
        for line, r in zip(lines, rows, strict=True)
        for who, share in (("prior alone", r.found.baseline), ("attack", r.found.value))
    ]
    axis = alt.Axis(labelExpr=UNNUMBERED, labelLimit=0, minExtent=_room(line[4:] for line in lines))
    y = alt.Y("line:N", title=down, axis=axis, sort=lines)
    across = alt.Scale(domain=[0, 1])
    base = _chart(plain).encode(y=y)
    spans = base.transform_filter("datum.who == 'attack'").mark_rule(color=ACCENT, opacity=0.55, strokeWidth=2.5)
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", columnPadding=14, symbolSize=70)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("share:Q", title=unit, scale=across),
        color=alt.Color("who:N", scale=alt.Scale(domain=WHO, range=[ACCENT, MUTED]), legend=legend),
        shape=alt.Shape("who:N", scale=alt.Scale(domain=WHO, range=["circle", "square"]), legend=legend),
        description="tip:N",
    )
    reach = spans.encode(x=alt.X("low:Q", scale=across), x2="high:Q", description=alt.value(""))
    chart = (reach + points).properties(width=WIDTH - 60, height=alt.Step(24))
    return _draw(chart, name, title, words)


def matrix(seen: Sequence[Received], topics: Sequence[str], observers: Sequence[str], name: str) -> Figure:
    """Bytes that reached each observer on each topic; cells of ciphertext only are outlined."""
    columns, lines = _labels(observers, 13), _labels(topics, 26)
    heaviest = max((s.size for s in seen), default=0) or 1
    rows = [
        {
            "topic": lines[s.topic],
            "observer": columns[s.observer],
            "sealed": s.sealed,
            "shade": 0.08 + 0.42 * (s.size / heaviest) ** 0.25,
            "bytes": text.size(s.size),
            "label": text.visible(f"{s.observer}, {s.topic}: {text.size(s.size)}{' sealed' if s.sealed else ''}"),
        }
        for s in seen
        if s.size
    ]
    height = round(0.6 * _room(columns.values()))  # of labels at 35 degrees
    across = alt.Axis(orient="top", labelAngle=-35, labelAlign="left", labelExpr=UNNUMBERED, minExtent=height)
    down = alt.Axis(labelExpr=UNNUMBERED, labelLimit=0, minExtent=_room(lines.values()))
    base = _chart(rows).encode(
        x=alt.X("observer:N", title=None, axis=across, scale=_band(columns)),
        y=alt.Y("topic:N", title=None, axis=down, scale=_band(lines)),
    )
    readable = base.transform_filter("!datum.sealed").mark_rect(fill=ACCENT, stroke=ACCENT, cornerRadius=2)
    sealed = base.transform_filter("datum.sealed").mark_rect(fill="none", stroke=MUTED, strokeDash=[3, 2])
    cells = readable.encode(fillOpacity=alt.FillOpacity("shade:Q", scale=None), description="label:N")
    numbers = base.mark_text(color=INK, fontSize=10.5, aria=False).encode(text="bytes:N")
    return Figure(
        _draw(
            alt.layer(cells, sealed.encode(description="label:N"), numbers).properties(
                width=alt.Step(60), height=alt.Step(24)
            ),
            name,
            "Bytes that reached each observer, by topic",
            f"{text.plural(len(topics), 'topic')}, {text.plural(len(observers), 'observer')}; numbers in the tables.",
        ),
        "A stronger colour is more; a dashed outline is ciphertext only. What a party sent itself is not counted.",
    )


def _labels(names: Sequence[str], length: int) -> dict[str, str]:
    """A label for each name, numbered so that no two shortened ones are the same; the axis leaves the number out."""
    return {name: f"{i} {text.shortened(text.visible(name), length)}" for i, name in enumerate(names)}


def _room(labels: Iterable[str]) -> int:
    """Pixels for the longest of `labels`: readers' fonts are wider than the one that Vega measures with."""
    return 8 + 7 * max(map(len, labels), default=0)


def _band(labels: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(labels.values()), paddingInner=0.1)


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]


def _draw(chart: alt.LayerChart | alt.FacetChart, name: str, title: str, description: str) -> Markup:
    """The chart as inline SVG. Nothing is fetched: the data are in the specification, and no address is allowed."""
    styled = (
        chart.configure(background="transparent", font="sans-serif", padding=4)
        .configure_view(stroke=None)
        .configure_axis(**AXES)
        .configure_legend(labelColor=MUTED, labelFontSize=11, labelLimit=0)
    )
    drawn = vl_convert.vegalite_to_svg(styled.to_dict(), allowed_base_urls=[])
    return svg.inline(svg.static(drawn), name, title, description)
