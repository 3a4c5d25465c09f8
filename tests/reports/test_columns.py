from dataclasses import replace

from leakledger.reports.columns import columns
from tests.reports.example import METHODS, example, scores, setting

SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}


def test_each_setting_has_the_columns_of_the_attack_that_gets_most_the_reference_last():
    found = columns(SETTINGS, example().scores)
    by_leak = sorted(range(1, len(METHODS)), key=lambda i: -METHODS[i][3])
    assert [c.setting.id for c in found] == [setting(i).id for i in (*by_leak, 0)]
    assert all(c.finding.metric == "accuracy" and c.features == c.finding.detail.features for c in found)


def test_the_worst_attack_on_a_setting_decides():
    (one,) = (s for s in scores(1, setting(1)) if s.detail is not None)
    worse = replace(one, attack="worse", advantage=0.99)
    assert [c.finding.attack for c in columns({1: setting(1)}, [one, worse])] == ["worse"]


def test_a_setting_without_a_sound_score_of_records_is_left_out():
    (one,) = (s for s in scores(1, setting(1)) if s.detail is not None)
    assert columns({1: setting(1)}, [replace(one, status="inconclusive")]) == []
    assert columns({1: setting(1)}, [replace(one, detail=None)]) == []
