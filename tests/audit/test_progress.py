"""Where a run is, told while it runs: shares of cases, an estimate, as much of it as asked."""

import io
import json
import os
import subprocess
import sys
import time
import tomllib

import pytest

import leakledger
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.pool import each
from leakledger.audit.progress import Shown, Watch, shown
from leakledger.audit.provenance import run_facts
from leakledger.audit.steps import Step, Steps, listening, tell
from leakledger.audit.store import Store
from leakledger.audit.terminal import Terminal
from tests.audit.test_cli import QUICK, call, refused

SMALL = QUICK.replace("[attacks.tableak]", '[attacks]\nuse = ["plaintext", "statistics"]\n[attacks.tableak]')


def test_steps_of_a_case_go_from_nothing_to_less_than_all_and_never_back():
    told = []
    with listening(told.append):
        steps = Steps("c", [("plaintext", False), ("portfolio", True)], adversaries=2)
        steps.federation()
        for observers in (["server"], ["P1"]):
            for name in ("plaintext", "portfolio"):
                steps.attack(name, observers)
    tell("c", "nobody hears this", 1.0)
    assert [s.what for s in told] == [
        "federation",
        "plaintext by server",
        "portfolio by server",
        "plaintext by P1",
        "portfolio by P1",
    ]
    shares = [s.share for s in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] < 1


def test_the_estimate_follows_the_share_that_is_done_and_leaves_out_earlier_runs():
    now = [0.0]
    watch = Watch(4, lambda: now[0])
    assert watch.left() == ""
    watch.finished("a", 3)  # two of them by an earlier run
    now[0] = 60
    assert watch.left() == "about 1 min left"
    watch.step(Step("b", "x", 0.5))
    now[0] = 90
    assert watch.share == 0.875
    assert watch.left() == "about 30 s left"


@pytest.mark.parametrize(("detail", "lines"), [("quiet", 0), ("normal", 1), ("verbose", 2)])
def test_plain_lines_are_as_many_as_asked(detail, lines):
    file = io.StringIO()
    with shown(Terminal(file=file, width=80), 1, detail) as progress:
        progress.step(Step("case", "federation", 0.0))
        progress.finished("case", 1, 1)
    assert len(file.getvalue().splitlines()) == lines


@pytest.mark.parametrize(("detail", "lines"), [("quiet", 0), ("normal", 2)])
def test_a_long_case_has_a_line_after_a_minute_without_any(detail, lines):
    now, file = [0.0], io.StringIO()
    progress = Shown(Terminal(file=file, width=80), 1, detail, None, lambda: now[0])
    for seconds in (0, 59, 61, 62, 120, 122):  # lines at 61 and 122
        now[0] = float(seconds)
        progress.step(Step("case", f"step at {seconds}", 0.5))
    said = file.getvalue().splitlines()
    assert said == ["case: step at 61 (50% of the case done)", "case: step at 122 (50% of the case done)"][:lines]


def test_a_long_step_has_one_too(monkeypatch):
    monkeypatch.setattr("leakledger.audit.progress.SILENT", 0.05)
    file = io.StringIO()
    with shown(Terminal(file=file, width=80), 1) as progress:
        progress.step(Step("case", "portfolio by server", 0.5))
        assert eventually(lambda: len(file.getvalue().splitlines()) >= 2)
        progress.finished("case", 1, 1)
        finished = file.getvalue()
        time.sleep(0.2)
        assert file.getvalue() == finished
    assert finished.startswith("case: portfolio by server (50% of the case done)\n")


def eventually(holds, seconds=30):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def test_a_bar_shows_what_a_case_is_at():
    file = io.StringIO()
    with shown(Terminal(file=file, width=100, force_terminal=True), 2) as progress:
        progress.step(Step("case", "portfolio by server", 0.5))
    assert "portfolio by server" in file.getvalue()


def step_and_return(item):
    tell(f"case {item}", "working", 0.5)
    return item


@pytest.mark.parametrize("jobs", [1, 2])
def test_steps_come_from_other_processes_too(jobs):
    told = []
    assert sorted(each(step_and_return, [1, 2], jobs, told.append)) == [1, 2]
    assert sorted(s.case for s in told) == ["case 1", "case 2"]


def test_a_quiet_run_without_transcripts_prints_a_line_and_keeps_no_message(tmp_path):
    (tmp_path / "a.toml").write_text(SMALL)
    done = call("run", tmp_path / "a.toml", "-o", tmp_path / "run", "--quiet", "--no-transcripts")
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.endswith("report.html")
    assert list((tmp_path / "run" / "transcripts").glob("*")) == []
    call("verify", tmp_path / "run")
    said = refused("view", tmp_path / "run")
    assert "kept no transcript" in said
    assert "run it without that option and with another --output" in said  # the same command finds the run finished
    assert not json.loads((tmp_path / "run" / "results.json").read_text())["run"]["transcripts"]
    assert len(leakledger.load(tmp_path / "run").scores)
    (row,) = json.loads(call("list", "runs", "--in", tmp_path, "--json").stdout)
    assert row["run"] == "run"


def test_a_run_that_keeps_messages_does_not_go_on_as_if_it_kept_none(tmp_path):
    """Who asks for no transcript finds none; the run that was begun with them says so, and goes on as it was begun."""
    config = Config.model_validate(tomllib.loads(SMALL))
    facts = run_facts(config, cases(config), "run", "")
    Store.create(tmp_path / "run", facts, "2026-01-01T00:00:00+00:00").close()
    (tmp_path / "a.toml").write_text(SMALL)
    said = refused("run", tmp_path / "a.toml", "-o", tmp_path / "run", "--no-transcripts")
    assert "keeps all messages; go on without --no-transcripts" in said
    assert list((tmp_path / "run" / "transcripts").glob("*")) == []


def test_quiet_and_verbose_together_are_refused():
    assert "opposite" in refused("run", "-q", "-v")
    assert "goes with runs" in refused("list", "attacks", "--in", ".")


SCRIPT = """
import leakledger
print("begun")
settings = {{"data": {{"rows": 200}}, "training": {{"rounds": 1}}, "attacks": {{"use": ["plaintext"]}}}}
settings["audit"] = {{"jobs": 2, "observers": ["server"], "baseline_draws": 2}}
run = leakledger.run(settings, output={folder!r})
print(run.verdict, len(run.scores) > 0, len(run.observations) > 0, len(run.controls) > 0)
"""


@pytest.mark.slow
def test_cases_run_in_parallel_from_a_script_without_a_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(folder=str(tmp_path / "run")))
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["begun", "leaks True True True"]
