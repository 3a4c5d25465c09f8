from dataclasses import replace

from leakledger.reports.html import render
from leakledger.reports.remedies import remedies
from tests.reports.example import example
from tests.reports.page import parse
from tests.reports.test_findings import ruled

SEEDS = "2 seeds, of at least 29 that no leak above 0.1 needs"


def test_what_is_missing_is_said_with_what_to_do_the_commonest_first():
    rulings = [
        ruled("inconclusive", missing=("1 kind of message unread: a.b", SEEDS)),
        ruled("inconclusive", "mean", missing=(SEEDS, SEEDS)),
        ruled("leaks", "size", missing=("no attack made a claim",)),
    ]
    (few, unread) = remedies(rulings)
    assert (few.action, few.questions) == ("Give audit.seeds 29 seeds or more.", 2)
    assert (unread.reason, unread.questions) == ("messages that no attack read", 1)


def test_rounds_without_a_claim_are_said_with_what_to_do():
    """The page named no remedy: by default the first round alone is attacked, and the verdict takes every one."""
    missing = ("no claim about any batch of 2 of 3 rounds of training",)
    (rounds,) = remedies([ruled("inconclusive", missing=missing)])
    assert "attacks.rounds" in rounds.action


def test_an_audit_that_cannot_answer_says_on_its_first_screen_what_to_do():
    """And does not say of settings of which none was shown to leak that none made a leak smaller."""
    record = example()
    rulings = tuple(replace(r, verdict="inconclusive", reasons=(), missing=(SEEDS,)) for r in record.rulings)
    opened = replace(record, rulings=rulings, verdict=replace(record.verdict, status="inconclusive"))
    said = parse(render(opened)).by_id("verdict").words
    assert "Give audit.seeds 29 seeds or more." in said
    assert "made a leak smaller" not in render(opened)
