from dataclasses import replace

from leakledger.audit.records import Finding
from leakledger.reports.checks import SHOWN, checks
from tests.reports.example import case, setting

SERVER, COALITION = ("server",), ("P1", "P2")


def finding(check="coalition", party="P3", observers=SERVER, evidence=(1, 2)):
    return Finding("sac_audit", observers, party, check, f"about {party}", evidence)


def of(*found, number=1):
    return replace(case(number, setting(number), 0), findings=found)


def test_a_check_has_one_row_per_setting_with_every_party_and_adversary_it_fired_for():
    rows = checks([of(finding(), finding(party="P1", observers=COALITION)), of(finding(), number=2)])
    assert [(r.setting, r.check, r.parties) for r in rows] == [
        (setting(1).id, "coalition", ("P1", "P3")),
        (setting(2).id, "coalition", ("P3",)),
    ]
    assert rows[0].observers == (SERVER, COALITION)
    assert rows[0].text == "about P3"


def test_different_checks_have_rows_of_their_own():
    assert [r.check for r in checks([of(finding(), finding("masks-reused"))])] == ["coalition", "masks-reused"]


def test_long_evidence_is_cut_and_the_rest_counted():
    (row,) = checks([of(finding(evidence=tuple(range(SHOWN + 3))))])
    assert len(row.evidence) == SHOWN
    assert row.more == 3
    assert checks([of(finding(evidence=()))])[0].evidence == ()


def test_no_finding_is_no_row():
    assert checks([of()]) == []
