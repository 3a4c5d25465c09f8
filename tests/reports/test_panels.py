import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from leakledger.reports.frontier import frontiers
from leakledger.reports.html import render
from leakledger.reports.panels import Mark, Panel, Series, as_file, drawn, even_ticks
from leakledger.reports.sandwich import sandwich
from leakledger.reports.svg import local_name
from tests.audit.test_frontier import drawn as points_of
from tests.audit.test_frontier import noised, setting
from tests.reports.example import SCRIPT, example

TICKS = even_ticks(0, 1, 3, lambda v: f"{v:g}")


def panel(*series):
    return Panel("a", "x", "y", TICKS, TICKS, series)


def shapes(root, name):
    return [node for node in root.iter() if local_name(node) == name]


def test_a_point_is_where_its_numbers_say_and_up_is_more():
    root = drawn([panel(Series("s", "red", (Mark(0.5, 1.0), Mark(1.0, 0.0))))], 1, width=100, height=80)
    circles = [(c.get("cx"), c.get("cy")) for c in shapes(root, "circle")][:2]
    assert circles == [("50", "0"), ("100", "80")]


def test_no_panel_is_an_error():
    with pytest.raises(ValueError, match="no panel"):
        drawn([], 2)


def test_a_file_loads_nothing_and_says_what_it_is():
    text = as_file(drawn([panel(Series("s", "red", (Mark(0, 0),)))], 1), "n", "The title", "The words", "made here")
    root = ET.fromstring(text)
    assert "href" not in text
    assert "script" not in text
    assert next(t.text for t in shapes(root, "title")) == "The title"
    assert "made here" in text


def row(multiplier, metric, measured, size=1):
    setting = {"B": size, "noise multiplier": multiplier}
    return {"dataset": "adult", "setting": setting, "metric": metric, "measured": measured, "low": None, "high": None}


def test_the_sandwich_has_a_panel_for_what_has_a_bound_alone():
    rows = [row(m, metric, 50.0) for m in (0.1, 1.0) for metric in ("exact_rows", "exact_rows, bound", "accuracy")]
    text = sandwich(rows, "a machine")
    assert "whole rows" in text
    assert "cells" not in text
    with pytest.raises(ValueError, match="no bound"):
        sandwich([row(0.1, "accuracy", 50.0)], "a machine")


def frontier_points():
    return points_of((setting("plain"), 0.9, 0.8), (noised(0.1), 0.4, 0.7), (noised(1.0), 0.0, 0.3))


def on_the_page(points):
    """The points as if they were of settings of the made-up audit."""
    return tuple(replace(p, setting=example().cases[0].setting.id) for p in points)


def test_each_method_has_a_frontier_with_the_strengths_beside_its_points():
    (found,) = frontiers(frontier_points())
    assert (found.method, found.metric, len(found.points)) == ("a + b", "f1", 3)
    assert re.findall(r">([\d.]+)</text>", found.figure.image).count("0.1") == 1
    assert "not beaten" in found.figure.image


def test_the_page_shows_the_frontier_or_says_how_to_get_one():
    page = render(replace(example(), frontier=on_the_page(frontier_points())))
    assert 'id="frontier-1-title"' in page
    assert "leakledger frontier" in render(replace(example(), frontier=()))


def bounded_points():
    """The points as of whole rows, with a bound and an epsilon where there is noise."""
    told = {"n0.1": (20.0, 0.9), "n1.0": (0.5, 0.2)}
    return tuple(
        replace(p, metric="exact_rows", epsilon=told[p.setting][0], delta=1e-6, bound=told[p.setting][1])
        if p.setting in told
        else p
        for p in frontier_points()
    )


def test_what_was_got_stands_below_its_bound_over_epsilon():
    (found,) = frontiers(bounded_points())
    root = ET.fromstring(found.bounds.image)
    places = sorted((float(c.get("cx")), float(c.get("cy"))) for c in shapes(root, "circle"))[-2:]
    (strong, got_strong), (weak, got_weak) = places
    assert strong < weak  # epsilon grows to the right
    assert got_strong > got_weak  # and so does what is got: y is downwards
    assert "epsilon 0.5000, leakage 0.000, bound 0.200" in found.bounds.image
    assert found.bounds.caption.startswith("Epsilon at delta 1e-06 is that of what training sends")
    page = render(replace(example(), frontier=on_the_page(bounded_points())))
    assert 'id="bounds-1-title"' in page


def test_without_two_settings_that_have_an_epsilon_and_a_bound_there_is_no_such_picture():
    assert frontiers(frontier_points())[0].bounds is None
    one = tuple(replace(p, epsilon=None) if p.setting == "n1.0" else p for p in bounded_points())
    assert frontiers(one)[0].bounds is None
    for told in (1e-9, float("inf")):  # both are drawn at one place, or there is none
        alike = tuple(replace(p, epsilon=told if p.setting == "n1.0" else 1e-8) for p in bounded_points())
        assert frontiers(alike)[0].bounds is None


def test_hostile_names_stay_text():
    points = tuple(replace(p, method=SCRIPT, family=SCRIPT, defense=SCRIPT) for p in bounded_points())
    page = render(replace(example(), frontier=on_the_page(points)))
    assert "frontier-1-title" in page
    assert SCRIPT not in page
