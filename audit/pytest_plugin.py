"""Audits as tests: the fixture `leakledger` runs one, and its result can be held against a baseline.

    def test_the_model_leaks_no_more_than_before(leakledger):
        leakledger.run("audit.toml").assert_no_regression()

Paths are relative to pytest's root. Policy and baseline are `policy.toml` and `baseline.json` beside the configuration
unless they are named. An inconclusive gate fails the test: nobody could say, and green would say something. So does an
audit that cannot be run or gated, in one line: pytest's own tracebacks show arguments, among them secrets and rows.
"""

import os
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest

if TYPE_CHECKING:
    from leakledger.audit.gate_records import GateOutcome
    from leakledger.audit.records import AuditRecord

P = ParamSpec("P")
R = TypeVar("R")


def fails_in_words(method: Callable[P, R]) -> Callable[P, R]:
    """What a method raises fails the test as the command line would say it: bad input in one line, anything else with
    the places where it was, and never what the arguments there were.
    """

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except Exception as error:
            text = _words(error)
        pytest.fail(text, pytrace=False)

    return wrapped


def _words(error: Exception) -> str:
    from leakledger.audit.command import told_line
    from leakledger.audit.terminal import printable
    from leakledger.preprocess.told_failure import DEBUG

    line = told_line(error)
    debug = line is None or DEBUG in os.environ
    places = "".join(traceback.format_exception(error)) if debug else ""
    return printable(places + (line or ""))


@dataclass(frozen=True)
class Audited:
    """A finished run: its folder and its record, which pytest is not to show: recovered rows are in it."""

    root: Path
    config: Path
    folder: Path
    record: "AuditRecord" = field(repr=False)

    @fails_in_words
    def gate(
        self, policy: str | Path | None = None, baseline: str | Path | None = None, waivers: str | Path | None = None
    ) -> "GateOutcome":
        """What the policy says of the run. A file that cannot be used fails the test."""
        from datetime import UTC, datetime

        from leakledger.audit.gate.baseline import read_baseline
        from leakledger.audit.gate.decide import gate
        from leakledger.audit.gate.policy import read_policy
        from leakledger.audit.gate.policy_change import policy_notes
        from leakledger.audit.gate.waivers import read_waivers

        rules = read_policy(self._beside(policy, "policy.toml"))
        path = self._beside(baseline, "baseline.json")
        waived = read_waivers(self.root / waivers, datetime.now(UTC).date()) if waivers else ()
        kept = read_baseline(path)
        outcome = gate(self.record, rules, (str(path), kept), waived)
        return replace(outcome, notes=(*outcome.notes, *policy_notes(rules, kept)))

    def assert_no_regression(
        self, policy: str | Path | None = None, baseline: str | Path | None = None, waivers: str | Path | None = None
    ) -> None:
        """Fails the test, with every check that did not pass, unless the gate passes; warns of what the policy asks
        otherwise than the one that the baseline was saved with.
        """
        from leakledger.audit.gate.policy_change import ANOTHER
        from leakledger.audit.terminal import printable

        __tracebackhide__ = True
        outcome = self.gate(policy, baseline, waivers)
        for note in (n for n in outcome.notes if n.startswith(ANOTHER)):
            warnings.warn(printable(note), stacklevel=2)
        if outcome.exit_code:
            found = [f"{c.status}: {c.gate}: {'; '.join(c.reasons)}" for c in outcome.checks if c.status != "pass"]
            found += [f"Waiver {w.id} is {w.fate}: {w.text}" for w in outcome.waivers if w.fate != "used"]
            pytest.fail(printable("\n".join([outcome.sentence, *found])), pytrace=False)

    def assert_no_leak(self) -> None:
        """Fails the test unless the audit's verdict is that nothing leaks; warns of whom and what that says nothing."""
        from leakledger.audit.terminal import printable
        from leakledger.audit.verdicts.words import unsaid

        __tracebackhide__ = True
        if self.record.verdict.status != "no leak":
            pytest.fail(printable(f"{self.record.verdict.status}: {self.record.verdict.leakage}"), pytrace=False)
        for text in unsaid(self.record.cases, self.record.rulings):
            warnings.warn(printable(text), stacklevel=2)

    def _beside(self, path: str | Path | None, name: str) -> Path:
        return self.config.parent / name if path is None else self.root / path


@dataclass(frozen=True)
class Runner:
    """Runs audits into folders of the test session."""

    root: Path
    folder: Path

    @fails_in_words
    def run(self, config: str | Path, *overrides: str, secrets: str | Path | None = None) -> Audited:
        """The audit that a configuration asks for, under overrides like "audit.seeds=[0, 1]"; once for the same of both
        and the same secrets. One that cannot be run fails the test.
        """
        from leakledger.audit.chain import digest_of
        from leakledger.audit.config_file import load_config
        from leakledger.audit.run import run_audit
        from leakledger.audit.run_secret import read_secret, secret_text
        from leakledger.audit.tables import run_name

        path = self.root / config
        settings = load_config(path, overrides)
        master = None if secrets is None else read_secret(self.root / secrets)
        under = "drawn" if master is None else digest_of(secret_text(master))[:8]
        folder = self.folder / under / run_name(settings, path)
        return Audited(self.root, path, folder, run_audit(settings, folder, master=master))


@pytest.fixture(scope="session")
def leakledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Runs audits: `leakledger.run("audit.toml").assert_no_regression()`."""
    return Runner(request.config.rootpath, tmp_path_factory.mktemp("leakledger"))
