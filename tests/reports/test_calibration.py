from dataclasses import replace

from audit.records import Calibration
from reports.calibration import curves
from tests.reports.example import case, setting

CASE = case(1, setting(1), 0)


def of(*rows):
    return replace(CASE, calibration=rows)


def test_buckets_of_all_cases_are_summed_and_sorted():
    sure, unsure = Calibration("a", "numeric", -2.0, 0.0, 10, 9), Calibration("a", "numeric", 0.0, 1.0, 4, 1)
    (curve,) = curves([of(unsure, sure), of(sure)])
    assert [(b.low, b.cells, b.correct, b.accuracy) for b in curve.buckets] == [(-2.0, 20, 18, 0.9), (0.0, 4, 1, 0.25)]
    assert curve.unit == "nats"


def test_attacks_and_kinds_are_kept_apart():
    rows = [Calibration(a, k, 0.0, 1.0, 2, 1) for a in "ab" for k in ("categorical", "numeric")]
    assert [(c.attack, c.kind) for c in curves([of(*rows)])] == [(r.attack, r.kind) for r in rows]


def test_empty_buckets_have_no_accuracy_and_are_left_out():
    assert curves([of(Calibration("a", "numeric", 0.0, 1.0, 0, 0))]) == []
