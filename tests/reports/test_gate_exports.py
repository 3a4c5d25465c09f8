import csv
import html
import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from urllib.parse import unquote

import pytest
from junitparser import Failure, JUnitXml, Skipped

from leakledger.audit.gate_records import BaselineNote, Check, GateOutcome, Severity, WaiverNote
from leakledger.audit.records import Observation
from leakledger.reports.cyclonedx import model_card
from leakledger.reports.dpia import BLANK, dpia
from leakledger.reports.html import render
from leakledger.reports.junit import junit
from leakledger.reports.pull_request import annotations, summary
from leakledger.reports.sarif import FINGERPRINT, Source, sarif
from tests.reports.example import OVERRIDE, QUOTES, SCRIPT, example
from tests.reports.sarif_rules import broken

HOSTILE = (
    SCRIPT,
    QUOTES,
    OVERRIDE,
    "a|b\n| c `x` [y](http://z) @team #1 **w**",
    "nul\x00 esc\x1b[2J \ufffe \ud800 ]]> --> &amp;",
    "%0A::error::injected\r\n::warning::x",
    "../../etc/passwd",
    "",
)
SEVERITY = Severity(7.2, "high", "LL:1.0/GR:AT/CO:1/SI:N/SU:0.80")


def outcome(name="plain"):
    """A gate with every status and kind, one name in every text."""
    settings = list(dict.fromkeys(c.setting.id for c in example().cases))
    kinds = ("ceiling", "regression", "finding", "utility", "precondition")
    statuses = ("fail", "pass", "inconclusive", "waived", "inconclusive")
    checks = tuple(
        Check(
            gate=f"{kind} {name}",
            kind=kind,
            setting=settings[1] if kind != "precondition" else "",
            subject=f"server_dictionary {name}" if kind != "precondition" else "",
            adversary=f"one {name}",
            asset="records" if kind != "finding" else name or "check",
            status=status,
            reasons=(f"because of {name}", "and more"),
            fingerprint=f"LL-{k:016x}",
            limit=0.1,
            observed=0.3,
            before=0.1,
            difference=0.2,
            low=0.1,
            high=0.3,
            p=0.01,
            clusters=12,
            attack=f"attack {name}" if kind != "utility" else "",
            observers=(name,) if kind != "precondition" else (),
            metric="accuracy",
            severity=SEVERITY if kind in ("ceiling", "regression", "finding") else None,
            waiver="W-1" if status == "waived" else "",
        )
        for k, (kind, status) in enumerate(zip(kinds, statuses, strict=True))
    )
    waivers = (
        WaiverNote("W-1", "used", name, name, name, name, "2027-01-01"),
        WaiverNote(name, "expired", f"expired {name}"),
    )
    note = BaselineNote(f"b{name}.json", name, "ab", name, name, "2026-11-01", (name,), (), (name,))
    return GateOutcome(
        name, "cd" * 32, "ef", checks, 0.05, 0.8, 4, note, waivers, (f"note {name}",), status="fail", exit_code=10
    )


def log(name="plain", github=False, **changes):
    source = Source(f"conf/{name or 'audit'}.toml", 'x = 1\nencoder = "server_dictionary"\n')
    made = replace(outcome(name), **changes)
    return json.loads(json.dumps(sarif(made, example(), source, github=github)))


@pytest.mark.parametrize("github", [False, True])
@pytest.mark.parametrize("name", ["plain", *HOSTILE])
def test_sarif_keeps_the_rules_of_the_standard_whatever_names_are(name, github):
    assert broken(log(name, github), github) == []


def test_a_broken_rule_is_noticed():
    wrong = log()
    del wrong["runs"][0]["results"][0]["suppressions"]
    wrong["runs"][0]["results"][1]["ruleIndex"] = 0
    wrong["runs"][0]["results"][2]["level"] = "error"
    assert len(broken(wrong)) == 3


def test_the_full_log_has_every_check_and_the_one_for_github_neither_waived_nor_passed_ones():
    full, github = (log(github=g)["runs"][0]["results"] for g in (False, True))
    assert [r["kind"] for r in full].count("pass") == 1
    assert len(full) == 5
    assert sum(bool(r["suppressions"]) for r in full) == 1
    assert sorted(r["kind"] for r in github) == ["fail", "open", "open"]


def test_a_result_points_to_the_line_that_declares_the_method():
    results = log()["runs"][0]["results"]
    lines = {r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results if "properties" in r}
    assert lines == {2}


def test_fingerprints_hold_no_measured_value():
    again = tuple(replace(c, observed=0.9, low=0.8, high=1.0, p=0.001) for c in outcome().checks)
    prints = [[r["partialFingerprints"] for r in x["runs"][0]["results"]] for x in (log(), log(checks=again))]
    assert prints[0] == prints[1]
    assert all(FINGERPRINT in p for p in prints[0])


def test_without_a_baseline_or_with_a_stale_one_no_result_has_a_state():
    for note in (None, replace(outcome().baseline, stale=("old",))):
        assert not any("baselineState" in r for r in log(baseline=note)["runs"][0]["results"])


@pytest.mark.parametrize("name", ["plain", *HOSTILE])
def test_sarif_tools_read_every_result_back(name, tmp_path):
    path = tmp_path / "gate.sarif"
    path.write_text(json.dumps(log(name)))
    done = subprocess.run(
        [sys.executable, "-m", "sarif", "csv", str(path), "-o", str(tmp_path / "out.csv")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results = log(name)["runs"][0]["results"]
    suppressed = [r for r in results if r.get("suppressions")]
    assert len(rows) in (len(results), len(results) - len(suppressed))  # some versions leave out what is suppressed


@pytest.mark.parametrize("name", ["plain", *HOSTILE])
def test_junit_is_read_back_with_every_outcome(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suites = JUnitXml.fromstring(junit(outcome(name), example()))
    cases = [case for suite in suites for case in suite]
    results = [r for case in cases for r in case.result]
    kinds = sorted(r.type for r in results if isinstance(r, Failure))
    assert kinds == ["ceiling", "inconclusive", "inconclusive", "waiver"]
    assert sum(isinstance(r, Skipped) for r in results) >= 1
    assert suites.failures == 4
    assert suites.tests == len(cases)


@pytest.mark.parametrize("fate", ["unused", "expired", "invalid"])
def test_a_void_waiver_is_a_failure_and_an_error_though_every_check_passed(fate):
    """The gate ended with 12, and to a reader of JUnit all was green."""
    passed = tuple(c for c in outcome().checks if c.status == "pass")
    made = replace(outcome(), checks=passed, waivers=(WaiverNote("W-7", fate, "over"),))
    suites = JUnitXml.fromstring(junit(made, example()))
    assert suites.failures == (fate != "unused")
    assert suites.tests == len([case for suite in suites for case in suite])
    notes = log(checks=passed, waivers=made.waivers)["runs"][0]["invocations"][0]["toolConfigurationNotifications"]
    assert [n["level"] for n in notes if "waiver W-7" in n["message"]["text"]] == [
        "warning" if fate == "unused" else "error"
    ]


@pytest.mark.parametrize("form", ["junit", "annotations", "sarif"])
def test_notes_are_there_and_waived_failures_have_who_answers_for_them_and_how_much_is_allowed(form):
    whole = replace(outcome(), notes=("the policy is another",))
    made = {
        "junit": lambda: junit(whole, example()).decode(),
        "annotations": lambda: "\n".join(annotations(whole, Source())),
        "sarif": lambda: json.dumps(sarif(whole, example(), Source())),
    }
    text = made[form]()
    assert "the policy is another" in text
    (used,) = (w for w in whole.waivers if w.fate == "used")
    assert f"{used.text} (owner {used.owner}, approved by {used.approver}: {used.reason})" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_markup_in_markdown(name):
    text = summary(outcome(name))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "LL-" in line]
    assert len(rows) == 5
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 10 for row in rows)
    assert not {"<script", "](http", "@team", "**w**", "\u202e", "\x1b", "\x00"} & set(
        re.findall(r"<script|\]\(http|@team|\*\*w\*\*|[\u202e\x1b\x00]", text)
    )


@pytest.mark.parametrize("status", ["pass", "inconclusive"])
def test_checks_for_which_a_summary_has_no_room_are_counted(status):
    whole = outcome()
    (one, *_) = (c for c in whole.checks if c.status == status)
    text = summary(replace(whole, checks=(one,) * 57))
    assert text.count("LL-") == 50
    assert "7 more are in the full output." in text
    assert "more are" not in summary(replace(whole, checks=(one,) * 50))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_a_command_in_annotations(name):
    lines = list(annotations(outcome(name), Source()))
    assert len(lines) == 7  # four checks that did not pass, a note, two waivers
    for line in lines:
        assert re.match(r"::(error|warning|notice) [^\n\r]*::[^\n\r]*\Z", line)
    assert all("%0A::error" not in line for line in lines)  # that of a name is the text %250A, and no end of a line
    (used,) = (line for line in lines if line.startswith("::notice title=waiver W-1::"))
    others = [line for line in lines if line is not used]  # it has owner, approver and reason, each of that name
    assert all(line.count("::error") <= 1 or "%3A%3Aerror" in line or "because of" in line for line in others)


@pytest.mark.parametrize("name", HOSTILE)
def test_uris_of_hostile_paths_lead_back_to_them(name):
    if name and "\ud800" not in name:
        uri = log(name)["runs"][0]["artifacts"][0]["location"]["uri"]
        assert unquote(uri) == f"conf/{name}.toml"


def test_the_assessment_fills_what_is_known_and_marks_what_people_must_say():
    text = dpia(example())
    assert text.count(BLANK) >= 5
    assert [h for h in ("(a)", "(b)", "(c)", "(d)") if f"## {h}" not in text] == []
    assert not re.search(r"\bcompliant\b|\banonymous\b", text)
    assert "<script" not in text
    for case in example().cases:
        for found in case.recovered:
            assert not any(cell.value in text for cell in found.cells if len(cell.value) > 4)


def told(observer, sender, topic="zscore.mean", role="received", form="plaintext", content="float64[2]", **more):
    more = {"messages": 1, "size": 26, "first_round": 0, "last_round": 0, **more}
    return Observation(observer, topic, "scale", sender, role, form, content, **more)


def flows(*observations):
    """The lines of flows of a record whose settings have these cases."""
    record = example()
    cases = [replace(c, observations=tuple(of)) for c, of in zip(record.cases, observations, strict=False)]
    named = [replace(c, setting=replace(c.setting, id=f"s{k}", defense=f"d{k}")) for k, c in enumerate(cases)]
    text = dpia(replace(record, cases=tuple(named), rulings=()))
    return html.unescape(text.partition("### Flows between parties")[2].partition("## (b)")[0]).splitlines()


def test_flows_of_the_assessment_are_a_line_for_each_kind_of_message_with_all_who_told_and_were_told_it():
    up = [told("server", p, size=20 + k, content=f"float64[{k}]") for k, p in enumerate(("A", "B", "C"))]
    down = [told(p, "server", "zscore.global", messages=2) for p in ("A", "B", "C")]
    among = [told(r, s, "sac.part", content="float64[1]") for s in "ABC" for r in "ABC" if r != s]
    passed = [told("server", s, "sac.part", "relayed") for s in "ABC"]
    contents = "float64[0] or float64[1] or float64[2]"
    assert [line for line in flows([*up, *down, *among, *passed]) if line.startswith(("| zscore", "| sac"))] == [
        f"| zscore.mean | A, B, C | server |  | plaintext | {contents} | 3 (1) | 63 (20 to 22) |",
        "| zscore.global | server | A, B, C |  | plaintext | float64[2] | 6 (2) | 78 (26) |",
        "| sac.part | A, B, C | A, B, C | server, which reads it | plaintext | float64[1] | 6 (1) | 156 (26) |",
    ]


def test_settings_with_the_same_flows_share_a_table_of_them_and_others_have_their_own():
    one, other = [told("server", "A")], [told("server", "A", form="ciphertext")]
    assert [line[0] for line in flows(one, one, other) if line.startswith(("* ", "| zscore"))] == list("**|*|")


def test_no_flow_of_the_assessment_is_left_out_however_many_there_are():
    many = [told("server", "A", f"kind.{k}") for k in range(100)]
    assert sum(line.startswith("| kind.") for line in flows(many)) == 100


def test_risks_beyond_a_table_of_the_assessment_are_counted_by_verdict():
    record = example()
    (known, *_) = record.rulings
    many = [replace(known, verdict=v) for v in ("inconclusive", "leaks", "no leak") for _ in range(50)]
    text = dpia(replace(record, rulings=tuple(many)))
    assert f"90 more are in the report: 40 inconclusive, 50 no leak above {known.ceiling:g}." in text
    assert "more are in the report" not in dpia(replace(record, rulings=tuple(many[:60])))


def section(text, begins, ends):
    return html.unescape(text.partition(begins)[2].partition(ends)[0])


def test_the_assessment_says_no_leak_with_its_ceiling_alone():
    record = example()
    rulings = tuple(replace(r, verdict="no leak", ceiling=0.3) for r in record.rulings)
    text = section(dpia(replace(record, rulings=rulings)), "## (c)", "## What was tested")
    assert text.count("no leak above 0.3") == text.count("no leak") > 60
    assert "below a ceiling is so with 95 % confidence" in text
    assert "confidence" not in section(dpia(replace(record, rulings=())), "## (c)", "## What was tested")


def test_the_assessment_tells_settings_of_one_method_apart():
    record = example()
    case = record.cases[-1]
    settings = [replace(case.setting, id=name, training=name) for name in ("fedsgd x", "fedavg y")]
    cases = tuple(replace(case, setting=s) for s in settings)
    rulings = tuple(replace(record.rulings[0], setting=s.id) for s in settings)
    text = dpia(replace(record, cases=cases, rulings=rulings))
    for part in (section(text, "## (c)", "## (d)"), section(text, "## (d)", "## What")):
        assert all(s.id in part for s in settings)


def test_the_assessment_has_no_count_of_leaks_where_nothing_was_judged():
    record = example()
    lost = replace(record.cases[-1].setting, id="lost", encoder="lost")
    record = replace(record, aborted=(replace(record.cases[-1], setting=lost),))
    rows = section(dpia(record), "## (d)", "## What").splitlines()
    assert [row for row in rows if "pooled reference" in row or row.startswith("| lost")] != []
    assert not any("0 leaks" in row for row in rows if "pooled reference" in row or row.startswith("| lost"))


def test_a_model_card_of_a_run_that_is_not_finished_says_so_and_has_a_setting_that_a_party_ended():
    record, told = example(), "did not run to the end"
    record = replace(record, missing=0, aborted=())
    assert told not in json.dumps(model_card(record))
    last = next(c.setting for c in reversed(record.cases) if not c.setting.reference)
    ended = tuple(c for c in record.cases if c.setting == last)
    others = tuple(c for c in record.cases if c.setting != last)
    card = model_card(replace(record, cases=others, aborted=ended, missing=2))
    assert last.id in {c["bom-ref"] for c in card["components"]}
    limits = [c["modelCard"]["considerations"]["technicalLimitations"] for c in card["components"]]
    assert all(f"{len(ended) + 2} cases of the audit {told}: figures are provisional" in own for own in limits)


@pytest.mark.parametrize("written", [dpia, lambda record: html.unescape(render(record))])
def test_of_several_seeds_the_rows_of_parties_are_said_to_be_of_the_first(written):
    record = example()
    assert len(record.run.seeds) > 1
    assert f" under seed {record.run.seeds[0]}, the first" in written(record)
    single = replace(record, run=replace(record.run, seeds=record.run.seeds[:1]))
    assert "under seed" not in written(single)


@pytest.mark.parametrize("made", [dpia, lambda record: json.dumps(model_card(record))])
def test_exports_name_what_no_attack_was_played_on(made):
    record = example()
    rows = tuple(r for r in record.rulings if r.asset == "records")
    text = html.unescape(made(replace(record, rulings=rows)))
    assert "No attack was played on which values each party holds" in text
    assert "No attack was played on people's rows" in html.unescape(made(replace(record, rulings=())))


def test_the_model_card_names_what_leaks_where_a_fact_shows_it_and_no_score():
    record = example()
    shown = replace(record.rulings[0], setting=record.cases[-1].setting.id, verdict="leaks", advantage=None)
    shown = replace(shown, adversary="server", asset="check", reasons=("plaintext-told fired in the view of server",))
    card = model_card(replace(record, rulings=(shown,), scores=()))
    limits = card["components"][-1]["modelCard"]["considerations"]["technicalLimitations"]
    assert "leaks to server, what checks of the protocol show: plaintext-told fired in the view of server" in limits


def test_the_model_card_has_leakage_with_intervals_and_utility():
    card = json.loads(json.dumps(model_card(example())))
    assert (card["bomFormat"], card["specVersion"]) == ("CycloneDX", "1.6")
    metrics = card["components"][1]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert any(m["type"].startswith("leakage advantage: ") and "confidenceInterval" in m for m in metrics)
    assert {"F1", "leakage advantage: cells of rows"} <= {m["type"] for m in metrics}
    assert all(isinstance(m["value"], str) for m in metrics)
