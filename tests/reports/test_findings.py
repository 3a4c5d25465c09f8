from dataclasses import replace

from leakledger.reports.findings import coverage, findings, silences, worst
from tests.reports.example import SERVER, scored, scores, setting

ROWS = scores(5, setting(5))  # two on records, one on statistics, two without a claim, one inconclusive
ACCURACY, EXACT, READOUT, SPAN, SPEAR, FREQUENCY = ROWS


def test_findings_are_sorted_by_the_lower_bound_and_not_by_the_mean():
    wide = replace(ACCURACY, **scored(0.9, 0.0, 0.8), attack="wide")
    narrow = replace(ACCURACY, **scored(0.5, 0.0, 0.1), attack="narrow")
    assert [s.attack for s in findings([wide, narrow])] == ["narrow", "wide"]


def test_a_finding_of_one_cluster_is_sorted_by_its_advantage():
    lone = replace(ACCURACY, advantage=0.7, advantage_low=None, advantage_high=None, clusters=1, attack="lone")
    rows = [replace(ACCURACY, **scored(a, 0.0, 0.0), attack=str(a)) for a in (0.6, 0.8)]
    assert [s.attack for s in findings([*rows, lone])] == ["0.8", "lone", "0.6"]


def test_findings_do_not_depend_on_the_order_of_the_scores():
    assert findings(ROWS) == findings(ROWS[::-1])


def test_no_claim_is_no_finding_and_no_finding_is_a_silence():
    assert set(findings(ROWS)) == {ACCURACY, EXACT, READOUT, FREQUENCY}
    assert {s.attack for s in silences(ROWS)} == {"span", "spear"}


def test_silences_of_one_reason_share_a_row():
    again, other = replace(SPAN, setting="b", metric="exact_rows"), replace(SPAN, reason="another")
    rows = silences([SPAN, again, again, other])
    assert [(r.reason, r.settings) for r in rows] == sorted(
        [(SPAN.reason, (SPAN.setting, "b")), ("another", (SPAN.setting,))]
    )


def test_coverage_counts_settings_and_not_metrics():
    rows = coverage([ACCURACY, EXACT, replace(ACCURACY, setting="b"), SPEAR])
    assert [(r.observers, r.attack, r.statuses) for r in rows] == [
        ((SERVER,), "tableak", (("scored", 2),)),
        ((SERVER,), "spear", (("abstained", 1),)),
    ]


def test_the_worst_attack_counts_for_its_asset_alone():
    assert worst(ROWS, ACCURACY.setting, "records") == ACCURACY
    assert worst(ROWS, ACCURACY.setting, "statistics") == READOUT
    assert worst(ROWS, ACCURACY.setting, "vocabulary") is None
    assert worst(ROWS, "elsewhere", "records") is None
