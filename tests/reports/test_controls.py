from dataclasses import replace

from leakledger.audit.records import Control
from leakledger.reports.controls import controls
from tests.reports.example import case, setting


def cases(*played):
    return [replace(case(1, setting(1), seed), controls=(c,)) for seed, c in enumerate(played)]


def control(kind, advantage, passed=True):
    return Control("tableak", kind, 0.5, 0.4, advantage, passed, "as expected")


def test_the_worst_leaky_control_is_the_one_recovered_least():
    (row,) = controls(cases(control("leaky", 0.99), control("leaky", 0.91), control("leaky", 0.97)))
    assert (row.runs, row.passed, row.worst.advantage, row.failed_in) == (3, 3, 0.91, ())


def test_the_worst_null_control_is_the_one_furthest_above_the_baseline():
    (row,) = controls(cases(control("null", -0.02), control("null", 0.03)))
    assert row.worst.advantage == 0.03


def test_a_failure_is_worse_than_any_pass_and_comes_first_with_its_place():
    rows = controls(cases(control("leaky", 0.99), control("null", 0.1), control("null", 0.05, passed=False)))
    assert [r.kind for r in rows] == ["null", "leaky"]
    assert (rows[0].worst.advantage, rows[0].passed, rows[0].failed_in) == (0.05, 1, ((setting(1).id, 2),))
