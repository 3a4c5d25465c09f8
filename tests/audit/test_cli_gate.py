import html
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from junitparser import JUnitXml

from leakledger.audit import provenance
from leakledger.audit.assemble import load_record
from leakledger.audit.gate import console, decide
from leakledger.audit.gate.policy import UTILITIES
from tests.audit.recorded import AUDIT, call
from tests.reports.sarif_rules import broken

MARGIN = "[[leakage]]\nmargin = 0.3\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of six seeds in which parties tell the server their values, a policy, and a baseline of that run."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "audit.toml").write_text(AUDIT.replace("seeds = [0, 1]", "seeds = [0, 1, 2, 3, 4, 5]"))
    assert call("run", folder / "audit.toml", "-o", folder / "run").exit_code == 0
    (folder / "policy.toml").write_text(MARGIN)
    saved = call("baseline", "save", folder / "run", "-o", folder / "b.json", "--author", "A", "--reason", "first")
    assert saved.exit_code == 0, saved.output
    return folder


def gated(made, *args, policy="policy.toml", baseline="b.json", unforeseen=False):
    compared = ("--baseline", made / baseline) if baseline else ()
    return call("gate", made / "run", "--policy", made / policy, *compared, *args, unforeseen=unforeseen)


def test_a_run_passes_against_itself_and_says_what_it_compared(made):
    result = gated(made)
    assert result.exit_code == 0, result.output
    assert "PASS:" in result.stdout
    assert "by A on" in result.stdout


OTHER = "by other code than is installed now: what is decided here, the installed code decided."


def test_what_reads_the_record_of_a_run_says_where_other_code_made_it_than_decides_now(made, monkeypatch, tmp_path):
    page = tmp_path / "report.html"
    shown = ["gate", made / "run", "--policy", made / "policy.toml", "--baseline", made / "b.json"]
    commands = [shown, [*shown, "--json"], ["report", made / "run", "-o", page], ["export", made / "run", "dpia"]]
    compared = ["compare", made / "b.json", made / "run"]
    commands += [compared, [*compared, "--json"], [*shown, "--annotations"], ["export", made / "run", "cyclonedx"]]
    assert not [c for c in commands if OTHER in call(*c).output]
    assert OTHER not in page.read_text()
    monkeypatch.setattr(provenance, "instrument", lambda: "newer")
    assert [c[0] for c in commands if OTHER in " ".join(call(*c).output.split())] == [c[0] for c in commands]
    assert OTHER in page.read_text()


def test_a_gate_says_where_protocols_were_changed_since_the_run_that_it_judges(made, monkeypatch):
    told = "This run was played by other code than is installed now, in "
    assert told not in gated(made).output
    folder, *others = provenance.code()
    monkeypatch.setattr(provenance, "code", lambda: {folder: "newer", **dict.fromkeys(others, "newer too")})
    for result in (gated(made), gated(made, "--json"), call("compare", made / "run", made / "run")):
        assert result.exit_code == 0, result.output
        assert f"{told}{folder}" in " ".join(result.output.split())


def test_other_versions_of_libraries_than_those_of_a_run_are_named(made, monkeypatch, tmp_path):
    report = ["report", made / "run", "-o", tmp_path / "report.html"]
    mine = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: {**mine, "scipy": "0.1", "ring plugin": "3"})
    told = " ".join(call(*report).output.split())
    assert f"with other versions: ring plugin none (now 3), scipy {mine['scipy']} (now 0.1): what is decided" in told
    assert "scipy" in " ".join(call("compare", made / "run", made / "run").stdout.split())


def test_without_a_baseline_what_is_told_in_the_clear_is_a_violation(made):
    result = gated(made, baseline=None)
    assert result.exit_code == 10
    assert "No baseline" in result.stdout
    assert gated(made, "--exit-zero", baseline=None).exit_code == 0


def test_a_policy_that_nothing_answers_is_inconclusive(made):
    (made / "pairs.toml").write_text('[[leakage]]\nadversary = "2 clients"\n')
    assert gated(made, policy="pairs.toml").exit_code == 11
    assert gated(made, "--exit-zero", policy="pairs.toml").exit_code == 0


def test_exports_replace_no_file_that_is_not_theirs_and_none_is_written_then(made, tmp_path):
    (tmp_path / "audit.toml").write_text("[data]\n")
    (tmp_path / "data.csv").write_text("age,readmitted\n30,yes\n")
    held = {p: p.read_bytes() for p in [*tmp_path.iterdir(), *(made / n for n in ("policy.toml", "b.json"))]}
    (tmp_path / "link").symlink_to(made / "b.json")
    for option, path, why in (
        ("--sarif", tmp_path / "data.csv", "holds something else"),
        ("--junit", tmp_path / "data.csv", "holds something else"),
        ("--sarif-github", made / "b.json", "for something else too"),
        ("--markdown", made / "policy.toml", "for something else too"),
        ("--markdown", tmp_path / "data.csv", "holds something else"),
        ("--markdown", tmp_path / "link", "for something else too"),
        ("--markdown", tmp_path / "audit.toml", "for something else too"),
        ("--junit", tmp_path / "first.sarif", "for something else too"),
    ):
        result = gated(made, "--config", tmp_path / "audit.toml", "--sarif", tmp_path / "first.sarif", option, path)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.strip().splitlines()
        assert line.startswith(f"leakledger: {path}: is")
        assert why in line
    assert {p: p.read_bytes() for p in held} == held
    assert not (tmp_path / "first.sarif").exists()


def test_exports_replace_those_of_an_earlier_gate(made, tmp_path):
    options = ["--sarif", "--sarif-github", "--junit"]
    paths = [tmp_path / f"gate{option}" for option in options]
    summaries = tmp_path / "gate.md"
    for times in (1, 2):
        given = (x for pair in zip(options, paths, strict=True) for x in pair)
        assert gated(made, *given, "--markdown", summaries).exit_code == 0
        assert summaries.read_text().count("### LeakLedger: ") == times
        assert all(p.stat().st_size for p in paths)
        for p in paths:
            p.write_bytes(p.read_bytes() + b"older")


def test_a_summary_goes_to_the_end_of_what_a_step_of_ci_has_said_before(made, tmp_path, monkeypatch):
    (said := tmp_path / "summary").write_text("Tests passed.\n")
    assert gated(made, "--markdown", said).exit_code == 2
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(said))
    assert gated(made, "--markdown", said).exit_code == 0
    assert said.read_text().startswith("Tests passed.\n### LeakLedger: ")


def test_a_baseline_goes_into_a_pipe_and_over_nothing_that_a_run_keeps(made):
    save, told = ["baseline", "save", made / "run", "-o"], ["--author", "A", "--reason", "first"]
    command = [sys.executable, "-m", "leakledger.audit.cli", *save, "/dev/stdout", *told]
    piped = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    assert json.JSONDecoder().raw_decode(piped.decode())[0]["format"] == "leakledger-baseline"
    result = call(*save, made / "run" / "signature.json", *told)
    assert (result.exit_code, "keeps this file" in result.stderr) == (2, True)


def failure(made):
    checks = json.loads(gated(made, "--json", baseline=None).stdout)["checks"]
    return [c for c in checks if c["status"] == "fail"]


TODAY = datetime.now(UTC).date()
SOON = (TODAY + timedelta(days=30)).isoformat()


def waiver(check, name, expires=SOON):
    texts = {"id": name, "fingerprint": check["fingerprint"], "scope": check["setting"]}
    texts |= {"reason": "a pilot", "owner": "B", "approver": "C", "created": TODAY.isoformat(), "expires": expires}
    return "[[waiver]]\nmax_observed = 1.0\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in texts.items()) + "\n"


def test_waivers_let_known_findings_through_until_they_expire(made):
    failed = failure(made)
    assert failed
    for expires, code in ((SOON, 0), ("2020-01-01", 12), ("whenever", 12)):
        (made / "w.toml").write_text("".join(waiver(c, f"W-{k}", expires) for k, c in enumerate(failed)))
        (made / "findings.toml").write_text('[findings]\nforbid = "any"\n' + MARGIN)
        result = gated(made, "--waivers", made / "w.toml", policy="findings.toml")
        assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    "args",
    [
        ("gate", "nowhere", "--policy", "policy.toml"),
        ("gate", "run", "--policy", "none.toml"),
        ("gate", "run", "--policy", "policy.toml", "--baseline", "policy.toml"),
        ("gate", "run", "--policy", "policy.toml", "--waivers", "none.toml"),
        ("baseline", "show", "policy.toml"),
        ("baseline", "save", "run", "-o", "x.json", "--author", " ", "--reason", "r"),
        ("compare", "nowhere", "run"),
        ("export", "nowhere", "dpia"),
        ("validate", "audit.toml", "--baseline", "b.json"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(made, monkeypatch, args):
    monkeypatch.chdir(made)
    result = call(*args)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


def test_that_the_tool_broke_is_never_that_a_leak_was_found(made, monkeypatch):
    def breaks(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(decide, "gate", breaks)
    assert gated(made, unforeseen=True).exit_code == 1
    assert gated(made, "--exit-zero", unforeseen=True).exit_code == 1


def test_exports_agree_with_the_exit_code(made):
    files = {k: made / f"out.{k}" for k in ("sarif", "sarif-github", "junit", "markdown")}
    options = [x for k, path in files.items() for x in (f"--{k}", path)]
    assert gated(made, *options[:6], baseline=None).exit_code == 10
    old = {name: files[name].read_bytes() + b"old" for name in ("sarif", "sarif-github", "junit")}
    for name, content in old.items():  # of an earlier gate, which somebody still reads
        files[name].write_bytes(content)
        (made / f"read.{name}").hardlink_to(files[name])
    result = gated(made, *options, "--annotations", "--config", made / "audit.toml", baseline=None)
    assert result.exit_code == 10
    assert result.stdout.startswith("::error ")
    for name in ("sarif", "sarif-github"):
        assert broken(json.loads(files[name].read_text()), name == "sarif-github") == []
    failed = sum("::error " in line for line in result.stdout.splitlines())
    assert JUnitXml.fromfile(str(files["junit"])).failures == failed
    assert "❌" in files["markdown"].read_text()
    assert {name: (made / f"read.{name}").read_bytes() for name in old} == old


def test_a_baseline_shows_who_moved_it_and_moves_again(made):
    call("baseline", "save", made / "run", "-o", made / "again.json", "--author", "A", "--reason", "first")
    call("baseline", "save", made / "run", "-o", made / "again.json", "--author", "B", "--reason", "second")
    moves = json.loads(call("baseline", "show", made / "again.json", "--json").stdout)
    assert [(m["author"], m["reason"]) for m in moves] == [("A", "first"), ("B", "second")]
    assert "B: second" in call("baseline", "show", made / "again.json").stdout


def test_a_gate_names_what_its_policy_asks_otherwise_than_the_one_that_the_baseline_was_saved_with(made, tmp_path):
    assert "The baseline keeps no policy" in " ".join(gated(made).output.split())
    kept = tmp_path / "kept.json"
    saved = ["baseline", "save", made / "run", "-o", kept, "--author", "A", "--reason", "r"]
    assert call(*saved, "--policy", made / "policy.toml").exit_code == 0
    assert "policy" not in " ".join(gated(made, baseline=kept).output.split())
    loose = tmp_path / "loose.toml"
    loose.write_text(MARGIN.replace("0.3", "0.9"))
    summary = tmp_path / "summary.md"
    for result in (
        gated(made, "--markdown", summary, policy=loose, baseline=kept),
        gated(made, "--json", policy=loose, baseline=kept),
    ):
        assert "everything by any adversary: margin 0.3 -> 0.9" in " ".join(result.output.split())
    assert "margin 0.3 -> 0.9" in html.unescape(summary.read_text())
    assert "with its policy" in call("baseline", "show", kept).output
    assert call(*saved, "--policy", tmp_path / "none.toml").exit_code == 2


def test_two_runs_are_compared_without_a_policy(made):
    found = json.loads(call("compare", made / "run", made / "run", "--json").stdout)
    assert {row[""] for row in found["rows"]} <= {"no worse", "open"}
    result = call("compare", made / "b.json", made / "run")
    assert result.exit_code == 0
    assert [line for line in found["notes"] if line.startswith("Changed since: ") and line in result.stdout]


def test_utility_that_only_the_earlier_run_measured_is_open(made, monkeypatch):
    record = load_record(made / "run")
    without = replace(record, utility=(), cases=tuple(replace(case, utility=()) for case in record.cases))
    monkeypatch.setattr("leakledger.audit.assemble.load_record", lambda folder: without)
    rows = json.loads(call("compare", made / "b.json", made / "run", "--json").stdout)["rows"]
    assert {u.metric for u in record.utility}
    found = [row for row in rows if "was not measured in both runs" in row["why"]]
    assert len(found) == len({u.metric for u in record.utility} & set(UTILITIES))
    assert {row[""] for row in found} == {"open"}


def test_a_comparison_says_how_many_lines_it_leaves_out(made, monkeypatch):
    monkeypatch.setattr(console, "MOST_PASSED", 1)
    result = call("compare", made / "run", made / "run")
    rows = json.loads(call("compare", made / "run", made / "run", "--json").stdout)["rows"]
    passed = [row for row in rows if row[""] == "no worse"]
    assert len(passed) > 1
    assert f"{len(passed) - 1} more are no worse." in result.stdout


def test_two_runs_are_compared_in_words_of_runs_and_a_baseline_in_its_own(made, tmp_path):
    for name, change in (("data", ("rows = 120", "rows = 130")), ("seeds", ("[0, 1, 2, 3, 4, 5]", "[3, 4]"))):
        path = tmp_path / f"{name}.toml"
        path.write_text((made / "audit.toml").read_text().replace(*change))
        call("run", path, "-o", tmp_path / name, "-q")
    for after in (made / "run", tmp_path / "data", tmp_path / "seeds"):
        found = json.loads(call("compare", made / "run", after, "--json").stdout)
        assert found["notes"][0] == f"Before: {made / 'run'}, run run"
        told = " ".join([*found["notes"], *(f"{row['check']} {row['why']}" for row in found["rows"])])
        assert not re.search(r"baseline|policy|waive|stale|leakage\[", told)
        assert re.search(r"\d before\b|than before|the run before cannot be compared", told)
    notes = json.loads(call("compare", made / "b.json", made / "run", "--json").stdout)["notes"]
    assert notes[0].startswith(f"Baseline: {made / 'b.json'}, run run, by A on")


def test_what_a_run_is_compared_with_is_a_run_or_a_baseline(made):
    result = call("compare", made / "audit.toml", made / "run")
    assert result.exit_code == 2
    assert result.stderr.strip().endswith("; BEFORE is the folder of a run, or such a file")


def test_a_run_fails_on_its_verdict_where_it_is_told_to(made):
    for wanted, code in ((None, 0), ("leak", 10), ("inconclusive", 10)):
        option = () if wanted is None else ("--fail-on", wanted)
        assert call("run", made / "audit.toml", "-o", made / "run", *option).exit_code == code


def test_validate_prints_what_the_gate_takes_and_refuses_one_that_cannot_fail(made):
    result = call("validate", made / "audit.toml", "--policy", made / "policy.toml", "--baseline", made / "b.json")
    assert re.search(r"margin 0.3 with power 80% takes \d+ clusters", result.stdout)
    few = ("--set", "audit.seeds=[0]")
    refused = call("validate", made / "audit.toml", "--policy", made / "policy.toml", *few)
    assert refused.exit_code == 2
    assert "can never fail" in refused.stderr


def test_exports_for_other_hands_are_printed_or_written(made):
    assert call("export", made / "run", "dpia").stdout.startswith("# Data protection impact assessment")
    call("export", made / "run", "cyclonedx", "-o", made / "card.json")
    assert json.loads((made / "card.json").read_text())["bomFormat"] == "CycloneDX"


def test_a_gate_says_where_the_configuration_that_it_is_given_is_not_that_of_the_run(made, tmp_path):
    """Rounds were changed in audit.toml and the run from before was gated: it passed without a line."""
    assert "was played with another" not in gated(made, "--config", made / "audit.toml").output
    (changed := tmp_path / "changed.toml").write_text(
        (made / "audit.toml").read_text().replace("rounds = 1", "rounds = 2")
    )
    (broken := tmp_path / "broken.toml").write_text("rounds = 1")
    result = gated(made, "--config", changed)
    assert result.exit_code == 0
    assert "This run was played with another training.0.rounds than" in result.stdout
    assert "the configuration that the run was played with is judged" in gated(made, "--config", broken).stdout
