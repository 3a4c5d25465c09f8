"""The sandwich of DP-SGD: what the attack got between what the prior guesses and what no adversary can exceed.

The picture of rows as the benchmark `dp_sgd` has them, as a file of its own: whole rows for each table and batch size,
and cells where they have a bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from leakledger.reports.panels import Mark, Panel, Series, as_file, drawn, even_ticks

WHAT = {"exact_rows": "whole rows", "accuracy": "cells"}
SERIES = (  # ending of the metric, name, colour, shape, dashed
    (", bound", "no adversary above", "var(--good)", "cross", True),
    ("", "posterior", "var(--accent)", "circle", False),
    (", prior only", "prior alone", "var(--muted)", "square", False),
)
ACROSS = 3

Rows = Sequence[Mapping[str, Any]]


def sandwich(rows: Rows, made: str) -> str:
    """The picture, with `made` (machine and date) below it: an SVG file. Raises ValueError where there is nothing."""
    found: dict[tuple[str, str, int], dict[str, dict[float, Mapping[str, Any]]]] = {}
    for row in rows:
        metric, _, ending = str(row["metric"]).partition(",")
        if metric in WHAT:
            key = metric, str(row["dataset"]), int(row["setting"]["B"])
            by = found.setdefault(key, {}).setdefault(f",{ending}" if ending else "", {})
            by[float(row["setting"]["noise multiplier"])] = row
    bounded = {key: own for key, own in found.items() if ", bound" in own}
    if not bounded:
        raise ValueError("there is no bound among these rows to draw; run the benchmark dp_sgd")
    order = sorted(bounded, key=lambda key: (list(WHAT).index(key[0]), key[1], key[2]))
    panels = [_panel(key, bounded[key]) for key in order]
    words = (
        f"{len(panels)} panels: share got by the attack posterior, with 95 % intervals, over the noise multiplier, "
        "above what the prior alone guesses and below what no adversary can exceed."
    )
    return as_file(drawn(panels, ACROSS), "dp-sgd", "DP-SGD: attack, prior and bound", words, made)


def _panel(key: tuple[str, str, int], own: Mapping[str, Mapping[float, Mapping[str, Any]]]) -> Panel:
    metric, dataset, size = key
    steps = sorted({m for by in own.values() for m in by})
    places = {m: 0.05 + 0.9 * k / max(len(steps) - 1, 1) for k, m in enumerate(steps)}
    series = tuple(
        Series(name, colour, tuple(_mark(places[m], own[ending][m]) for m in sorted(own[ending])), shape, dashed=dashed)
        for ending, name, colour, shape, dashed in SERIES
        if ending in own
    )
    title = f"{dataset}, {size} row{'s' if size > 1 else ''}: {WHAT[metric]}"
    ticks = tuple((places[m], f"{m:g}") for m in steps)
    return Panel(title, "noise multiplier", "share got", ticks, even_ticks(0, 1, 3, lambda v: f"{v:.0%}"), series)


def _mark(place: float, row: Mapping[str, Any]) -> Mark:
    value, low, high = (None if row[k] is None else float(row[k]) / 100 for k in ("measured", "low", "high"))
    assert value is not None
    tip = f"{row['metric']}: {100 * value:.1f} %"
    return Mark(place, value, low, high, tip=tip)
