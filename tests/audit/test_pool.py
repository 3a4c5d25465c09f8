"""Work in a pool of processes, and how it ends: `work`, `Slow` and `main` are found by the workers too."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from leakledger.audit import run as run_module
from leakledger.audit.cli import main
from leakledger.audit.pool import _any_of, each
from leakledger.preprocess.told_failure import ToldFailure

SURELY = 120.0  # seconds within which a machine under load has surely started two workers
LONG = 3600.0


def square(number: int) -> int:
    return number**2


def fails_on_two(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    time.sleep(LONG)
    return number


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_item_is_worked_on_however_many_workers_there_are(jobs: int) -> None:
    assert sorted(each(square, range(5), jobs)) == [0, 1, 4, 9, 16]
    assert list(each(square, [], jobs)) == []


@pytest.mark.slow
def test_an_item_that_fails_ends_the_others_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(ValueError, match="two"):
        list(each(fails_on_two, [1, 2], 2))
    assert time.monotonic() - begun < LONG / 2


WORK = """
import os, time

def work(number):
    os.write(1, f"begun {number} {os.getpid()}\\n".encode())  # at once: the pipe is the others' too
    if number:
        time.sleep(3600)
    return number
"""
SCRIPT = """
import os, signal
from leakledger.audit.pool import each
from script_work import work

if __name__ == "__main__":
    # A shell lets what it starts in the background ignore interrupts, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for result in each(work, [0, 1, 2], 2):
            os.write(1, f"done {result}\\n".encode())
    except KeyboardInterrupt:
        os.write(1, b"interrupted\\n")
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A parent whose two workers are both at something long; the process ids of the workers."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "script_work.py").write_text(WORK)  # workers do not run the script
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])}
    with subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        workers: dict[str, int] = {}
        late = threading.Timer(SURELY, parent.kill)
        late.start()
        while not {"1", "2"} <= workers.keys():
            line = parent.stdout.readline().split()
            assert line, "the parent ended"
            if line[0] == "begun":
                workers[line[1]] = int(line[2])
        late.cancel()
        yield parent, list(workers.values())
        parent.kill()


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the parent", "all, as a terminal does"])
def test_an_interrupt_ends_parent_and_workers_and_nobody_prints_a_traceback(
    busy: tuple[subprocess.Popen[str], list[int]], whom: str
) -> None:
    parent, workers = busy
    (os.kill if whom == "the parent" else os.killpg)(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=SURELY)
    assert out.split()[-1] == "interrupted"
    assert parent.returncode == 0
    assert err == ""
    for worker in workers:
        assert gone(worker)


def gone(pid: int) -> bool:
    for _ in range(1000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


AUDIT = """
[data]
source = "fair"
rows = 100
[partition]
parties = 2
[model]
hidden = [4]
[training]
rounds = 1
batch_size = 2
[attacks]
use = ["plaintext"]
[audit]
seeds = [0, 1, 2]
jobs = 1
baseline_draws = 2
"""


def test_an_interrupted_run_says_what_is_kept_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT)
    command = ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run")]
    real = run_module.run_case

    def second_is_interrupted(config, case, *rest):  # type: ignore[no-untyped-def]
        if case.seed == 1:
            raise KeyboardInterrupt
        return real(config, case, *rest)

    monkeypatch.setattr(run_module, "run_case", second_is_interrupted)
    stopped = CliRunner().invoke(main, command)
    assert stopped.exit_code == 130
    kept = f"1 of 3 cases are finished and kept in {tmp_path / 'run'}"
    assert stopped.stderr.splitlines()[-1] == f"leakledger: interrupted: {kept}; the same command does the rest"
    monkeypatch.undo()
    again = CliRunner().invoke(main, command)
    assert again.exit_code == 0
    assert "[2/3]" in again.stderr
    assert "[1/3]" not in again.stderr


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("run", "assemble", "3 of 3 cases are finished and kept in {}; the same command does the rest"),
        ("command_run", "write_run_report", "the audit is finished and kept in {}; the same command writes the report"),
    ],
)
def test_a_run_that_is_interrupted_after_its_last_case_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, said: str
) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT)
    command = ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run")]

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(f"leakledger.audit.{module}.{name}", interrupted)
    stopped = CliRunner().invoke(main, command)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == f"leakledger: interrupted: {said.format(tmp_path / 'run')}"
    monkeypatch.undo()
    again = CliRunner().invoke(main, command)
    assert again.exit_code == 0
    assert "[1/3]" not in again.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_that_is_told_to_end_keeps_what_it_has_like_an_interrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT)
    real = run_module.run_case

    def told_in_the_second(config, case, *rest):  # type: ignore[no-untyped-def]
        if case.seed == 1:
            signal.raise_signal(signal.SIGTERM)
        return real(config, case, *rest)

    monkeypatch.setattr(run_module, "run_case", told_in_the_second)
    before = signal.getsignal(signal.SIGTERM)
    stopped = CliRunner().invoke(main, ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run")])
    assert stopped.exit_code == 130
    assert "interrupted: 1 of 3 cases are finished and kept" in stopped.stderr.splitlines()[-1]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("after", ["goes on", "fails"])
def test_a_case_in_which_code_of_others_caught_the_interrupt_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT)
    real = run_module.run_case

    def catches_all(config, case, *rest):  # type: ignore[no-untyped-def]
        if case.seed == 1:
            with suppress(BaseException):
                signal.raise_signal(signal.SIGINT)
            if after == "fails":
                raise RuntimeError("of the interrupt")
        return real(config, case, *rest)

    monkeypatch.setattr(run_module, "run_case", catches_all)
    stopped = CliRunner().invoke(main, ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run")])
    assert stopped.exit_code == 130
    assert "interrupted: 1 of 3 cases are finished and kept" in stopped.stderr.splitlines()[-1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_case_whose_training_diverges_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT.replace("rounds = 1", "rounds = 50\nlearning_rate = 1e30"))
    failed = CliRunner().invoke(main, ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run")])
    assert failed.exit_code == 2
    line = failed.stderr.splitlines()[-1]
    assert line.startswith("leakledger: case iid-server-dictionary-federated-zscore-fedsgd-")
    assert "-seed0: training diverged: the " in line
    assert "lower learning_rate, now 1e+30" in line
    assert "step train, round " in line


def test_a_worker_that_ends_is_a_failure_in_one_line():
    with pytest.raises(ToldFailure, match=r"^a worker process died \(out of memory\?\); run again with"):
        list(each(os._exit, [3, 3], 2))


def ends_once_others_are_known(item: tuple[int, Path]) -> int:
    number, others_known = item
    if number == 3:
        while not others_known.exists():
            time.sleep(0.01)
        os._exit(3)
    return number


def test_a_worker_that_ends_is_named_by_what_it_was_at_and_not_by_what_is_done(tmp_path: Path):
    others_known = tmp_path / "known"
    results = each(ends_once_others_are_known, [(n, others_known) for n in range(4)], 2, name=lambda i: f"item {i[0]}")
    assert {next(results) for _ in range(3)} == {0, 1, 2}
    others_known.touch()
    with pytest.raises(ToldFailure, match=r"^a worker process died at item 3 \(out of memory\?\); run again with"):
        next(results)


def test_of_many_items_at_which_a_worker_may_have_died_a_few_are_named():
    assert [_any_of("abcdef"[:n]) for n in (1, 4, 6)] == ["a", "a or b or c or d", "a or b or c or d or 2 others"]


def crash(number: int) -> None:
    ctypes.string_at(0)


def test_a_worker_that_crashes_says_where(capfd):
    with pytest.raises(ToldFailure, match=r"^a worker process died"):
        list(each(crash, [3, 3], 2))
    assert "in crash" in capfd.readouterr().err
