import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.encoders import ENCODERS
from leakledger.reports import growth as page
from leakledger.reports.growth import FAMILIES, Axis, growth, lines_of, spread
from leakledger.reports.svg import ELEMENTS, local_name


def row(encoder, series, metric, step, measured):
    name = "parties" if series == "parties" else "values per feature"
    return {"setting": {"encoder": encoder, "series": series, name: step}, "metric": metric, "measured": measured}


ROWS = [
    row(encoder, series, metric, step, 0.0 if (encoder, metric) == ("target", "bytes") else float(k + step))
    for k, encoder in enumerate(("uhe", "apsi", "target", "somebody's own"))
    for series, steps in (("parties", (4, 20)), ("values", (100, 5000)))
    for metric in ("time", "bytes", "messages")
    for step in steps
]


def drawn(rows=ROWS):
    return ET.fromstring(growth(rows, "a machine; a date"))


def of_class(root, name):
    return [n for n in root.iter() if name in (n.get("class") or "").split()]


@given(st.lists(st.floats(0, 200), max_size=12))
def test_labels_keep_their_order_and_distance_and_stay_beside_the_plot(wanted):
    places = spread(wanted, 13, 200)
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    assert all(places[b] - places[a] >= 13 - 1e-9 for a, b in pairwise(order))
    assert all(-1e-9 <= p <= 200 + 1e-9 for p in places)


@given(st.lists(st.integers(0, 15), unique=True))
def test_labels_that_do_not_overlap_stay_where_they_belong(places):
    assert spread([13.0 * p for p in places], 13, 195) == pytest.approx([13.0 * p for p in places])


def test_equal_ratios_have_equal_distances_on_an_axis():
    axis = Axis(10, 1000, 0, 50)
    assert [axis.at(v) for v in (10, 100, 1000)] == pytest.approx([0, 25, 50])


def test_each_panel_has_a_named_line_for_each_encoder_that_costs_something():
    root = drawn()
    assert len(of_class(root, "heading")) == 4
    assert len(of_class(root, "cost")) == 4 + 4 + 3 + 3
    names = [n.text for n in of_class(root, "name")]
    assert {n: names.count(n) for n in names} == {"uhe": 4, "apsi": 4, "somebody's own": 4, "target": 2}
    assert sum(n.text == "no messages: target" for n in root.iter() if n.text) == 2
    assert len(of_class(root, "dot")) == 2 * 14


def test_a_line_has_its_encoders_steps_in_their_order():
    rows = [row("uhe", "parties", "time", n, 10.0 * n) for n in (20, 4, 10)]
    assert lines_of(rows, "parties", "parties", "time") == {"uhe": [(4, 40), (10, 100), (20, 200)]}


def test_every_encoder_has_a_family_and_a_dash_of_its_own_in_it():
    members = [encoder for family in FAMILIES.values() for encoder in family]
    assert sorted(members) == sorted(ENCODERS)
    assert max(map(len, FAMILIES.values())) <= len(set(page.DASHES))


def test_the_file_loads_and_runs_nothing_and_has_its_words():
    root = drawn()
    assert {local_name(n) for n in root.iter()} <= ELEMENTS | {"style"}
    assert "url(" not in growth(ROWS, "")
    assert "20 parties: 20 ms" in root.find("{*}desc").text
    assert any(n.text == "a machine; a date" for n in root.iter())


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("palette", [page.LIGHT, page.DARK], ids=["light", "dark"])
def test_every_colour_of_text_stands_out_from_the_paper(palette):
    """WCAG 2.1, 1.4.3: a contrast of 4.5."""
    colours = dict(zip(page.ROLES, map(luminance, palette), strict=True))
    paper = colours.pop("paper")
    del colours["line"]
    for found in colours.values():
        assert (max(paper, found) + 0.05) / (min(paper, found) + 0.05) >= 4.5


def test_dark_is_for_screens_alone():
    sheet = drawn().find("{*}style").text
    assert re.findall(r"@media [^{]*", sheet) == ["@media screen and (prefers-color-scheme: dark) "]


def test_rows_without_a_series_are_refused():
    with pytest.raises(ValueError, match="there is no time of the series 'values' to draw; run the benchmark growth"):
        growth([r for r in ROWS if r["setting"]["series"] == "parties"], "")
