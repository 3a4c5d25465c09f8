"""A run that is killed continues to the same results, whenever it was killed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

AUDIT = """
[data]
source = "fair"
rows = 300
[partition]
kind = "divergent"
parties = 3
[[preprocessing]]
encoder = "server-dictionary"
scaler = "federated-minmax"
[[preprocessing]]
encoder = "local"
scaler = "local"
[model]
hidden = [16]
[training]
rounds = 2
batch_size = 3
[attacks.tableak]
restarts = 4
iterations = 60
[attacks.posterior]
chains = 4
sweeps = 4
repairs = 1
[audit]
seeds = [0, 1]
jobs = 2
baseline_draws = 2
"""
KILLS = 2  # `make soak` has a thousand


def start(folder):
    """The run of `folder/audit.toml` into `folder/run`."""
    command = [sys.executable, "-c", "from leakledger.audit.cli import main; main()", "run", "audit.toml", "-o", "run"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(folder):
    process = start(folder)
    _, notes = process.communicate(timeout=300)
    assert process.returncode == 0, notes
    return (folder / "run" / "results.json").read_bytes()


def made(folder):
    folder.mkdir()
    (folder / "audit.toml").write_text(AUDIT)
    return folder


def children(pid):
    tasks = f"/proc/{pid}/task/{pid}/children"
    return [int(p) for p in Path(tasks).read_text().split()] if os.path.exists(tasks) else []


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc to watch the worker processes")
def test_a_run_killed_at_random_moments_resumes_to_the_same_results_and_leaves_no_worker_behind(tmp_path):
    began = time.monotonic()
    expected = finish(made(tmp_path / "whole"))
    whole = time.monotonic() - began
    assert json.loads(expected)["missing"] == 0

    coins = np.random.default_rng(0)
    folder, kills, orphans = made(tmp_path / "killed"), 0, []
    while kills < KILLS:
        process = start(folder)
        try:
            process.communicate(timeout=coins.uniform(0, whole))
            assert (folder / "run" / "results.json").read_bytes() == expected
            shutil.rmtree(folder / "run")  # it finished before it was killed: start over
        except subprocess.TimeoutExpired:
            orphans += children(process.pid)
            process.kill()
            process.communicate()
            kills += 1
    assert finish(folder) == expected
    assert not list(folder.rglob("*.partial"))
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in orphans) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in orphans if os.path.exists(f"/proc/{pid}")] == []
