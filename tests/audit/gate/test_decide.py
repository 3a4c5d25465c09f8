import re
from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.gate.ceilings import Ceiling, answer
from leakledger.audit.gate.console import lines, rows
from leakledger.audit.gate.policy import Gate, LeakageGate
from leakledger.audit.gate.snapshot import Cell
from leakledger.audit.gate.waivers import Waiver
from leakledger.audit.plugins import ATTACKS_OF, PACKAGES
from leakledger.audit.records import Ruling, UtilityRow
from leakledger.reports.junit import junit
from leakledger.reports.pull_request import annotations, summary
from leakledger.reports.sarif import Source
from leakledger.reports.wording import said
from tests.audit.gate.made import (
    CONFIG,
    DATA,
    SEEDS,
    controls,
    decided,
    finding,
    noise,
    only,
    record,
    silent,
    trial,
    unread,
)

FLAT = np.full(len(SEEDS), 0.4)
AUROC = [{"metric": "auroc", "margin": 0.05}]
MARGIN = [{"margin": 0.1}]


def test_a_model_that_lost_fails_and_one_that_gained_passes():
    before = record(FLAT, auroc=0.8 + noise(1))
    for shift, status in ((-0.2, "fail"), (0.2, "pass"), (0.0, "pass")):
        outcome = decided(record(FLAT, auroc=0.8 + shift + noise(2)), before, leakage=MARGIN, utility=AUROC)
        assert only(outcome, "utility").status == outcome.status == status


def test_a_utility_shows_the_metric_now_and_before_and_its_loss_beside_them():
    before = record(FLAT, auroc=0.8 + noise(1))
    outcome = decided(record(FLAT, auroc=0.6 + noise(2)), before, leakage=MARGIN, utility=AUROC)
    check = only(outcome, "utility")
    assert (check.observed, check.before, check.difference) == pytest.approx((0.6, 0.8, 0.2), abs=0.03)
    assert check.low < check.difference < check.high
    (row,) = [r for r in rows(outcome) if r["check"] == check.gate]
    assert [float(row[name]) for name in ("now", "before", "lost")] == pytest.approx([0.6, 0.8, 0.2], abs=0.03)
    assert re.search(r"observed 0\.\d+, before 0\.\d+, lost 0\.\d+", said(check))
    assert check.cost == check.difference  # what a waiver limits


def test_utility_that_was_not_measured_is_no_pass():
    outcome = decided(record(FLAT), record(FLAT), leakage=MARGIN, utility=AUROC)
    assert only(outcome, "utility").status == "inconclusive"


def test_a_new_finding_in_every_seed_fails_and_a_known_one_does_not():
    clean, told = record(FLAT), record(FLAT, findings=[finding()])
    assert only(decided(told, clean, leakage=MARGIN), "finding").status == "fail"
    assert decided(told, told, leakage=MARGIN).status == "pass"
    assert decided(told, told, leakage=MARGIN, findings={"forbid": "any"}).exit_code == 10
    assert decided(told, clean, leakage=MARGIN, findings={"allow": ["plaintext-told"]}).status == "pass"
    assert decided(told, clean, leakage=MARGIN, findings={"forbid": "none"}).status == "pass"


def test_a_new_finding_in_every_seed_that_finished_fails_though_others_did_not():
    fired = record(FLAT, findings=[finding()])
    left = replace(fired, cases=fired.cases[2:], missing=2)
    outcome = decided(left, record(FLAT), leakage=MARGIN)
    assert outcome.exit_code == 10
    assert "in 10 of 10 seeds; never before" in only(outcome, "finding").reasons[0]


def test_growth_under_other_seeds_is_not_thinned_by_those_that_did_not_finish():
    other = record(FLAT + 0.2 + noise(2), seeds=[s + 50 for s in SEEDS])
    left = replace(other, cases=other.cases[:8], missing=4)
    both = (decided(now, record(FLAT + noise(1)), leakage=[{"margin": 0.3}]) for now in (other, left))
    whole, part = (only(outcome, "regression") for outcome in both)
    assert whole.status == part.status == "fail"
    assert (whole.clusters, part.clusters) == (12, 8)
    assert part.difference == pytest.approx(0.2, abs=0.03)


def test_a_new_finding_in_some_seeds_is_open():
    some = record(FLAT, findings=[(finding(), (0, 1))])
    outcome = decided(some, record(FLAT), leakage=MARGIN)
    assert (only(outcome, "finding").status, outcome.exit_code) == ("inconclusive", 11)


@pytest.mark.parametrize("fired", [(), (finding(),)])
@pytest.mark.parametrize("kind", ["leaky", "null", "shuffled"])
def test_findings_of_an_attack_that_failed_a_control_are_open_whether_it_found_any_or_none(kind, fired):
    held = (*controls(), *controls("sac_audit", **{kind: False}))
    outcome = decided(record(FLAT, held=held, findings=fired), record(FLAT), leakage=MARGIN)
    check = only(outcome, "precondition")
    assert (check.gate, check.setting, outcome.exit_code) == ("findings of sac_audit", "s1", 11)
    assert f"the {kind} control of sac_audit did not hold" in check.reasons[0]
    blind = decided(record(FLAT, held=held), record(FLAT), leakage=MARGIN, findings={"forbid": "none"})
    assert blind.status == "pass"


def test_proofs_beside_one_that_does_not_hold_are_open():
    def proven(wrong):
        return lambda seed: (trial(0.4, attack="span", certain=3, certain_wrong=int(seed in wrong)),)

    held = (*controls(), *controls("span"))
    guessed = record(FLAT, held=held, more=lambda seed: (trial(0.4, attack="span"),))
    assert decided(record(FLAT, held=held, more=proven(())), guessed, leakage=MARGIN).exit_code == 10
    outcome = decided(record(FLAT, held=held, more=proven((3,))), guessed, leakage=MARGIN)
    assert outcome.exit_code == 11
    assert "span vouched for something that is not so" in only(outcome, "precondition").reasons[0]


def test_proofs_of_an_attack_stand_beside_another_that_was_wrong():
    """One wrong certainty of any attack in use took the proofs of all others out of the gate."""

    def proven_beside_a_wrong_one(seed):
        return trial(0.4, attack="span", certain=3), trial(0.4, attack="guesses", certain=1, certain_wrong=1)

    held = (*controls(), *controls("span"), *controls("guesses"))
    before = record(FLAT, held=held, more=lambda seed: (trial(0.4, attack="span"), trial(0.4, attack="guesses")))
    outcome = decided(record(FLAT, held=held, more=proven_beside_a_wrong_one), before, leakage=MARGIN)
    assert outcome.exit_code == 10


@pytest.mark.parametrize(
    ("before", "after", "status"), [(1, 12, "fail"), (3, 9, "fail"), (3, 5, "pass"), (11, 12, "pass"), (5, 1, "pass")]
)
def test_a_known_finding_in_more_seeds_than_coins_explain_fails(before, after, status):
    some, more = (record(FLAT, findings=[(finding(), tuple(range(n)))]) for n in (before, after))
    assert only(decided(more, some, leakage=MARGIN), "finding").status == status


def test_chances_of_known_findings_to_grow_share_alpha():
    names = [f"check-{k}" for k in range(3)]
    some, more = (record(FLAT, findings=[(finding(n), tuple(range(k))) for n in names]) for k in (3, 9))
    statuses = [c.status for c in decided(more, some, leakage=MARGIN).checks if c.kind == "finding"]
    assert statuses == ["pass"] * 3  # p = 0.02 each: one alone fails


def test_what_nobody_measured_and_nobody_read_is_no_pass_though_the_baseline_was_as_blind():
    def blind(topic):
        made = record(FLAT, unread=[unread(topic)])
        measured = [replace(c, trials=(replace(c.trials[0], asset="size"),)) for c in made.cases]
        asked = (Ruling("s1", "server", asset, "inconclusive", 0.1) for asset in ("size", "records", "vocabulary"))
        return replace(made, cases=tuple(measured), rulings=tuple(asked))

    for topic, left in (("train.gradient", {"records"}), ("dictionary.local", {"records", "vocabulary"})):
        outcome = decided(blind(topic), blind(topic), leakage=MARGIN)
        found = [c for c in outcome.checks if c.status == "inconclusive"]
        assert ({c.asset for c in found}, {c.kind for c in found}) == (left, {"regression"})
        assert all(c.subject and f"no attack reads {topic}" in c.reasons[0] for c in found)
        assert outcome.exit_code == 11
    of_others = [{"assets": ["size"], "margin": 0.2}]
    assert decided(blind("train.gradient"), blind("train.gradient"), leakage=of_others).status == "pass"


def test_records_that_every_attack_gave_up_on_are_no_pass():
    made = record(FLAT)
    given_up = [replace(c, trials=(replace(c.trials[0], asset="size"), silent("span"))) for c in made.cases]
    unsolved = replace(made, cases=tuple(given_up), rulings=(Ruling("s1", "server", "records", "inconclusive", 0.1),))
    (open_question,) = [c for c in decided(unsolved, unsolved, leakage=MARGIN).checks if c.status == "inconclusive"]
    assert open_question.reasons == ("nothing was measured of it: span made no claim",)
    read = replace(unsolved, cases=tuple(replace(c, trials=c.trials[:1]) for c in unsolved.cases))
    assert decided(read, read, leakage=MARGIN).status == "pass"  # everything that was told is read


@pytest.mark.parametrize("asked", [{"margin": 0.1}, {"ceiling": 0.9, "regression": False}])
def test_an_asset_that_a_policy_names_and_no_attack_is_about_is_no_pass(asked):
    outcome = decided(record(FLAT), record(FLAT), leakage=[{"assets": ["records", "membership"], **asked}])
    assert only(outcome, "precondition").reasons == ("no attack in use is about membership",)
    told = record(FLAT, more=lambda seed: (silent("statistics", asset="statistics"),))
    for assets, status in ((["records"], "pass"), (["records", "mean"], "pass"), (None, "pass")):
        named = {"margin": 0.1} | ({} if assets is None else {"assets": assets})
        assert decided(told, told, leakage=[named]).status == status


@pytest.mark.parametrize("regression", [None, False, True])
def test_a_ceiling_that_nothing_was_measured_of_is_no_pass(regression):
    asked = {"name": "two clients", "adversary": "2 clients", "ceiling": 0.1, "regression": regression}
    outcome = decided(record(FLAT), record(FLAT), leakage=[{k: v for k, v in asked.items() if v is not None}])
    (check,) = [c for c in outcome.checks if c.gate == "two clients"]
    assert (check.status, outcome.exit_code) == ("inconclusive", 11)
    assert "nothing was measured of 2 clients adversaries" in check.reasons[0]


def test_without_a_baseline_every_finding_is_new_and_comparisons_are_asked_for_in_vain():
    outcome = decided(record(FLAT, findings=[(finding(), (3,))]), leakage=[{"regression": True}], utility=AUROC)
    assert only(outcome, "finding").status == "fail"
    assert {c.gate for c in outcome.checks if c.kind == "precondition"} == {"leakage[1]", "utility"}


def test_a_policy_that_asks_nothing_of_a_run_does_not_pass_it():
    outcome = decided(record(FLAT))
    assert (outcome.status, outcome.exit_code) == ("inconclusive", 11)


def test_a_gate_about_something_that_was_not_measured_is_open():
    outcome = decided(record(FLAT), record(FLAT), leakage=[*MARGIN, {"adversary": "2 clients"}])
    assert only(outcome, "precondition").gate == "leakage[2]"  # the first entry judges every cell
    wanted = [{"adversary": "2 clients", "margin": 0.1}, *MARGIN]
    outcome = decided(record(FLAT), record(FLAT), leakage=wanted)
    assert only(outcome, "precondition").gate == "leakage[1]"
    assert outcome.exit_code == 11


def test_other_data_is_stale():
    other = record(FLAT, data=replace(DATA, fingerprint="f2"))
    outcome = decided(other, record(FLAT), leakage=MARGIN)
    assert outcome.exit_code == 11
    assert "other data: fingerprint" in outcome.baseline.stale[0]
    more = record(FLAT, data=replace(DATA, rows=101), seeds=[s + 50 for s in SEEDS])
    assert "rows" in decided(more, record(FLAT), leakage=MARGIN).baseline.stale[0]


def test_another_version_of_the_tool_or_of_its_attacks_is_stale():
    before = record(FLAT)
    newer = replace(before, run=replace(before.run, versions={"leakledger": "0.2.0", "torch": "2"}))
    assert "version 0.1.0" in decided(newer, before, leakage=MARGIN).baseline.stale[0]
    library = replace(before, run=replace(before.run, versions={"leakledger": "0.1.0", "torch": "3"}))
    outcome = decided(library, before, leakage=MARGIN)
    assert outcome.status == "pass"
    assert any("torch" in note for note in outcome.notes)


def test_a_baseline_is_compared_where_both_records_name_the_same_code_of_attacks_and_scoring():
    def made(code):
        made = record(FLAT)
        return replace(made, run=replace(made.run, instrument=code))

    assert decided(made("a"), made("a"), leakage=MARGIN).status == "pass"
    other = decided(made("b"), made("a"), leakage=MARGIN)
    assert (other.exit_code, other.baseline.stale) == (
        11,
        ("it was measured by other attacks or another scoring than this run",),
    )
    for one, two in [("", ""), ("a", ""), ("", "a")]:
        unknown = decided(made(one), made(two), leakage=MARGIN)
        assert unknown.exit_code == 11
        assert "is not in the record: run that audit again" in unknown.baseline.stale[0]


def test_another_version_of_a_plugin_is_stale_where_its_attack_is_in_use(monkeypatch):
    def made(version):
        made = record(FLAT)
        return replace(made, run=replace(made.run, versions={**made.run.versions, "their-methods": version}))

    assert decided(made("2"), made("1"), leakage=MARGIN).status == "pass"  # its encoders may be what is under test
    monkeypatch.setitem(ATTACKS_OF, "made", "their-methods")
    assert decided(made("1"), made("1"), leakage=MARGIN).status == "pass"
    outcome = decided(made("2"), made("1"), leakage=MARGIN)
    assert (outcome.exit_code, len(outcome.baseline.stale)) == (11, 1)
    assert "other attacks" in outcome.baseline.stale[0]


def test_other_code_of_a_plugin_of_the_same_version_is_stale_too(monkeypatch):
    def made(code):
        made, versions = record(FLAT), {"their-methods": "1", "theirs (code)": code}
        return replace(made, run=replace(made.run, versions={**made.run.versions, **versions}))

    monkeypatch.setitem(ATTACKS_OF, "made", "their-methods")
    monkeypatch.setitem(PACKAGES, "theirs", "their-methods")
    assert decided(made("a"), made("a"), leakage=MARGIN).status == "pass"
    assert decided(made("b"), made("a"), leakage=MARGIN).exit_code == 11


def test_fingerprints_name_the_question_and_not_what_was_measured():
    before = record(FLAT)
    one, other = (decided(record(FLAT + x), before, leakage=MARGIN) for x in (0.3, 0.35))
    assert only(one, "regression").fingerprint == only(other, "regression").fingerprint
    elsewhere = decided(record(FLAT, setting="s2"), record(FLAT, setting="s2"), leakage=MARGIN)
    assert only(elsewhere, "regression").fingerprint != only(one, "regression").fingerprint


@pytest.mark.parametrize("status", ["fail", "pass"])
def test_severity_is_computed_again_from_its_vector(status):
    outcome = decided(record(FLAT + (0.3 if status == "fail" else 0)), record(FLAT), leakage=MARGIN)
    severity = only(outcome, "regression").severity
    parts = dict(p.split(":") for p in severity.vector.split("/"))
    impact = {"PP": 4.0, "MB": 6.0, "AT": 8.0, "RE": 9.5, "KE": 10.0}[parts["GR"]]
    collusion, knowledge = {"1": 1.0, "2": 0.85}[parts["CO"]], {"N": 1.0, "G": 0.9}[parts["SI"]]
    again = impact * collusion * knowledge * (0.5 + 0.5 * float(parts["SU"]))
    assert severity.score == pytest.approx(again, abs=0.1)


def test_how_many_clusters_would_decide_what_is_open_is_said_wherever_it_is_read():
    wild = decided(record(FLAT + noise(4, 0.3)), record(FLAT + noise(5, 0.3)), leakage=[{"margin": 0.05}])
    assert re.search(r"\d+ would decide it with power", wild.power_sentence)
    needed = str(only(wild, "regression").needed)
    assert needed in wild.power_sentence
    assert wild.power_sentence in list(lines(wild))
    assert any(line.startswith("::notice") and f"{needed} would decide" in line for line in annotations(wild, Source()))
    assert "would decide it with power" in summary(wild)
    unheld = decided(record(0 * FLAT, held=controls(leaky=False)), leakage=[{"ceiling": 0.1}])
    assert unheld.power_sentence.endswith(", where clusters are all that is missing.")
    passed = decided(record(FLAT), record(FLAT), leakage=MARGIN)
    assert "would decide" not in passed.power_sentence + summary(passed)


def test_as_many_clusters_as_the_gate_asks_for_decide_what_was_open():
    def of(seeds):
        def more(seed):
            return [trial(0.4, attack=f"a{k}") for k in range(7)]

        held = [c for name in ("made", *(f"a{k}" for k in range(7))) for c in controls(name)]
        return record(np.full(seeds, 0.4), auroc=[0.9] * seeds, seeds=range(seeds), held=tuple(held), more=more)

    def outcome(seeds):
        return decided(of(seeds), of(seeds), leakage=MARGIN, utility=[{"metric": "auroc"}])

    few = outcome(3)
    (said,) = re.findall(r"2 .* checks have too few clusters \(3\); (\d+) would decide all", few.power_sentence)
    assert outcome(int(said)).exit_code == 0
    assert outcome(int(said) - 1).exit_code == 11
    assert f"too few clusters ({int(said) - 1}); {said} would decide it" in outcome(int(said) - 1).power_sentence


def test_too_few_clusters_are_the_fewest_and_most_of_all_checks_that_have_too_few():
    def more(seed):
        return [trial(0.4, observers=("P1",), victim=victim) for victim in ("P2", "P3")]

    made = record(np.full(3, 0.4), auroc=[0.9] * 3, seeds=range(3), more=more)
    outcome = decided(made, made, leakage=MARGIN, utility=[{"metric": "auroc"}], gate={"alpha": 1e-4})
    assert [c for c in outcome.checks if c.reasons[0].startswith("6 clusters can fail none")]
    assert "3 inconclusive checks have too few clusters (3 to 6); " in outcome.power_sentence


def test_a_ceiling_has_seeds_for_clusters_since_as_many_seeds_are_needed():
    made = record(0 * FLAT, more=lambda seed: [trial(0.0, victim=victim) for victim in ("P2", "P3")])
    outcome = decided(made, leakage=[{"ceiling": 0.1}])
    assert only(outcome, "ceiling").status == "inconclusive"
    assert "1 inconclusive check has too few clusters (12); 29 would decide it" in outcome.power_sentence


def test_a_ceiling_quotes_the_attack_that_gets_most_of_those_above_it_and_not_the_surest():
    wild = 0.8 + noise(3, 0.15)
    both = (*controls(), *controls("strong"))
    strong = record(FLAT + noise(1, 0.001), held=both, more=lambda seed: (trial(float(wild[seed]), attack="strong"),))
    check = only(decided(strong, leakage=[{"ceiling": 0.2}]), "ceiling")
    assert (check.status, check.attack) == ("fail", "strong")
    assert check.observed == pytest.approx(wild.mean())
    assert check.reasons == ("strong by server gets more than 0.2",)
    below = only(decided(strong, leakage=[{"ceiling": 0.85}]), "ceiling")
    assert (below.status, below.attack) == ("inconclusive", "strong")


def test_an_attack_that_gets_more_than_no_adversary_can_passes_fails_and_finds_nothing():
    """The page calls that a failed control: the noise is not what is stated, or the truth is told elsewhere."""
    whole = {"metric": "exact_rows", "bound": 0.55}  # of which 0.9 is got
    broken = record(FLAT, more=lambda seed: (trial(0.8, certain=1, **whole),))
    again = decided(broken, broken, leakage=MARGIN)
    check = only(again, "regression")
    assert check.status == "inconclusive"
    assert "the bound control of made did not hold in this run" in check.reasons
    assert only(decided(broken, leakage=[{"ceiling": 0.1}]), "ceiling").status == "inconclusive"
    vouched = record(FLAT, more=lambda seed: (trial(0.8, **whole), trial(1.0, certain=1)))
    assert not [c for c in decided(vouched, findings={"forbid": "any"}).checks if c.status == "fail"]


def test_a_ceiling_quotes_no_measurement_that_nothing_made():
    blind = record(None)
    check = only(decided(blind, leakage=[{"ceiling": 0.2}]), "ceiling")
    assert (check.status, check.observed, check.clusters) == ("inconclusive", None, 0)


def test_seeds_of_the_baseline_in_another_order_are_stale_since_nobody_checks_the_rows_then():
    other = record(FLAT[::-1], seeds=SEEDS[::-1], data=replace(DATA, fingerprint="f2"))
    outcome = decided(other, record(FLAT), leakage=MARGIN)
    assert outcome.exit_code == 11
    assert "in the order that they had, 0 first" in outcome.baseline.stale[0]


def test_another_schema_is_stale_though_the_seeds_are_others():
    def declared(seeds, **schema):
        data = {**CONFIG["data"], "schema": {"target": "y", **schema}}
        return record(FLAT, seeds=seeds, config={**CONFIG, "data": data})

    others = [s + 50 for s in SEEDS]
    wide, before = [{"margin": 0.3}], declared(SEEDS)
    assert decided(declared(others), before, leakage=wide).exit_code == 0
    outcome = decided(declared(others, domains={"ward": ["a", "b"]}), before, leakage=wide)
    assert (outcome.exit_code, outcome.baseline.stale) == (11, ("it was measured on other data: schema",))


def test_whether_a_finding_is_new_is_open_beside_a_stale_baseline():
    other = record(FLAT, data=replace(DATA, fingerprint="f2"), findings=[finding()])
    outcome = decided(other, record(FLAT, findings=[finding()]), leakage=MARGIN)
    check = only(outcome, "finding")
    assert (outcome.exit_code, check.status) == (11, "inconclusive")
    assert "nothing is compared, so nobody can say whether it is new" in check.reasons[0]
    assert decided(other, record(FLAT), leakage=MARGIN, findings={"forbid": "any"}).exit_code == 10
    said = "Changed since: nothing of what is audited"
    assert said in list(lines(outcome))
    assert said in summary(outcome)


def test_what_no_entry_of_the_policy_judges_is_said():
    def grown(more):
        return record(
            FLAT, more=lambda seed: (trial(more, observers=("P2",), asset="size", metric="size_information"),)
        )

    of_server = [{"adversary": "server", "margin": 0.1}]
    outcome = decided(grown(0.9), grown(0.1), leakage=of_server)
    assert outcome.exit_code == 0
    assert "No entry of the policy judges what one client learns: size" in outcome.notes
    assert "No entry" not in " ".join(decided(grown(0.1), grown(0.1), leakage=MARGIN).notes)
    unasked = [{"adversary": "one client", "regression": False}, *MARGIN]
    assert "what one client learns: size" in " ".join(decided(grown(0.9), grown(0.1), leakage=unasked).notes)


def test_a_gate_names_what_it_does_not_judge_since_rows_are_pooled():
    made, other = record(0 * FLAT), record(FLAT + 0.5, setting="s2")
    pooled = tuple(replace(c, setting=replace(c.setting, scaler="pooled", reference=True)) for c in other.cases)
    outcome = decided(replace(made, cases=made.cases + pooled), leakage=[{"ceiling": 0.3}])
    assert [c.setting for c in outcome.checks] == ["s1"]
    (told,) = [n for n in outcome.notes if "e + pooled" in n]
    assert told in list(lines(outcome))
    assert "pooled" in summary(outcome)
    assert not [n for n in decided(made, leakage=[{"ceiling": 0.3}]).notes if "pooled" in n]


def test_a_run_that_is_not_finished_is_no_pass_and_that_is_said_first_whatever_else_is_open():
    unfinished, whole = record(FLAT, missing=7), record(FLAT)
    other = replace(whole, cases=whole.cases + record(FLAT, setting="s2").cases)
    for before in (whole, other):  # of the second it lacks a setting, so that the baseline is stale as well
        outcome = decided(unfinished, before, leakage=MARGIN)
        assert outcome.exit_code == 11
        (run,) = [c for c in outcome.checks if c.gate == "run"]
        assert run.reasons == ("7 cases of it did not run to the end; finish it first",)


def test_a_gate_that_asks_nothing_says_so_and_is_no_green_suite():
    made = record(FLAT)
    outcome = decided(made, made, leakage=[], findings={"forbid": "none"})
    (check,) = outcome.checks
    assert (outcome.exit_code, check.kind, check.status) == (11, "precondition", "inconclusive")
    assert "asks nothing that this run answers" in check.reasons[0]
    assert b'failures="1"' in junit(outcome, made)


def test_a_gate_that_only_looked_at_what_the_policy_accepts_does_not_pass():
    """As one that compared nothing and saw no finding: whether something leaks more was never asked."""
    allowed = {"allow": ["plaintext-told"]}
    told = record(FLAT, findings=[finding()])
    outcome = decided(told, leakage=MARGIN, findings=allowed)
    assert outcome.exit_code == 11
    assert "asks nothing else" in only(outcome, "precondition").reasons[0]
    assert decided(told, told, leakage=MARGIN, findings=allowed).exit_code == 0
    twice = record(FLAT, findings=[finding(), finding("masks-reused")])
    assert decided(twice, leakage=MARGIN, findings=allowed).exit_code == 10


def test_a_finding_has_a_name_for_readers_and_beside_it_the_one_that_a_policy_may_allow():
    told = decided(record(FLAT, findings=[finding("masks-reused")]), record(FLAT), leakage=MARGIN)
    assert only(told, "finding").gate == "finding: masks that were used twice (masks-reused) by server"


def test_nor_does_one_whose_only_other_finding_is_waived():
    told = record(FLAT, findings=[finding(), finding("masks-reused")])
    allowed = {"allow": ["plaintext-told"]}
    failed = next(c for c in decided(told, leakage=MARGIN, findings=allowed).checks if c.status == "fail")
    waiver = Waiver("W-1", failed.fingerprint, failed.setting, max_observed=1.0)
    outcome = decided(told, waivers=[waiver], leakage=MARGIN, findings=allowed)
    assert (outcome.exit_code, outcome.counts) == (11, {"pass": 1, "waived": 1, "inconclusive": 1})
    assert "asks nothing else" in only(outcome, "precondition").reasons[0]
    assert decided(told, told, [waiver], leakage=MARGIN, findings={"forbid": "any", **allowed}).exit_code == 0


def without_rows(section, value):
    """A run whose attacks are about sizes alone, under a configuration with that section."""
    made = record(FLAT, config={**CONFIG, section: value})
    return replace(made, cases=tuple(replace(c, trials=(replace(c.trials[0], asset="size"),)) for c in made.cases))


@pytest.mark.parametrize("section", ["defense", "model", "training"])
def test_a_change_of_what_updates_tell_is_no_pass_where_no_attack_is_about_rows(section):
    before, now = without_rows(section, [{"name": "gaussian-noise"}]), without_rows(section, [{"name": "none"}])
    outcome = decided(now, before, leakage=MARGIN)
    (reason,) = only(outcome, "precondition").reasons
    assert reason.startswith(f"[{section}] changed, and no attack in use is about rows")
    assert outcome.exit_code == 11
    assert decided(now, now, leakage=MARGIN).status == "pass"
    assert decided(now, before, leakage=[{"assets": ["size"], "margin": 0.1}]).status == "pass"
    both = [record(FLAT, config=made.run.config) for made in (now, before)]
    assert decided(*both, leakage=MARGIN).status == "pass"


def trained(rounds, section="training"):
    """A run of so many rounds, of which the first is attacked."""
    made = record(FLAT, config={**CONFIG, section: {"rounds": rounds}})
    took = (UtilityRow("rounds", float(rounds)),)
    return replace(made, cases=tuple(replace(c, utility=took) for c in made.cases))


@pytest.mark.parametrize("section", ["defense", "model", "training"])
def test_more_rounds_that_no_claim_is_about_are_no_pass(section):
    """Six times as many updates left the clients, the first of them told no more than before, and the gate passed."""
    outcome = decided(trained(6, section), trained(1, section), leakage=MARGIN)
    (reason,) = only(outcome, "precondition").reasons
    assert reason == (
        f"[{section}] changed, and no claim is about any batch of 5 of 6 rounds of training, before of 0 of 1: "
        "name more of them in attacks.rounds"
    )
    assert outcome.exit_code == 11
    assert decided(trained(6, section), trained(6, section), leakage=MARGIN).status == "pass"
    assert decided(trained(1, section), trained(6, section), leakage=MARGIN).status == "pass"
    sizes = [{"assets": ["size"], "ceiling": 0.5}]
    assert "what updates tell" not in {c.gate for c in decided(trained(6), trained(1), leakage=sizes).checks}


def test_rounds_that_patience_ended_later_under_the_same_training_are_no_change():
    later = replace(trained(1), cases=trained(2).cases)
    assert decided(later, trained(1), leakage=MARGIN).status == "pass"


def test_a_gate_names_what_no_attack_was_played_on():
    made = without_rows("defense", [])
    outcome = decided(made, made, leakage=MARGIN)
    said_of_nothing = "No attack was played on rows or columns, values held, who holds a value and statistics"
    assert outcome.status == "pass"
    assert any(text.startswith(said_of_nothing) for text in lines(outcome))
    assert "No attack was played on rows or columns" in summary(outcome)


@pytest.mark.parametrize("clients", [("P2",), ("P1", "P2")])
def test_a_gate_says_how_many_adversaries_of_a_kind_were_not_played(clients):
    made = record(FLAT, more=lambda seed: [trial(0.0, observers=(client,)) for client in clients])
    of_some = "Played of the kind one client: 1 of 2; nothing is said of the others."
    assert (of_some in lines(decided(made, made, leakage=MARGIN))) == (len(clients) == 1)


@pytest.mark.parametrize("said", [True, False])
def test_a_ceiling_speaks_of_each_column_where_columns_are_bounded_one_by_one(said):
    """Of membership, which is one figure over all columns, it said that each was below the ceiling."""
    whole = Ceiling(Cell("a", "server", "membership"), LeakageGate(ceiling=0.1), (), None, (), (), said)
    status, (reason,) = answer(whole, None, Gate())
    assert status == "pass"
    assert ("column" in reason) == said
    assert "each party" in reason


def test_a_gate_says_that_the_server_or_clients_were_not_played():
    made = record(FLAT)
    alone = "No client was played as an adversary: nothing is said of what clients learn."
    assert alone in lines(decided(made, made, leakage=MARGIN))
    beside = record(FLAT, more=lambda seed: [trial(0.0, observers=("P2",))])
    assert alone not in lines(decided(beside, beside, leakage=MARGIN))


def test_no_two_checks_of_a_setting_are_called_alike():
    """Whose finding it is, and which asset an entry of many is about, a waiver has to know."""
    proven = record(FLAT, more=lambda seed: (trial(0.4, observers=("P1",), certain=2), trial(0.4, certain=2)))
    named = [{"name": "nobody learns rows", "margin": 0.1, "ceiling": 0.9}]
    names = [c.gate for c in decided(proven, proven, leakage=named).checks]
    assert {"finding: records by server", "finding: records by one client"} <= {*names}
    assert "ceiling: records by server (nobody learns rows)" in names
    assert len(names) == len({*names})


def test_checks_are_called_by_the_plain_names_of_what_they_are_about():
    of_tests = record(FLAT, more=lambda seed: (trial(0.4, asset="held_out_mean", metric="held_out_mean"),))
    gates = [{"assets": ["held_out_mean"], "margin": 0.1}]
    outcome = decided(of_tests, of_tests, leakage=gates, utility=[{"metric": "auroc", "margin": 0.1}])
    assert {"regression: held-out means by server", "utility: AUROC"} <= {c.gate for c in outcome.checks}
    nobody = decided(of_tests, of_tests, leakage=[{"adversary": "2 clients", "assets": ["held_out_rate"]}])
    assert any(c.reasons[0].endswith("2 clients adversaries about held-out rates") for c in nobody.checks)
