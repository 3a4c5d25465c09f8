from dataclasses import replace

from leakledger.audit.records import Aborted
from leakledger.reports.html import render
from leakledger.reports.verdict import MOST_ABORTED, doubts, facts
from tests.reports.example import SCRIPT, empty, example
from tests.reports.page import parse


def test_the_figures_under_the_verdict_are_those_of_the_record():
    assert dict(facts(example())) == {
        "settings": "7",
        "cases": "21",
        "scored findings": "21",
        "worst advantage": "0.940 [0.910, 0.970]",
        "controls passed": "62 of 63",
    }


def test_an_empty_audit_has_figures_too():
    assert dict(facts(empty()))["worst advantage"] == "–"
    assert dict(facts(empty()))["controls passed"] == "none played"


def test_everything_that_stands_in_the_way_of_a_verdict_is_named():
    record = example()
    assert doubts(record) == [
        "2 cases have not run yet.",
        "The null control of tableak failed in 1 of 21 runs.",
        "1 kind of message reached somebody and no attack read it; see “What was not tested”.",
        "1 score is inconclusive: 3 clusters, and at least 5 are needed.",
    ]
    read = tuple(replace(c, unread=()) for c in record.cases[:3])
    assert doubts(replace(record, cases=read, missing=0, scores=record.scores[:3])) == []


def test_every_aborted_case_is_named_with_who_where_and_why():
    record = example()
    why = Aborted("P1", "train", 3, "PartyLost"), Aborted(SCRIPT, "", 0, "PartyLost")
    aborted = tuple(replace(record.cases[i], id=f"case-{i}", aborts=(a,)) for i, a in enumerate(why))
    assert set(doubts(replace(record, aborted=aborted))) - set(doubts(record)) == {
        "Case case-0 was aborted and not attacked: P1 could not go on in step train, round 3: PartyLost. Its "
        "transcript has what was sent until then.",
        f"Case case-1 was aborted and not attacked: {SCRIPT} could not go on in a step that nobody knows: PartyLost. "
        "Its transcript has what was sent until then.",
    }
    page = render(replace(record, aborted=aborted))
    assert "P1 could not go on in step train, round 3" in page
    assert SCRIPT not in page


def test_of_many_aborted_cases_the_first_are_named_and_the_others_counted():
    record = example()
    aborted = tuple(replace(c, aborts=(Aborted("P1", "train", 3, "PartyLost"),)) for c in record.cases[:11])
    said = [d for d in doubts(replace(record, aborted=aborted)) if "aborted" in d]
    assert len(said) == MOST_ABORTED + 1
    assert said[-1] == "3 more cases were aborted; results.json names them."


def test_a_score_spoilt_by_its_control_says_so():
    record = example()
    spoilt = tuple(replace(s, status="inconclusive") for s in record.scores[:1])
    assert "1 score is inconclusive: a control of their attack failed." in doubts(replace(record, scores=spoilt))


def test_aborted_cases_are_told_above_the_grid():
    record = replace(example(), missing=0)
    told = "Not all cases were attacked. 1 case was aborted. The same command plays it again."
    assert told not in parse(render(record)).words
    assert told in next(parse(render(replace(record, aborted=record.cases[:1]))).all("header")).words


def test_an_audit_in_which_nothing_leaks_does_not_say_that_no_change_made_a_leak_smaller():
    record = example()
    clean = tuple(replace(r, verdict="no leak", reasons=(), missing=()) for r in record.rulings)
    verdict = replace(record.verdict, status="no leak")
    page = parse(render(replace(record, rulings=clean, verdict=verdict, missing=0))).by_id("verdict").words
    assert "none made a leak smaller" not in page
    assert "No leak was shown that a change could make smaller." in page
