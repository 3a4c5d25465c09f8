import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from reports import charts
from reports.calibration import Bucket, Curve
from reports.observations import seen, topics
from reports.plane import planes
from reports.svg import local_name
from reports.text import visible
from tests.reports.example import METHODS, PARTIES, SCRIPT, SERVER, example, observations, setting

RECORD = example()
SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}
PLANE, _ = planes(SETTINGS, RECORD.scores, RECORD.utility)
ROWS = observations(setting(1))
TOPICS = [topic for _, topic in topics(ROWS)]


def tooltips(figure):
    """The titles of the marks, without that of the whole chart."""
    return [n.text for n in ET.fromstring(figure.image).iter() if local_name(n) == "title"][1:]


def colours(figure):
    root = ET.fromstring(figure.image)
    return {n.get(a) for n in root.iter() for a in ("fill", "stroke") if n.get(a)}


@pytest.fixture(scope="module")
def figures():
    curve = Curve("tableak", "numeric", (Bucket(float("-inf"), 0.0, 1200, 1100), Bucket(0.0, float("inf"), 10, 5)))
    return {
        "plane": charts.plane(PLANE, "plane"),
        "calibration": charts.calibration(curve, "curve"),
        "matrix": charts.matrix(seen(ROWS), TOPICS, (SERVER, *PARTIES), "matrix"),
    }


@pytest.mark.parametrize("name", ["plane", "calibration", "matrix"])
def test_colours_are_those_of_the_page_so_that_dark_mode_and_print_apply(figures, name):
    assert {c for c in colours(figures[name]) if not c.startswith("var(--") and c != "none"} == set()


def test_the_plane_has_a_point_for_each_setting_at_the_numbers_of_the_record(figures):
    labels = tooltips(figures["plane"])
    assert len(labels) == len(METHODS)
    for i, (*_, records, _, f1) in enumerate(METHODS):
        (label,) = (t for t in labels if t.startswith(f"{i + 1}. {setting(i).id}: "))
        assert f"f1 {f1:.3f}, advantage {records:.3f} (tableak, accuracy)" in label


def test_points_further_right_are_more_useful_and_higher_ones_leak_more(figures):
    marks = re.findall(r'transform="translate\(([\d.]+),([\d.]+)\)"[^>]*><title>(\d+)\. ', figures["plane"].image)
    place = {int(number): (float(x), float(y)) for x, y, number in marks}
    points = {p.number: p for p in PLANE.points}
    assert set(place) == set(points)
    assert sorted(place, key=lambda n: place[n][0]) == sorted(points, key=lambda n: points[n].utility.value)
    assert sorted(place, key=lambda n: -place[n][1]) == sorted(points, key=lambda n: points[n].leakage)


def test_settings_at_one_place_share_a_label():
    twins = (PLANE.points[0], replace(PLANE.points[0], number=9), PLANE.points[3])
    image = charts.plane(replace(PLANE, points=twins), "plane").image
    assert ">1, 9</text>" in image
    assert ">4</text>" in image


def test_a_single_setting_without_intervals_is_still_drawn():
    point = replace(PLANE.points[1], utility=replace(PLANE.points[1].utility, low=None, high=None))
    point = replace(point, finding=replace(point.finding, advantage_low=None, advantage_high=None))
    assert len(tooltips(charts.plane(replace(PLANE, points=(point,)), "plane"))) == 1


def test_the_matrix_has_a_cell_for_whatever_reached_somebody(figures):
    labels = tooltips(figures["matrix"])
    assert len(labels) == len(seen(ROWS))
    assert f"{SCRIPT}, dictionary.global: 5.21 kB" in labels
    assert "server, psi.blinded: 38.4 kB sealed" in labels


def test_names_that_are_alike_when_shortened_keep_their_own_columns():
    names = [f"hospital of the northern region {i}" for i in range(3)]
    rows = [replace(o, observer=n, role="received") for o in ROWS[:1] for n in names]
    image = charts.matrix(seen(rows), [ROWS[0].topic], names, "matrix").image
    assert len(set(re.findall(r'<path d="(\S+)"[^>]*><title>hospital', image))) == 3


def test_calibration_names_open_buckets_and_counts(figures):
    assert tooltips(figures["calibration"]) == ["0.917 of 1,200 cells", "0.500 of 10 cells"]
    assert "below 0" in figures["calibration"].image
    assert "0 or more" in figures["calibration"].image


def test_hostile_labels_stay_text():
    hostile = "\"'><script>alert(1)</script>&lt;\u202e\x07"
    rows = [replace(o, topic=hostile) for o in ROWS if o.topic == "zscore.mean"]
    image = charts.matrix(seen(rows), [hostile], (SERVER, *PARTIES), "m").image
    assert "<script" not in image
    assert any(visible(hostile) in t for t in tooltips(charts.Figure(image, "")))
