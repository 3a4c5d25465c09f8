from dataclasses import replace

from leakledger.audit.records import CellScores
from leakledger.reports.calibration import calibrated
from tests.reports.example import METHODS, buckets, detail, scores, setting, surest

SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}


def attacked(i, **changes):
    """The score of setting `i` that carries the detail."""
    return replace(next(s for s in scores(i, setting(i)) if s.detail is not None), **changes)


def test_the_federated_setting_where_the_attack_gets_most_is_shown():
    (item,) = calibrated(SETTINGS, [attacked(2), attacked(1), attacked(0)])  # the first one is the pooled reference
    assert item.shown.setting == setting(1).id
    assert [r.score.setting for r in item.rankings[::2]] == [setting(i).id for i in (1, 2, 0)]


def test_a_sound_score_is_shown_before_an_inconclusive_one():
    (item,) = calibrated(SETTINGS, [attacked(1, status="inconclusive"), attacked(3)])
    assert item.shown.setting == setting(3).id
    assert [r.score.status for r in item.rankings] == ["scored", "scored", "inconclusive", "inconclusive"]


def test_kinds_of_cells_are_kept_apart_with_their_units():
    (item,) = calibrated(SETTINGS, [attacked(1)])
    assert [(c.kind, c.unit, len(c.buckets)) for c in item.curves] == [
        ("categorical", "of its maximum", 5),
        ("numeric", "nats", 3),
    ]
    assert [c.cells for c in item.curves] == [sum(b.cells for b in buckets() if b.kind == c.kind) for c in item.curves]


def test_attacks_are_kept_apart_and_those_without_an_entropy_are_left_out():
    silent = attacked(1, attack="silent", detail=CellScores(detail(0.5).features))
    found = calibrated(SETTINGS, [attacked(1), silent, attacked(1, attack="b")])
    assert [c.attack for c in found] == ["tableak", "b"]


def test_a_share_that_was_not_measured_leaves_its_place_open():
    some = CellScores((), tuple(buckets()), tuple(s for s in surest() if s.share != 0.1))
    (item,) = calibrated(SETTINGS, [attacked(1), attacked(2, detail=some)])
    assert item.shares == (0.1, 0.2, 0.5, 1.0)
    assert [r.cells[0] is None for r in item.rankings] == [False, False, True, True]


def test_a_table_of_one_kind_of_cells_has_one_curve_and_one_row():
    numeric = CellScores(
        (), tuple(b for b in buckets() if b.kind == "numeric"), tuple(s for s in surest() if s.kind == "numeric")
    )
    (item,) = calibrated(SETTINGS, [attacked(1, detail=numeric)])
    assert [c.kind for c in item.curves] == [r.kind for r in item.rankings] == ["numeric"]
