"""Runs the steps of the composite action as a runner of GitHub's does: each by bash, in order, until one fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ACTION = Path(__file__).resolve().parents[1] / "examples" / "ci" / "action.yml"
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
INPUT = re.compile(r"\$\{\{ inputs\.([a-z]+) \}\}")


def with_tool():
    """The environment of this process, `leakledger` on its path, and no settings from outside."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def act(folder, **inputs):
    """The exit code of the steps in `folder`, and what they left in the files for outputs and summary."""
    action = yaml.safe_load(ACTION.read_text())
    values = {name: str(i.get("default", "")) for name, i in action["inputs"].items()} | {"install": ""}
    values |= {name: str(value) for name, value in inputs.items()}
    assert values.keys() == action["inputs"].keys()
    files = {"GITHUB_OUTPUT": folder / "output.txt", "GITHUB_STEP_SUMMARY": folder / "summary.md"}
    for path in files.values():
        path.write_text("")
    code = 0
    for step in action["runs"]["steps"]:
        if "run" not in step:
            continue
        assert "${{" not in step["run"], "an input in a script could end it and begin another"
        own = {k: INPUT.sub(lambda m: values[m.group(1)], v) for k, v in step.get("env", {}).items()}
        environment = {**with_tool(), **own, **{k: str(v) for k, v in files.items()}}
        done = subprocess.run(
            [*BASH, step["run"]], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        code = done.returncode
        if code:
            break
    return code, files["GITHUB_OUTPUT"].read_text(), files["GITHUB_STEP_SUMMARY"].read_text()
