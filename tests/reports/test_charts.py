import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from leakledger.audit.records import BucketScore
from leakledger.reports import charts, text
from leakledger.reports.calibration import Curve
from leakledger.reports.columns import ColumnTable, columns
from leakledger.reports.observations import seen, topics
from leakledger.reports.plane import planes
from leakledger.reports.svg import local_name
from leakledger.reports.text import visible
from tests.reports.example import METHODS, PARTIES, SCRIPT, SERVER, example, observations, setting

RECORD = example()
SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}
COLUMNS = columns(SETTINGS, RECORD.scores)[0]
PLANE, _ = planes(SETTINGS, RECORD.scores, RECORD.utility, ())
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
    sure = BucketScore("numeric", None, 0.0, 1200, 0.99, 0.917, 0.85, 0.95, 0.4, 8)
    unsure = BucketScore("numeric", 0.0, None, 10, 0.01, 0.5, None, None, 0.45, 2)
    curve = Curve("tableak", "numeric", (sure, unsure), ())
    return {
        "plane": charts.plane(PLANE, "plane"),
        "calibration": charts.calibration(curve, "curve"),
        "features": charts.features(COLUMNS, "columns"),
        "matrix": charts.matrix(seen(ROWS), TOPICS, (SERVER, *PARTIES), "matrix"),
    }


@pytest.mark.parametrize("name", ["plane", "calibration", "features", "matrix"])
def test_colours_are_those_of_the_page_so_that_dark_mode_and_print_apply(figures, name):
    assert {c for c in colours(figures[name]) if not c.startswith("var(--") and c != "none"} == set()


def test_the_plane_has_a_point_for_each_setting_at_the_numbers_of_the_record(figures):
    labels = tooltips(figures["plane"])
    assert len(labels) == len(METHODS)
    for i, (*_, records, _, f1) in enumerate(METHODS):
        (label,) = (t for t in labels if t.startswith(f"{i + 1}. {setting(i).id}: "))
        assert f"F1 {f1:.3f}, advantage {records:.3f} (tableak, accuracy)" in label


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


def test_of_many_settings_those_on_the_front_alone_have_their_number_as_others_would_hide_each_other():
    others = [replace(PLANE.points[3], number=100 + i, kind="inconclusive") for i in range(charts.MOST_NUMBERED)]
    figure = charts.plane(replace(PLANE, points=(*PLANE.points, *others)), "plane")
    front = [p.number for p in PLANE.points if p.kind == "on the front"]
    drawn = re.findall(r">(\d+(?:, \d+)*)</text>", figure.image)
    assert {str(n) for n in front} <= set(drawn)
    assert not any("100" in label for label in drawn)
    assert "numbers are those of settings on the front" in figure.caption
    assert len(tooltips(figure)) == len(PLANE.points) + len(others)


def test_a_single_setting_without_intervals_is_still_drawn():
    point = replace(PLANE.points[1], utility=replace(PLANE.points[1].utility, low=None, high=None))
    point = replace(point, finding=replace(point.finding, advantage_low=None, advantage_high=None))
    assert len(tooltips(charts.plane(replace(PLANE, points=(point,)), "plane"))) == 1


def test_the_bar_of_an_attack_below_the_prior_does_not_part_from_its_point():
    finding = replace(PLANE.points[1].finding, advantage=-1.5, advantage_low=-2.0, advantage_high=-0.5)
    row = charts._point_row(replace(PLANE.points[1], finding=finding))
    assert (row["y_low"], row["y"], row["y_high"]) == (0.0, 0.0, 0.0)


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


def marks(figure, shape):
    """(x, y) of the marks of one shape: a circle is drawn with arcs, a square without."""
    found = re.findall(r'transform="translate\(([\d.]+),([\d.]+)\)"[^>]*d="([^"]+)"|'
                       r'd="([^"]+)"[^>]*transform="translate\(([\d.]+),([\d.]+)\)"', figure.image)  # fmt: skip
    places = [((a, b), d) if d else ((x, y), e) for a, b, d, e, x, y in found]
    return [(float(x), float(y)) for (x, y), d in places if ("A" in d) == (shape == "circle")]


def test_calibration_names_open_buckets_and_counts(figures):
    assert set(tooltips(figures["calibration"])) == {
        "0.917 of 1,200 cells, prior alone 0.400",
        "0.500 of 10 cells, prior alone 0.450",
    }
    assert "up to 0" in figures["calibration"].image
    assert "above 0" in figures["calibration"].image


def test_columns_stand_in_their_order_and_further_right_the_more_of_them_is_right(figures):
    image = figures["features"].image
    names = [f.feature for f in COLUMNS.features]
    shown = [text.shortened(visible(n), 15) for n in names]
    drawn = [n.text for n in ET.fromstring(image).iter() if local_name(n) == "text"]
    assert [t for t in drawn if t in shown] == shown
    assert {f"{f.feature}: {f.value:.3f}, prior alone {f.baseline:.3f}" for f in COLUMNS.features} == set(
        tooltips(figures["features"])
    )


def test_more_columns_than_a_chart_holds_are_left_to_the_table():
    many = tuple(replace(COLUMNS.features[0], feature=f"column {i}") for i in range(charts.MOST_FEATURES + 3))
    figure = charts.features(ColumnTable(COLUMNS.setting, COLUMNS.finding, many), "many")
    assert len(set(tooltips(figure))) == charts.MOST_FEATURES
    assert "3 columns with less advantage only in the table" in figure.caption


def test_columns_that_are_alike_when_shortened_keep_their_own_lines():
    alike = tuple(replace(COLUMNS.features[0], feature=f"the quite long name {i}") for i in range(4))
    image = charts.features(ColumnTable(COLUMNS.setting, COLUMNS.finding, alike), "alike").image
    assert len(set(re.findall(r"translate\([\d.]+,([\d.]+)\)[^>]*><title>the quite", image))) == 4


def test_hostile_labels_stay_text():
    hostile = "\"'><script>alert(1)</script>&lt;\u202e\x07"
    rows = [replace(o, topic=hostile) for o in ROWS if o.topic == "zscore.mean"]
    image = charts.matrix(seen(rows), [hostile], (SERVER, *PARTIES), "m").image
    assert "<script" not in image
    assert any(visible(hostile) in t for t in tooltips(charts.Figure(image, "")))
