"""Runs the cases of an audit on an existing Dask cluster; which worker runs a case changes nothing in its record.

A worker gets the configuration, the case and the master secret of the run, runs the case in a folder of its own, and
sends back the record and the transcript; only the driver writes into the run's folder. The secret is in no key, log
line or text of an error (`Unlogged`), but it is in the messages to the scheduler and the workers, which only `tls://`
encrypts; and whoever can reach a scheduler without TLS can run code on its workers. Data is not sent: every worker
reads it under the same path, and one whose file or whose libraries differ refuses.

A worker that is lost is made up for by the others (the scheduler gives its cases to them), a case that ends with an
unforeseen error is tried again `RETRIES` times, and bad input or a protocol's refusal is final at once.
"""

import fcntl
import logging
import os
import re
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from pickle import PickleBuffer
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic, sleep, time
from typing import Any
from uuid import uuid4

from leakledger.audit.aborts import Played
from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.input_files import digest_of, digests
from leakledger.audit.installed import extras
from leakledger.audit.pool import one_thread
from leakledger.audit.provenance import code, instrument, versions
from leakledger.audit.records import plural
from leakledger.audit.store import transcript_name
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file, private_folder
from leakledger.preprocess.crypto.seal import check_installed
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.told_failure import DEBUG, ToldFailure

RETRIES = 2
WORKER_SECONDS = 60.0  # that a cluster may be without any worker for its cases
POLL_SECONDS, ASK_SECONDS = 0.2, 5.0  # between two looks at what has ended; between two questions to the scheduler
FOLDERS, FOLDER_SECONDS = "leakledger-case-", 60.0  # of cases on workers; within which a new one is surely locked
ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?([^\s:/\[\]]+|\[[^\s\[\]]+\]):(?P<port>[0-9]{1,5})", re.ASCII)
LAST_PORT = 65535
GONE, SILENT = "all workers for its cases are gone", "the scheduler says nothing any more"
LOGS = ("distributed", "distributed.client", "tornado.application")  # those that Dask gives a handler of its own
AGAIN = "what is finished is kept, and the same command on a cluster that works does the rest"

PlayCase = Callable[..., Played]


@dataclass(frozen=True)
class Unlogged:
    """Bytes that travel beside a pickle and not in it: of one that cannot be read, as where a class is missing, Dask
    logs what is in it.
    """

    content: bytes = field(repr=False)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _unlogged, (PickleBuffer(self.content),)


def _unlogged(content: Any) -> Unlogged:
    return Unlogged(bytes(content))


@dataclass(frozen=True)
class RemoteCase:
    """What a worker needs to run a case of `config`: a callable, which Dask sends and logs by its repr.

    `files` are the digests of the input by path, `libraries` the `installation` at the driver.
    """

    play_case: PlayCase
    config: Config = field(repr=False)
    files: Mapping[str, str]
    libraries: Mapping[str, str]
    master: Unlogged = field(repr=False)

    def __call__(self, case: Case) -> "Outcome":
        """The case's record and transcript, or the line of what cannot be run."""
        one_thread()
        try:
            self._check_worker(self.libraries, extras(self.config))
            with _case_folder() as folder:
                played = self.play_case(self.config, case, folder, self.master.content)
                self._check_worker({})  # it may have read what was put there meanwhile
                transcript = folder / transcript_name(case.id)
                return Outcome(played, transcript.read_bytes() if transcript.exists() else b"")
        except ValueError as error:
            return Outcome(refusal=str(error))

    def _check_worker(self, libraries: Mapping[str, str], needed: Iterable[tuple[str, str]] = ()) -> None:
        """Of each case: a worker may have come after the others were asked."""
        if problem := differs(libraries, self.files, needed):
            raise ValueError(f"worker on {socket.gethostname()}: {problem}")


def differs(libraries: Mapping[str, str], files: Mapping[str, str], needed: Iterable[tuple[str, str]] = ()) -> str:
    """What this process has another one of, and what to do; "" where it has these versions, digests of files, and the
    extras that methods `needed`.
    """
    here = installation() if libraries else {}
    if other := sorted(k for k, v in libraries.items() if here.get(k) != v):
        return f"has another version of {', '.join(other)}; install it"
    try:
        for method, extra in needed:
            check_installed(method, extra)
    except ValueError as error:
        return str(error)
    other_files = (path for path, digest in files.items() if digest_of(path) != digest)
    return next((f"has another file, or none, at {path}; copy it there" for path in other_files), "")


def installation() -> dict[str, str]:
    """Versions of what results depend on, and the digests of the code that attacks and scores, and of what plays: the
    record names those of the driver for all cases.
    """
    played = {f"leakledger ({folder})": digest for folder, digest in code().items()}
    return {**versions(), "leakledger (attacks and scoring)": instrument(), **played}


@contextmanager
def _case_folder() -> Iterator[Path]:
    """A folder for one case, gone after it. What workers that were killed left of theirs, which is what parties sent,
    goes first: a living one holds a lock on its folder.
    """
    for left in Path(gettempdir()).glob(f"{FOLDERS}*"):
        with suppress(OSError), _locked(left):
            if left.stat().st_uid == os.getuid() and time() - left.stat().st_mtime > FOLDER_SECONDS:
                rmtree(left)
    with TemporaryDirectory(prefix=FOLDERS) as folder, _locked(Path(folder)):
        yield Path(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the folder while this process lives. Raises OSError where another one does, or it is no folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Outcome:
    """A case as it ended, or the line that says why there is none."""

    played: Played | None = None
    transcript: bytes = field(default=b"", repr=False)
    refusal: str = ""


def check_address(address: str) -> None:
    """Raises ValueError for what is no scheduler's address: a client of such a one waits for itself, and ends in two
    errors.
    """
    parts = ADDRESS.fullmatch(address)
    if parts is None or not 0 < int(parts["port"]) <= LAST_PORT:
        raise ValueError(f"--cluster {address or '(nothing)'}: is no address of a scheduler; write tcp://HOST:PORT")


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers: a client of the scheduler at `address`, and the `resources` of a worker that a case
    asks for.
    """

    client: Any
    address: str
    resources: Mapping[str, int]


@contextmanager
def connected(config: Config, address: str) -> Iterator[Cluster]:
    """The cluster at `address`, whose workers can run cases of `config`: on an accelerator, a case asks for one of a
    worker's resource GPU. Raises ValueError where it cannot be used, or a worker has other code, libraries or input
    than this process; one that comes later is asked before each case.

    Meanwhile what Dask logs of a lost connection, in tracebacks, is not shown: it becomes the line of an error.
    """
    check_address(address)
    distributed = _library()
    resources = {} if config.audit.device == "cpu" else {"GPU": 1}
    security = _security(distributed, address)
    with _logs_unseen():
        try:
            client = distributed.Client(address, security=security, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(
                f"--cluster {address}: no scheduler answers ({error}); start one with `dask scheduler`"
            ) from None
        with client:
            try:
                _check_workers(client, address, resources)
                _check_same(client, installation(), digests(with_absolute_source(config)), tuple(extras(config)))
            except OSError:
                raise ValueError(f"--cluster {address}: {SILENT}; {AGAIN}") from None
            yield Cluster(client, address, resources)


@contextmanager
def _logs_unseen() -> Iterator[None]:
    """No line of Dask's own logs, of errors neither, unless failures are to be told at length."""
    before = {name: logging.getLogger(name).level for name in LOGS}
    try:
        for name in () if DEBUG in os.environ else LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def each_on_cluster(
    play_case: PlayCase, config: Config, todo: Sequence[Case], folder: Path, master: bytes, cluster: Cluster
) -> Generator[Played, None, None]:
    """Each case as it ends on the cluster; its transcript is in `folder` by then.

    `play_case(config, case, folder, master)` is at the top level of a module. Raises ValueError where the cluster is
    lost or refuses a case, ToldFailure where a case takes down the workers that run it. Cases that are not finished by
    then are called off.
    """
    distributed, client, resources = _library(), cluster.client, cluster.resources
    anywhere = with_absolute_source(config)
    work = RemoteCase(play_case, anywhere, digests(anywhere), installation(), Unlogged(master))
    run = uuid4().hex  # two runs on one cluster share no key
    futures = [
        client.submit(work, c, key=f"leakledger-{c.id}-{run}", retries=RETRIES, resources=resources, pure=False)
        for c in todo
    ]
    try:
        for future in _as_completed(
            distributed.as_completed(futures, loop=client.loop), client, cluster.address, resources
        ):
            yield kept(_result(future, distributed, cluster.address), folder)
            future.release()
    finally:
        with suppress(Exception):  # a scheduler that is gone has no work to call off
            left = [f for f in futures if not f.done()]
            client.sync(partial(client.cancel, left, asynchronous=True, force=True), callback_timeout=ASK_SECONDS)


def _check_workers(client: Any, address: str, resources: Mapping[str, int]) -> None:
    """Raises ValueError where no worker comes, none has the `resources` of a case, so that Dask would wait for ever, or
    one has not this version of the program: such a one could not even read what it is sent, would end, and leave its
    cases to nobody.
    """
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ValueError(
            f"--cluster {address}: has no worker; start one with `dask worker {address} --nthreads 1`"
        ) from None
    if not _usable(client, resources):
        wanted = " ".join(f"{name}={count}" for name, count in resources.items())
        raise ValueError(
            f"--cluster {address}: no worker has the resource {wanted}; start one with "
            f'`dask worker {address} --nthreads 1 --resources "{wanted}"`'
        )
    own = metadata.version("leakledger")
    for worker, has in client.run(metadata.version, "leakledger", on_error="return").items():
        if has != own:
            found = f"has version {has} of leakledger" if isinstance(has, str) else "has no leakledger"
            raise ValueError(f"worker at {worker}: {found}; install version {own}")


def _check_same(
    client: Any, libraries: Mapping[str, str], files: Mapping[str, str], needed: Sequence[tuple[str, str]]
) -> None:
    """Raises ValueError where a worker has other code, libraries or input, or lacks what methods `needed`: before
    anything is written of the run.
    """
    for worker, problem in client.run(differs, libraries, files, needed, on_error="return").items():
        if problem:
            said = problem if isinstance(problem, str) else "has other code of leakledger; install this one"
            raise ValueError(f"worker at {worker}: {said}")


def _usable(client: Any, resources: Mapping[str, int]) -> bool:
    """Whether any worker has the `resources` of a case. Raises OSError where the scheduler does not say so in time."""
    workers = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ASK_SECONDS)["workers"].values()
    return any(all(w["resources"].get(name, 0) >= least for name, least in resources.items()) for w in workers)


def _as_completed(completed: Any, client: Any, address: str, resources: Mapping[str, int]) -> Iterator[Any]:
    """The futures as they end. Raises ValueError where the cluster has been without any worker that has the `resources`
    of a case for too long, or its scheduler without a word.
    """
    seen, again, gone = monotonic(), 0.0, GONE
    while not completed.is_empty():
        if completed.has_ready():
            yield next(completed)
            continue
        if monotonic() >= again:  # each time the scheduler tells of all workers
            try:
                usable, gone = _usable(client, resources), GONE
            except OSError:  # of one that is gone the futures say so; one that has stopped says nothing for ever
                usable, gone = False, SILENT
            seen = monotonic() if usable else seen
            again = monotonic() + ASK_SECONDS
        if monotonic() - seen > WORKER_SECONDS:
            raise ValueError(f"--cluster {address}: {gone}; {AGAIN}")
        sleep(POLL_SECONDS)


def with_absolute_source(config: Config) -> Config:
    """The configuration for a process in another folder; places are in no secret and no record of a case."""
    source = config.data.source
    update = {"source": _absolute(source) if isinstance(source, str) else [_absolute(s) for s in source]}
    schema = config.data.schema_file
    absolute = {**update, "schema_file": os.path.abspath(schema) if isinstance(schema, str) else schema}
    named = [p.model_copy(update={"aliases": p.aliases and os.path.abspath(p.aliases)}) for p in config.partition]
    return config.model_copy(update={"data": config.data.model_copy(update=absolute), "partition": named})


def _absolute(source: str) -> str:
    return source if source in EMBEDDED else os.path.abspath(source)


def _library() -> Any:
    try:
        import distributed
    except ImportError:
        raise ValueError("--cluster needs the library distributed; install leakledger[cluster]") from None
    return distributed


def _security(distributed: Any, address: str) -> Any:
    """Dask's settings of TLS. Raises ValueError where they cannot go with this address: a client says so in a traceback
    only, and waits for itself before it ends.
    """
    security = distributed.Security()
    try:
        arguments = security.get_connection_args("client")
    except OSError as error:  # a file that is none, or holds no certificate
        raise ValueError(f"--cluster {address}: certificates of Dask's distributed.comm.tls: {error}") from None
    if address.startswith("tls://") and arguments["ssl_context"] is None:
        raise ValueError(
            f"--cluster {address}: no certificates; set ca-file, client.cert and client.key under distributed.comm.tls "
            "in Dask's configuration"
        )
    if address.startswith("tcp://") and arguments["require_encryption"]:
        raise ValueError(f"--cluster {address}: Dask's distributed.comm.require-encryption is set; use tls://")
    return security


def _result(future: Any, distributed: Any, address: str) -> Outcome:
    try:
        outcome: Outcome = future.result()
        return outcome
    except distributed.KilledWorker as error:
        raise ToldFailure(
            f"{future.key}: {plural(error.allowed_failures, 'worker')} died of it (out of memory?)"
        ) from None
    except (CancelledError, distributed.comm.CommClosedError):
        raise ValueError(f"--cluster {address}: the scheduler is gone; {AGAIN}") from None


def kept(outcome: Outcome, folder: Path) -> Played:
    """The case of an outcome whose transcript is in the folder from now on. Raises ValueError for a refusal."""
    if outcome.played is None:
        raise ValueError(outcome.refusal)
    if not outcome.transcript:  # none is kept
        return outcome.played
    path = folder / transcript_name(outcome.played.record.id)
    private_folder(path.parent)
    with atomic_file(path, PRIVATE) as file:
        file.write(outcome.transcript)
    return outcome.played
