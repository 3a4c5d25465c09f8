"""Four changes of the example, from configuration to exit code, by the shell and by the steps of the action."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ci_steps import act, with_tool

FOLDER = Path(__file__).parents[2] / "examples" / "regression"
CHANGES = {
    "proportional-sharing": ("preprocessing.sharing=proportional", 10),
    "no-padding": ("preprocessing.pad_to=1", 10),
    "other-seeds": ("audit.seeds=[20,21,22,23,24,25,26,27,28,29]", 0),
    "poor-model": ("training.rounds=1", 10),
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The folder of runs that the script leaves, and what it printed."""
    runs = tmp_path_factory.mktemp("regression")
    done = subprocess.run([FOLDER / "check.sh", runs], env=with_tool(), capture_output=True, text=True, check=False)
    return runs, done


def test_wherever_the_script_is_introduced_stands_how_long_it_takes():
    for path in (FOLDER / "check.sh", FOLDER / "audit.toml", FOLDER.parents[1] / "docs" / "gate.md"):
        _, introduced = path.read_text(encoding="utf-8").split("examples/regression/check.sh", 1)
        assert "five to ten minutes" in introduced[:400], path


@pytest.mark.slow
def test_the_script_ends_as_it_says_for_every_change(checked):
    _, done = checked
    assert done.returncode == 0, done.stdout + done.stderr
    for name, (_, code) in CHANGES.items():
        assert f"{name}: exit {code}, expected {code}" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_the_action_ends_with_the_same_exit_code(checked, tmp_path, name):
    runs, _ = checked
    for file in ("audit.toml", "policy.toml"):
        shutil.copy(FOLDER / file, tmp_path)
    shutil.copy(runs / "baseline.json", tmp_path)
    change, code = CHANGES[name]
    ended, output, _ = act(tmp_path, baseline="baseline.json", output=runs / name, set=change)
    assert (ended, output) == (code, f"exit-code={code}\n")
