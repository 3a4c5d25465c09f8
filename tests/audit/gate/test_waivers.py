import re
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from leakledger.audit.gate.baseline import write_baseline
from leakledger.audit.gate.console import lines, rows
from leakledger.audit.gate.waivers import WaiverFileError, read_waivers
from leakledger.audit.pytest_plugin import Audited
from tests.audit.gate.made import SEEDS, baseline, controls, decided, noise, only, record, trial, unread

FLAT = np.full(len(SEEDS), 0.4)
TODAY = date(2026, 11, 22)
MARGIN = [{"margin": 0.1}]
FAILED = only(decided(record(FLAT + 0.3), record(FLAT), leakage=MARGIN), "regression")
GOOD = {
    "id": '"W-1"',
    "fingerprint": f'"{FAILED.fingerprint}"',
    "scope": '"s1"',
    "max_observed": "0.75",
    "reason": '"a pilot"',
    "owner": '"B. Person"',
    "approver": '"C. Person"',
    "created": "2026-11-01",
    "expires": "2027-01-01",
}


def written(tmp_path, **changes):
    """The waivers of a file with one entry, changed; None leaves a key out."""
    entry = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    path = tmp_path / "waivers.toml"
    path.write_text("[[waiver]]\n" + "\n".join(f"{k} = {v}" for k, v in entry.items()))
    return read_waivers(path, TODAY)


def ended(waivers, grown=0.3):
    outcome = decided(record(FLAT + grown), record(FLAT), waivers, leakage=MARGIN)
    return outcome, outcome.waivers[0].fate


def test_a_waiver_lets_one_failure_through_and_it_stays_visible(tmp_path):
    outcome, fate = ended(written(tmp_path))
    assert (outcome.exit_code, fate) == (0, "used")
    check = only(outcome, "regression")
    assert (check.status, check.waiver) == ("waived", "W-1")
    assert "1 waived" in outcome.sentence


def test_the_terminal_says_who_answers_for_it_and_how_much_more_it_would_cover(tmp_path):
    outcome, _ = ended(written(tmp_path))
    (line,) = (line for line in lines(outcome) if line.startswith("Waiver"))
    assert "up to 0.75 where 0.700 was measured" in line
    assert line.endswith("(owner B. Person, approved by C. Person: a pilot)")


def test_the_terminal_names_fingerprint_and_scope_of_what_failed_as_a_waiver_has_them(tmp_path):
    failed = decided(record(FLAT + 0.3), record(FLAT), leakage=MARGIN)
    said = re.compile(r'Scope of a waiver of (LL-\w+): "(.+)"').fullmatch
    (told,) = (m for m in map(said, lines(failed)) if m)
    fingerprint, scope = told.groups()
    path = written(tmp_path, fingerprint=f'"{fingerprint}"', scope=f'"{scope}"')
    outcome, fate = ended(path)
    assert fate == "used"
    assert not any(map(said, lines(outcome)))


@pytest.mark.parametrize("expires", ["2026-11-22", "2026-01-01", '"soon"', '"2027-13-01"', "true", "20270101"])
def test_a_day_that_is_over_or_cannot_be_read_is_expired(tmp_path, expires):
    outcome, fate = ended(written(tmp_path, expires=expires))
    assert (outcome.exit_code, fate) == (12, "expired")


@pytest.mark.parametrize(
    "change",
    [
        *({k: None} for k in GOOD),
        {"reason": '" "'},
        {"fingerprint": '"LL-*"'},
        {"scope": '"s?"'},
        {"fingerprint": '"records"'},
        {"max_observed": '"much"'},
        {"max_observed": "-1"},
        {"max_observed": "inf"},
        {"max_observed": "true"},
        {"created": "2026-11-23"},
        {"expires": "2027-11-03"},  # a year and a day after it was created
        {"aprover": '"X"'},
    ],
)
def test_what_is_missing_wrong_or_wild_is_invalid(tmp_path, change):
    outcome, fate = ended(written(tmp_path, **change))
    assert (outcome.exit_code, fate) in ((12, "invalid"), (10, "invalid"))
    assert only(outcome, "regression").status == "fail"


def test_a_waiver_lasts_a_year_at_most_and_a_longer_one_says_so(tmp_path):
    assert ended(written(tmp_path, expires="2027-11-02"))[1] == "used"
    (outcome, fate) = ended(written(tmp_path, expires="2999-01-01"))
    assert (outcome.exit_code, fate) == (12, "invalid")
    assert "a waiver lasts 366 days at most" in outcome.waivers[0].text


@pytest.mark.parametrize("value", ["2026-11-23", '"2026-11-23"'])
def test_a_waiver_of_a_day_to_come_names_the_day_as_its_author_wrote_it(tmp_path, value):
    (outcome, _) = ended(written(tmp_path, created=value))
    assert outcome.waivers[0].text == "created = 2026-11-23 is no day until today"


def test_a_void_waiver_does_not_hide_another_violation(tmp_path):
    outcome, _ = ended(written(tmp_path, fingerprint='"LL-0000000000000000"', expires="2026-01-01"))
    assert outcome.exit_code == 10


def test_a_void_waiver_ends_a_gate_that_would_pass(tmp_path):
    outcome, fate = ended(written(tmp_path, expires="2026-01-01"), grown=0.0)
    assert (outcome.exit_code, fate) == (12, "expired")


def test_a_waiver_breaks_when_the_leak_grows(tmp_path):
    outcome, fate = ended(written(tmp_path, max_observed="0.69"))
    assert (outcome.exit_code, fate) == (10, "exceeded")


GATE = f"{FAILED.gate} [{FAILED.fingerprint}]"


@pytest.mark.parametrize(
    ("change", "grown", "fate", "said"),
    [
        ({}, 0.0, "unused", f"{GATE} passes: take it out"),
        ({"scope": '"s2"'}, 0.3, "unused", f"{GATE} failed in s1, and scope is s2: correct it"),
        (
            {"fingerprint": '"LL-0000000000000000"'},
            0.3,
            "unused",
            "no check of this gate is [LL-0000000000000000] in s1: take it out",
        ),
        (
            {"expires": "2026-11-20"},
            0.3,
            "expired",
            f"expired on 2026-11-20; {GATE} still fails: mend it, or have the waiver approved anew with other dates",
        ),
        (
            {"expires": "2026-11-20"},
            0.0,
            "expired",
            f"expired on 2026-11-20; no failed check is [{FAILED.fingerprint}] in s1: take it out",
        ),
        (
            {"max_observed": "0.6"},
            0.3,
            "exceeded",
            f"{GATE} fails: 0.700 was measured, max_observed is 0.6; mend what leaks, or have a larger max_observed "
            "approved",
        ),
    ],
)
def test_what_a_waiver_does_not_cover_is_named_with_what_to_do(tmp_path, change, grown, fate, said):
    outcome, _ = ended(written(tmp_path, **change), grown)
    assert (outcome.waivers[0].fate, outcome.waivers[0].text) == (fate, said)


def test_a_waiver_of_a_check_that_is_open_says_that_it_covers_failures_alone(tmp_path):
    both = {"held": controls(null=False)}
    outcome = decided(record(FLAT, **both), record(FLAT), written(tmp_path), leakage=MARGIN)
    assert outcome.waivers[0].text == f"{GATE} is inconclusive: waivers cover failures alone"


def beside(advantages, **what):
    """A second series of the same cell, with one number per seed."""
    return lambda seed: (trial(float(advantages[seed]), **what),)


def test_a_waiver_of_a_small_growth_does_not_cover_a_larger_one_of_the_same_check(tmp_path):
    worst = {"metric": "worst_record"}
    before = record(FLAT, more=beside(FLAT - 0.1, **worst))
    after = record(FLAT + 0.3, more=beside(FLAT + 0.5 + noise(1, 0.1), **worst))
    outcome = decided(after, before, written(tmp_path), leakage=MARGIN)
    check = only(outcome, "regression")
    assert check.observed == pytest.approx(0.7)  # the surest speaks
    assert (outcome.exit_code, outcome.waivers[0].fate) == (10, "exceeded")
    shown = re.search(r"([0-9.]+) at most", next(r["why"] for r in rows(outcome)))[1]
    assert check.most <= float(shown) < check.most + 0.001
    outcome = decided(after, before, written(tmp_path, max_observed=shown), leakage=MARGIN)
    assert (outcome.exit_code, outcome.waivers[0].fate) == (0, "used")


def test_bounds_are_shown_rounded_outwards():
    outcome = decided(record(FLAT + 0.3), record(FLAT), leakage=MARGIN)
    check = replace(only(outcome, "regression"), observed=0.5, most=0.7001, low=0.1239, high=0.5671)
    row = rows(replace(outcome, checks=(check,)))[0]
    assert row["bounds"] == "0.123 to 0.568"
    assert "0.701 at most" in row["why"]


def test_a_waiver_of_what_is_above_a_ceiling_does_not_cover_another_attack_that_gets_more(tmp_path):
    def ended(others, waivers=()):
        made = record(FLAT, more=beside(others, attack="other"), held=controls() + controls("other"), parties=1)
        outcome = decided(made, None, waivers, leakage=[{"ceiling": 0.2}])
        return only(outcome, "ceiling"), outcome

    waivers = written(tmp_path, fingerprint=f'"{ended(FLAT)[0].fingerprint}"', max_observed="0.5")
    assert ended(FLAT, waivers)[1].exit_code == 0
    check, outcome = ended(FLAT + 0.5 + noise(3, 0.1), waivers)
    assert check.observed == pytest.approx(0.9, abs=0.03)
    assert (outcome.exit_code, outcome.waivers[0].fate) == (10, "exceeded")


@pytest.mark.parametrize("kind", ["regression", "ceiling"])
@pytest.mark.parametrize(
    ("doubt", "told"),
    [
        ({"unread": [unread("toy.rows")]}, "toy.rows"),
        ({"held": controls(null=False) + controls("other")}, "null control of made"),
    ],
)
def test_a_waiver_of_a_growth_does_not_cover_what_would_keep_the_check_open_without_it(tmp_path, kind, doubt, told):
    """A waived growth of 0.3 let a message through that no attack reads and that was not there before: exit code 0."""
    leakage = [{"margin": 0.1} if kind == "regression" else {"ceiling": 0.2}]
    both = {"held": controls() + controls("other"), "more": beside(FLAT, attack="other"), "parties": 1}
    before = record(FLAT, **both) if kind == "regression" else None
    now = record(FLAT, **{**both, **doubt, "more": beside(FLAT + 0.3, attack="other")})
    failed = only(decided(now, before, leakage=leakage), kind)
    assert failed.status == "fail"
    waivers = written(tmp_path, fingerprint=f'"{failed.fingerprint}"')
    outcome = decided(now, before, waivers, leakage=leakage)
    check = only(outcome, kind)
    assert (outcome.exit_code, check.status, outcome.waivers[0].fate) == (11, "inconclusive", "used")
    assert told in check.reasons[-1]
    assert check.waiver == "W-1"


def test_a_waiver_of_another_setting_is_unused_and_said_so(tmp_path):
    outcome, fate = ended(written(tmp_path, scope='"s2"'))
    assert (outcome.exit_code, fate) == (10, "unused")


def test_of_two_waivers_for_one_check_the_second_is_invalid(tmp_path):
    path = tmp_path / "two.toml"
    entry = "[[waiver]]\n" + "\n".join(f"{k} = {v}" for k, v in GOOD.items()) + "\n"
    path.write_text(entry + entry)
    assert [bool(w.problem) for w in read_waivers(path, TODAY)] == [False, True]


@pytest.mark.parametrize("text", ["waiver = 3", "[[waivers]]", "not toml", "waiver = [1]", "a = " + "[" * 100_000])
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "w.toml"
    path.write_text(text)
    with pytest.raises(WaiverFileError) as refused:
        read_waivers(path, TODAY)
    assert "\n" not in str(refused.value).strip().split("(")[0]


def test_a_test_of_pytest_says_which_waiver_is_void_and_why(tmp_path):
    made = record(FLAT)
    write_baseline(tmp_path / "baseline.json", baseline(made))
    (tmp_path / "policy.toml").write_text("[[leakage]]\nmargin = 0.1\n")
    (tmp_path / "w.toml").write_text('[[waiver]]\nid = "W-9"\n')
    audited = Audited(tmp_path, tmp_path / "audit.toml", tmp_path / "run", made)
    audited.assert_no_regression()
    with pytest.raises(pytest.fail.Exception, match="Waiver W-9 is invalid: fingerprint is missing or empty"):
        audited.assert_no_regression(waivers="w.toml")
