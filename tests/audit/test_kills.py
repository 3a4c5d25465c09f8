"""Whenever a command is killed, no finished case is lost, and the run continues to the same results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.recorded import AUDIT, call

KILLS, SEED = 1_000, 0
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")


def killing(folder, *args):
    """What `killing.py` counted; an assertion of it that failed is one of the test."""
    (folder / "audit.toml").write_text(AUDIT)
    call("keygen", folder / "key")
    command = [sys.executable, str(Path(__file__).parent / "killing.py"), str(folder), *map(str, args)]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@FORKS
@pytest.mark.slow
def test_a_run_killed_before_some_steps_that_reach_the_disk_goes_on_to_the_same_results(tmp_path):
    assert killing(tmp_path, "steps", 11)["kills"] >= 4


@FORKS
@pytest.mark.slow
@pytest.mark.soak
def test_a_run_killed_before_each_step_that_reaches_the_disk_goes_on_to_the_same_results(tmp_path):
    assert killing(tmp_path, "steps", 1)["kills"] > 40


@FORKS
@pytest.mark.slow
@pytest.mark.soak
def test_a_thousand_kills_lose_nothing_that_was_finished(tmp_path):
    counts = killing(tmp_path, KILLS, SEED)
    print(counts)
    assert sum(n for what, n in counts.items() if what.endswith("killed")) == KILLS
