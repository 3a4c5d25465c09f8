"""Cases on a Dask cluster: a scheduler and two workers on the loopback, processes of their own."""

import fcntl
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from leakledger.audit import cluster as cluster_of
from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.cluster import (
    Outcome,
    RemoteCase,
    Unlogged,
    _as_completed,
    _check_same,
    _check_workers,
    _result,
    check_address,
    installation,
    kept,
    with_absolute_source,
)
from leakledger.audit.config import Config
from leakledger.audit.input_files import digest_of, digests
from leakledger.audit.installed import extras
from leakledger.audit.provenance import versions
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.told_failure import ToldFailure
from tests.every import every

SURELY = 240.0
WITHOUT = importlib.util.find_spec("distributed") is None
needs_dask = pytest.mark.skipif(WITHOUT, reason="the library distributed is not installed: leakledger[cluster]")
AUDIT = """
[data]
source = "table.csv"
target = "label"
[partition]
parties = 2
[model]
hidden = [4]
[training]
rounds = 2
batch_size = 2
[attacks]
use = ["plaintext"]
[audit]
seeds = [0, 1, 2, 3, 4, 5]
jobs = 1
baseline_draws = 2
"""


def config(**data: Any) -> Config:
    return Config.model_validate({"data": {"source": "fair", "rows": 60} | data, "audit": {"seeds": [0]}})


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    rows = "".join(f"{i % 7},{'ab'[i % 2]},{'yn'[i % 3 == 0]}\n" for i in range(60))
    (tmp_path / "table.csv").write_text(f"age,city,label\n{rows}")
    (tmp_path / "audit.toml").write_text(AUDIT)
    (tmp_path / "secrets").write_text(PUBLIC_MASTER.hex())
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], Path]]:
    """Its address, the scheduler and two workers, and what they log."""
    place, log = tmp_path / "scheduler.json", tmp_path / "cluster.log"
    common = ["--scheduler-file", str(place), "--no-dashboard"]
    worker = ["worker", *common, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1"]
    commands = [["scheduler", *common, "--host", "127.0.0.1", "--port", "0"], worker, worker]
    with log.open("wb") as file:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "dask", *c], stdout=file, stderr=file, cwd=tmp_path, env=environment()
            )
            for c in commands
        ]
    try:
        deadline = time.monotonic() + SURELY
        while not place.exists() or log.read_text().count("Registered to:") < 2:
            assert all(p.poll() is None for p in started), log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield json.loads(place.read_text())["address"], started, log
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


@every(
    "address",
    ["", "foo", "tcp://", "http://127.0.0.1:8786", "127.0.0.1:abc", "tcp://127.0.0.1:99999", "tcp://a:0", "inproc://x"],
)
def test_what_is_no_address_is_one_line_before_anything_is_written(address: str, audit: Path) -> None:
    result = CliRunner().invoke(main, ["run", str(audit / "audit.toml"), "-o", str(audit / "r"), "--cluster", address])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "is no address of a scheduler; write tcp://HOST:PORT" in line
    assert not (audit / "r").exists()


@every("address", ["tcp://127.0.0.1:8786", "host.example:8786", "tls://[::1]:1", "10.0.0.1:65535"])
def test_addresses_of_schedulers_pass(address: str) -> None:
    check_address(address)


def start(folder: Path, name: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from leakledger.audit.cli import main; main()", "run", "audit.toml"]
    return subprocess.Popen(
        [*command, "-o", name, "--secrets", "secrets", *more],
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@needs_dask
def test_a_cluster_that_loses_a_worker_midway_gives_the_same_bytes_as_one_process(
    audit: Path, cluster: tuple[str, list[subprocess.Popen[bytes]], Path]
) -> None:
    address, (_, *workers), log = cluster
    with start(audit, "far", "--cluster", address) as far:
        assert far.stderr is not None
        first = far.stderr.readline()
        assert first.startswith("[1/6]"), first + far.stderr.read()
        workers[0].send_signal(signal.SIGKILL)
        _, notes = far.communicate(timeout=SURELY)
    assert far.returncode == 0, notes
    with start(audit, "near") as near:
        _, notes = near.communicate(timeout=SURELY)
    assert near.returncode == 0, notes
    far_results, near_results = (json.loads((audit / n / "results.json").read_text()) for n in ("far", "near"))
    for result, name in ((far_results, "far"), (near_results, "near")):
        assert result["run"].pop("id") == name
    assert far_results == near_results
    for name in sorted(p.name for p in (audit / "near" / "transcripts").iterdir()):
        one, other = ((audit / n / "transcripts" / name).read_bytes() for n in ("far", "near"))
        assert one == other, name
    assert len(list((audit / "far" / "transcripts").iterdir())) == 6
    assert PUBLIC_MASTER.hex() not in log.read_text()
    assert workers[1].poll() is None  # what was not started here goes on


@pytest.mark.slow
@needs_dask
def test_a_scheduler_that_is_killed_midway_is_one_line_and_keeps_what_is_finished(
    audit: Path, cluster: tuple[str, list[subprocess.Popen[bytes]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "2s")
    address, (scheduler, *_), _ = cluster
    with start(audit, "far", "--cluster", address) as far:
        assert far.stderr is not None
        first = far.stderr.readline()
        assert first.startswith("[1/6]"), first + far.stderr.read()
        scheduler.send_signal(signal.SIGKILL)
        _, notes = far.communicate(timeout=SURELY)
    assert far.returncode == 2
    *finished, line = notes.strip().splitlines()
    assert all(f.startswith("[") for f in finished), notes
    assert line.startswith(f"leakledger: --cluster {address}: the scheduler is gone; what is finished is kept")
    assert len(list((audit / "far" / "transcripts").iterdir())) > len(finished)


@pytest.mark.slow
@needs_dask
def test_a_cluster_that_does_not_answer_is_one_line(audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    with start(audit, "far", "--cluster", "tcp://127.0.0.1:1") as far:
        _, notes = far.communicate(timeout=SURELY)
    assert far.returncode == 2
    (line,) = notes.strip().splitlines()
    assert line.startswith("leakledger: --cluster tcp://127.0.0.1:1: no scheduler answers")
    assert not (audit / "far").exists()


@needs_dask
@pytest.mark.parametrize(
    ("address", "settings", "problem"),
    [
        ("tls://127.0.0.1:1", {}, "no certificates; set ca-file, client.cert and client.key"),
        ("tls://127.0.0.1:1", {"TLS__CA_FILE": "none.pem"}, "certificates of Dask's distributed.comm.tls: "),
        ("tcp://127.0.0.1:1", {"REQUIRE_ENCRYPTION": "true"}, "require-encryption is set; use tls://"),
    ],
)
def test_tls_that_cannot_be_is_one_line_at_once(
    audit: Path, monkeypatch: pytest.MonkeyPatch, address: str, settings: dict[str, str], problem: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__{name}", value)
        monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT", "none.pem")
    with start(audit, "far", "--cluster", address) as far:
        _, notes = far.communicate(timeout=SURELY)
    assert far.returncode == 2
    assert f"leakledger: --cluster {address}: " in notes
    assert problem in notes
    assert "Traceback" not in notes


def remote(**changes: Any) -> RemoteCase:
    def refuse(*_: object) -> Any:
        raise AssertionError("the case runs")

    given = {
        "play_case": refuse,
        "config": config(),
        "files": {},
        "libraries": versions(),
        "master": Unlogged(PUBLIC_MASTER),
    }
    return RemoteCase(**given | changes)


def test_a_worker_with_other_libraries_or_another_file_refuses(tmp_path: Path) -> None:
    (case,) = cases(config())
    other = remote(libraries=versions() | {"torch": "0.1"})(case)
    assert isinstance(other, Outcome)
    assert "has another version of torch" in other.refusal
    attacks = remote(libraries=installation() | {"leakledger (attacks and scoring)": "0"})(case)
    assert "has another version of leakledger (attacks and scoring); install it" in attacks.refusal
    (path := tmp_path / "table.csv").write_text("a,b\n1,2\n")
    for digest in (digest_of(path)[::-1], ""):
        assert f"has another file, or none, at {path}" in remote(files={str(path): digest})(case).refusal
    with pytest.raises(AssertionError, match="the case runs"):
        remote(files={str(path): digest_of(path)})(case)


def diverges(*_: object) -> Any:
    raise ValueError("training diverged")


def test_what_a_case_refuses_is_final_and_raised_by_the_driver(tmp_path: Path) -> None:
    (case,) = cases(config())
    outcome = remote(play_case=diverges)(case)
    assert outcome == Outcome(refusal="training diverged")
    with pytest.raises(ValueError, match="training diverged"):
        kept(outcome, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_secret_is_in_no_text_of_what_is_sent() -> None:
    work = remote()
    assert str(PUBLIC_MASTER) not in repr(work)
    assert PUBLIC_MASTER.hex() not in repr(work)
    assert "transcript" not in repr(Outcome(None, b"rows"))


def test_what_dask_logs_of_a_pickle_that_cannot_be_read_has_no_secret() -> None:
    beside: list[pickle.PickleBuffer] = []
    logged = pickle.dumps(remote(play_case=diverges), protocol=5, buffer_callback=beside.append)
    assert PUBLIC_MASTER not in logged
    assert pickle.loads(logged, buffers=[b.raw() for b in beside]).master == Unlogged(PUBLIC_MASTER)


class Scheduler:
    """Of a client of Dask, what asks the scheduler for its workers; these have such versions of leakledger, and each
    has the `resources`.
    """

    def __init__(self, *workers: object, **resources: float) -> None:
        self.workers = {f"tcp://w{i}": has for i, has in enumerate(workers)}
        self.resources = resources

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if len(self.workers) < count:
            raise TimeoutError

    def run(self, function: object, *args: object, on_error: str) -> dict[str, object]:
        return self.workers

    @property
    def scheduler(self) -> "Scheduler":
        return self

    def identity(self, n_workers: int) -> dict[str, object]:
        return {"workers": {name: {"resources": self.resources} for name in self.workers}}

    def sync(self, function: Callable[..., Any], callback_timeout: float, **arguments: Any) -> Any:
        return function(**arguments)


class Silent(Scheduler):
    """One that has stopped: its machine keeps the connection, and says nothing."""

    def identity(self, n_workers: int) -> dict[str, object]:
        raise TimeoutError


class Computing:
    """Futures of which none ever ends."""

    def is_empty(self) -> bool:
        return False

    has_ready = is_empty


def test_workers_without_this_version_are_refused_before_anything_is_sent() -> None:
    own = versions()["leakledger"]
    _check_workers(Scheduler(own, own), "tcp://s", {})
    for found, said in (("0.0.9", "has version 0.0.9 of leakledger"), (PackageNotFoundError(), "has no leakledger")):
        with pytest.raises(ValueError, match=f"^worker at tcp://w1: {said}; install version {own}$"):
            _check_workers(Scheduler(own, found), "tcp://s", {})
    with pytest.raises(ValueError, match=r"^--cluster tcp://s: has no worker; start one"):
        _check_workers(Scheduler(), "tcp://s", {})


class Asked(Scheduler):
    """Whose workers are asked in this process; the second one's answer is another one."""

    def __init__(self, second: object) -> None:
        super().__init__("", "")
        self.second = second

    def run(self, function: Any, *args: object, on_error: str) -> dict[str, object]:
        return {"tcp://w0": function(*args), "tcp://w1": self.second}


def test_workers_with_other_code_or_input_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The first case that one was given ended the run, whose folder had a record and secrets by then."""
    (path := tmp_path / "table.csv").write_text("a,b\n1,2\n")
    own, files = installation(), digests(config(source=str(path), target="b"))
    _check_same(Asked(""), own, files, ())
    for second in (ModuleNotFoundError("no leakledger.audit"), AttributeError("differs")):
        with pytest.raises(ValueError, match=r"^worker at tcp://w1: has other code of leakledger; install this one$"):
            _check_same(Asked(second), own, files, ())
    with pytest.raises(ValueError, match=r"^worker at tcp://w0: has another version of torch; install it$"):
        _check_same(Asked(""), own | {"torch": "0.1"}, files, ())
    with pytest.raises(ValueError, match=rf"^worker at tcp://w0: has another file, or none, at {path}; copy it there$"):
        _check_same(Asked(""), own, {str(path): "0"}, ())


def test_workers_without_an_extra_that_a_method_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked: the driver needs none of them, and the first case of a worker ended the run."""

    def absent(method: str, extra: str) -> None:
        raise ValueError(f"{method} needs tenseal; install leakledger[{extra}]")

    scaled = Config.model_validate({"preprocessing": [{"encoder": "local", "scaler": "ppf-zscore"}]})
    monkeypatch.setattr(cluster_of, "check_installed", absent)
    with pytest.raises(ValueError, match=r"^worker at tcp://w0: ppf-zscore needs tenseal; install leakledger\[he\]$"):
        _check_same(Asked(""), {}, {}, tuple(extras(scaled)))
    (case,) = cases(config())
    late = remote(config=config().model_copy(update={"preprocessing": scaled.preprocessing}))(case)
    assert "ppf-zscore needs tenseal" in late.refusal


@needs_dask
@pytest.mark.slow
def test_a_cluster_whose_workers_find_another_table_leaves_no_folder_of_a_run(
    audit: Path, cluster: tuple[str, list[subprocess.Popen[bytes]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _, _ = cluster
    monkeypatch.setattr(cluster_of, "digests", lambda _: {str(audit / "table.csv"): "0"})
    command = ["run", str(audit / "audit.toml"), "-o", str(audit / "run"), "--cluster", address]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "has another file, or none, at" in done.stderr
    assert not (audit / "run").exists()


def test_cases_for_an_accelerator_do_not_wait_for_workers_that_have_none() -> None:
    own, wanted = versions()["leakledger"], {"GPU": 1}
    _check_workers(Scheduler(own, GPU=1.0), "tcp://s", wanted)
    with pytest.raises(ValueError, match=r"^--cluster tcp://s: no worker has the resource GPU=1; start one with .*GPU"):
        _check_workers(Scheduler(own), "tcp://s", wanted)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("left", "wanted"), [(Scheduler(), {}), (Scheduler("1.0"), {"GPU": 1})])
def test_a_cluster_that_has_lost_all_workers_ends_the_run(
    left: Scheduler, wanted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_of, "WORKER_SECONDS", 0.0)
    with pytest.raises(ValueError, match=r"^--cluster tcp://s: all workers for its cases are gone; what is finished"):
        next(_as_completed(Computing(), left, "tcp://s", wanted))


@pytest.mark.timeout(30)
def test_a_scheduler_that_says_nothing_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_of, "WORKER_SECONDS", 0.0)
    with pytest.raises(ValueError, match=r"^--cluster tcp://s: the scheduler says nothing any more; what is finished"):
        next(_as_completed(Computing(), Silent("1.0"), "tcp://s", {}))


class ClosedError(OSError):
    """As Dask has one, of its own."""


DASK = SimpleNamespace(KilledWorker=ZeroDivisionError, comm=SimpleNamespace(CommClosedError=ClosedError))


@every("error", [CancelledError("scheduler-connection-lost"), ClosedError("in <TCP (closed)>: Stream is closed")])
def test_a_scheduler_that_is_gone_is_one_line(error: Exception) -> None:
    class Lost:
        def result(self) -> Outcome:
            raise error

    with pytest.raises(ValueError, match=r"^--cluster tcp://s: the scheduler is gone; what is finished is kept"):
        _result(Lost(), DASK, "tcp://s")


def test_a_case_that_takes_down_its_workers_is_one_line() -> None:
    class Killed(Exception):
        allowed_failures = 2

    class Deadly:
        key = "case-3"

        def result(self) -> Outcome:
            raise Killed

    with pytest.raises(ToldFailure, match=r"^case-3: 2 workers died of it"):
        _result(Deadly(), SimpleNamespace(KilledWorker=Killed, comm=DASK.comm), "tcp://s")


def test_a_case_removes_what_workers_that_were_killed_left_of_theirs_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("leakledger-case-killed", "leakledger-case-alive", "leakledger-case-new", "other")
    killed, alive, new, other = (tmp_path / name for name in names)
    for folder in (killed, alive, new, other):
        (folder / "transcripts").mkdir(parents=True)
        (folder / "transcripts" / "case.parquet").write_bytes(b"what parties sent")
        if folder != new:
            os.utime(folder, (0, 0))
    link = tmp_path / "leakledger-case-link"
    link.symlink_to(other)
    held = os.open(alive, os.O_RDONLY)  # as its worker holds it
    fcntl.flock(held, fcntl.LOCK_EX)
    seen: list[Path] = []

    def play(config: Config, case: Any, folder: Path, master: bytes) -> Any:
        seen.append(folder)
        raise ValueError("enough")

    settings = config()
    work = RemoteCase(play, settings, {}, versions(), Unlogged(PUBLIC_MASTER))
    assert work(cases(settings)[0]).refusal == "enough"
    os.close(held)
    assert seen[0].parent == tmp_path
    assert {p.name for p in tmp_path.iterdir()} == {alive.name, new.name, other.name, link.name}
    assert (other / "transcripts" / "case.parquet").exists()


def test_a_case_that_may_have_read_another_file_than_the_run_began_with_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n")

    def play(config: Config, case: Any, folder: Path, master: bytes) -> Any:
        table.write_text("a,b\n1,3\n")
        return SimpleNamespace(record=None)

    settings = config()
    files = {str(table): digest_of(table)}
    outcome = RemoteCase(play, settings, files, versions(), Unlogged(PUBLIC_MASTER))(cases(settings)[0])
    assert "has another file, or none, at" in outcome.refusal


def test_input_is_named_by_absolute_path_and_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "table.schema.toml").write_text('target = "b"\n')
    absolute = with_absolute_source(config(source="table.csv", rows=None))
    assert absolute.data.source == str(tmp_path / "table.csv")
    assert digests(absolute).keys() == {str(tmp_path / n) for n in ("table.csv", "table.schema.toml")}
    assert all(digests(absolute).values())
    assert with_absolute_source(config()).data.source == "fair"
    assert digests(config()) == {}
