"""Bounds are rounded outwards, in one way wherever they stand."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit import tables
from leakledger.audit.benchmarks import dp_sgd
from leakledger.audit.benchmarks.base import Row, with_interval
from leakledger.audit.records import UtilityScore, at_least, at_most, beside, within
from leakledger.reports import text
from leakledger.reports.cyclonedx import model_card
from leakledger.reports.overview import utility_words
from tests.reports.example import example

ROOT = Path(__file__).parents[2]
FLOATS = st.floats(-1e6, 1e6)


@given(FLOATS, st.integers(0, 4))
def test_a_bound_as_a_text_promises_no_more_than_the_bound_but_for_rounding_of_floats(bound, places):
    least, most = float(at_least(bound, places)), float(at_most(bound, places))
    slack = 1e-11 * abs(bound)
    assert least - slack <= bound <= most + slack
    assert most - least < 1.01 * 10**-places


def test_a_bound_that_has_so_few_digits_stays_as_it_is():
    assert [at_most(x, 2) for x in (0.07, 0.29, 0.1, -0.001, 1.0)] == ["0.07", "0.29", "0.10", "0.00", "1.00"]
    assert [at_least(x, 2) for x in (0.07, 0.29, 0.1, 0.001, float("-inf"))] == ["0.07", "0.29", "0.10", "0.00", "-inf"]
    assert (at_most(0.1001, 2), at_least(0.0999, 3)) == ("0.11", "0.099")
    assert (at_most(0.1 + 0.2, 3), at_least(0.3 - 1e-16, 3)) == ("0.300", "0.300")


def test_intervals_stand_in_words_or_behind_what_they_are_of():
    assert within(0.1049, 0.2001, 2) == "0.10 to 0.21"
    assert (beside(0.1049, 0.2001, 2), beside(None, 0.2, 2)) == (" [0.10, 0.21]", "")


@given(FLOATS, FLOATS)
def test_ends_of_intervals_in_reports_are_outside_however_small_or_large(a, b):
    low, high = sorted((a, b))
    shown = text.interval(low, high).replace("−", "-").replace(",", "").strip("[]").split()
    assert float(shown[0]) <= low + 1e-11 * abs(low)
    assert high - 1e-11 * abs(high) <= float(shown[1])


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(4.46e-5, 4.44e-4, "[4.4e−05, 4.5e−04]"), (-1000.4, 1000.4, "[−1,001, 1,001]")],
)
def test_ends_near_nothing_and_of_thousands_are_rounded_outwards_too(low, high, shown):
    assert text.interval(low, high) == shown


def test_model_cards_utilities_and_benchmarks_round_outwards():
    record = example()
    scores = tuple(replace(s, advantage_low=0.12348, advantage_high=0.45671) for s in record.scores)
    bounds = str(model_card(replace(record, scores=scores)))
    assert "'lowerBound': '0.1234', 'upperBound': '0.4568'" in bounds
    assert [words[2] for words in utility_words([utility(0.504, 0.706)])] == ["[0.50, 0.71]"]
    row = Row("b", "d", {}, "m", 0.6, 0.119, 0.601, None, "%", 3)
    assert tables.benchmark_rows([row])[0]["95 % interval"] == "0.11 to 0.61"


def test_pages_of_benchmarks_round_ends_of_intervals_outwards_and_bounds_up():
    row = Row("b", "d", {}, "m", 0.6, 0.119, 0.601, None, "%", 3)
    assert [with_interval(row, 2), with_interval(row, 1, 0)] == ["0.60 (0.11 to 0.61)", "0.6 (0 to 1)"]
    assert with_interval(replace(row, low=None), 2) == "0.60"
    bounded = [
        replace(row, setting={"B": 1, "noise multiplier": 1.0}, metric=m) for m in ("accuracy", "accuracy, bound")
    ]
    assert "| 0.6 (0 to 1) | none | 0.6 |" in dp_sgd.markdown(
        [bounded[0], replace(bounded[1], measured=0.51, low=None)]
    )


def utility(low, high):
    return UtilityScore("s", "m", "e", "c", "none", "t", "f1", 0.6, low, high, 5)


def test_no_file_rounds_the_ends_of_an_interval_to_the_nearest():
    """Points are, and limits that people set."""
    ends = re.compile(r"\{[^{}]*\b(low|high|lower|upper)[^{}]*:[,+]?\.\d[fg]%?\}")
    files = [p for package in ("audit", "reports") for p in (ROOT / package).rglob("*.py")]
    found = [f"{p.relative_to(ROOT)}: {m[0]}" for p in files for m in ends.finditer(p.read_text(encoding="utf-8"))]
    assert not found
