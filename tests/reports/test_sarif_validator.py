"""The gate's SARIF logs before the validator of the standard's own authors, with the rules of code scanning on GitHub.

`npm install --no-save @microsoft/sarif-multitool-linux` brings it (MIT); without it these tests are skipped.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.reports.test_gate_exports import HOSTILE, log

VALIDATOR = Path("node_modules", "@microsoft", "sarif-multitool-linux", "Sarif.Multitool").absolute()
WRONG = {"error", "warning"}

pytestmark = pytest.mark.skipif(not VALIDATOR.exists(), reason="npm did not install @microsoft/sarif-multitool-linux")


def complaints(folder):
    """(file, level, rule) of everything worse than a note that it finds in the logs of `folder`."""
    VALIDATOR.chmod(0o755)
    told = folder / "told.json"
    strict = ["--rule-kind", "Sarif;Ghas", "--level", "Error;Warning", "--kind", "Fail"]
    command = [VALIDATOR, "validate", *sorted(folder.glob("*.sarif")), "--output", told, *strict]
    invariant = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    done = subprocess.run(map(str, command), env=invariant, capture_output=True, text=True, check=False)
    assert told.exists(), done.stdout + done.stderr
    for result in json.loads(told.read_text(encoding="utf-8-sig"))["runs"][0].get("results", ()):
        if (level := result.get("level", "warning")) in WRONG:
            file = result["locations"][0]["physicalLocation"]["artifactLocation"]
            yield Path(file.get("uri", "")).name, level, result["ruleId"]


def test_logs_have_no_errors_and_no_warnings_whatever_names_are(tmp_path):
    for github in (False, True):
        for number, name in enumerate(["plain", *HOSTILE]):
            (tmp_path / f"{github}-{number}.sarif").write_text(json.dumps(log(name, github)))
    assert list(complaints(tmp_path)) == []


def test_the_validator_notices_a_broken_log(tmp_path):
    dangling, wordless = log(), log()
    dangling["runs"][0]["results"][1]["ruleIndex"] = 99
    del wordless["runs"][0]["results"][0]["message"]
    for name, wrong in {"dangling": dangling, "wordless": wordless}.items():
        (tmp_path / f"{name}.sarif").write_text(json.dumps(wrong))
    assert {rule for _, _, rule in complaints(tmp_path)} == {"SARIF1009", "JSON1002"}
