"""A page stays small enough to be mailed, however many settings an audit has."""

from dataclasses import replace

import pytest

from leakledger.reports.html import MOST_DETAILED, MOST_POINTS, render
from tests.reports.example import example
from tests.reports.page import parse

LIMIT = 3_000_000  # bytes


def many(times):
    """The example `times` over, each under names of its own."""
    whole = example()

    def again(row, i):
        return replace(row, setting=f"{row.setting}-{i}")

    cases = [
        replace(c, setting=replace(c.setting, id=f"{c.setting.id}-{i}")) for i in range(times) for c in whole.cases
    ]
    parts = {
        name: tuple(again(row, i) for i in range(times) for row in getattr(whole, name))
        for name in ("scores", "utility", "rulings", "leakage")
    }
    return replace(whole, cases=tuple(cases), **parts)


@pytest.mark.slow
def test_a_page_of_two_hundred_cases_stays_under_three_megabytes_and_lists_every_finding():
    record = many(10)
    assert len(record.cases) == 210
    html = render(record)
    assert len(html.encode()) < LIMIT
    page = parse(html)
    found = [d for d in page.by_id("findings").all("details") if "id" in d.attributes]
    assert len(found) >= len({(r.setting, r.asset) for r in record.rulings}) > MOST_DETAILED
    assert len({c.setting.id for c in record.cases}) > MOST_POINTS
    assert "see results.json" in page.by_id("findings").words
