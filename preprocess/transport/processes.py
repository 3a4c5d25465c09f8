"""Starts one process per party, hands each its own input, and collects what it has after a run.

A process is told over a pipe: which function to run, the public parameters, and its party's input and secret; nothing
of another party's, nor the secret that all of them were derived from. It starts without the driver's environment, in a
folder of its own, and can write nowhere else (`isolation`). Whatever goes wrong in one of them ends all of them, and
the error names the party, the step and the message. No process can keep the driver waiting without end (`watch`).
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, BinaryIO, NoReturn, cast

from leakledger.preprocess.federation import FederationError, PartyLost
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.transport.channels import BACKLOG, MESSAGE_LIMIT, NONCE_BYTES
from leakledger.preprocess.transport.isolation import environment, new_folder
from leakledger.preprocess.transport.party import HOLDINGS
from leakledger.preprocess.transport.pipes import read_frame, write_frame_within
from leakledger.preprocess.transport.protocol import (
    PartyResult,
    Protocol,
    merged_ledger,
    party_secrets,
    protocol_name,
    protocol_secret,
)
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.transport.watch import Report, Watch, failure, lost
from leakledger.preprocess.views import Abort
from leakledger.preprocess.wire import encode

START_SECONDS = 60.0
STOP_SECONDS = 5.0
SALVAGE_SECONDS = 20.0  # in which a party says what it holds of a run that failed
GRACE_SECONDS = 0.5  # to learn who was waiting for a party that ended
LIFE_SECONDS = 60.0  # native code that lets no other thread run may take long


def run_projected(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    secret: bytes | None,
    server: str = "server",
    timeout: float = 60.0,
) -> dict[str, PartyResult]:
    """One run with a process per party, started for it; see `PartyProcesses.run`."""
    with PartyProcesses(clients, server=server, timeout=timeout) as parties:
        return parties.run(function, inputs, params, secret=secret)


class PartyProcesses:
    """The processes of all parties, for any number of runs: started by the first, ended by `close` or by a failure.

    `timeout` is how long a party waits for one message, in seconds, and the driver for any party to get further; `life`
    is how long a party's process may give no sign of life. `limit` is the largest message, `backlog` how much of one
    party's messages another holds before their turn, both in bytes. With `times`, each party notes when it had each
    message, at its own clock.
    """

    def __init__(
        self,
        clients: Sequence[str],
        *,
        server: str = "server",
        timeout: float = 60.0,
        life: float = LIFE_SECONDS,
        limit: int = MESSAGE_LIMIT,
        backlog: int = BACKLOG,
        times: bool = False,
    ) -> None:
        self._life = life
        self.everyone = Simulated(clients, server=server).everyone  # the names follow the rules of any federation
        self._settings: dict[str, Any] = {"clients": list(clients), "server": server}
        self._settings |= {"timeout": timeout, "limit": limit, "backlog": backlog, "times": times}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folders: list[tempfile.TemporaryDirectory[str]] = []
        self._listeners: list[Thread] = []
        self._reports: SimpleQueue[tuple[str, Report | None]] = SimpleQueue()

    def run(
        self, function: str | Protocol, inputs: Mapping[str, Any], params: Mapping[str, Any], *, secret: bytes | None
    ) -> dict[str, PartyResult]:
        """What each party has after `function`, a `Protocol` at the top level of a module (itself, or "module:name").

        `inputs` maps parties to plain data, `params` is plain and public. The parties' secrets are derived from
        `secret` (None: drawn), the function and everything that it is given. Raises FederationError when a party fails
        or the parties disagree on what was sent, PartyLost when one ends or falls silent. All processes end then; the
        next run starts new ones.
        """
        clients, server = self._settings["clients"], self._settings["server"]
        own = protocol_secret(secret, function, clients, server, inputs, params)
        return self.run_with(function, inputs, params, party_secrets(own, clients, server))

    def run_with(
        self,
        function: str | Protocol,
        inputs: Mapping[str, Any],
        params: Mapping[str, Any],
        secrets: Mapping[str, bytes],
    ) -> dict[str, PartyResult]:
        """The same with the secret of each party, which must be for this run alone.

        A nonce that is drawn here keeps what the parties send apart from what is left of another run; no view has it.
        """
        if unknown := sorted(inputs.keys() - set(self.everyone)):
            raise FederationError(f"inputs for {unknown}, but the parties are {list(self.everyone)}")
        job: dict[str, Any] = {"function": protocol_name(function), "located": list(inputs), "params": dict(params)}
        job["run"] = os.urandom(NONCE_BYTES)
        frames = {p: encode({**job, "input": inputs.get(p), "secret": secrets[p]}) for p in self.everyone}
        try:
            if not self._processes:
                self._start()
            for party, frame in frames.items():
                self._tell(party, frame)
            return self._collect()
        except FederationError as error:
            if error.abort is not None:
                with suppress(FederationError):  # that they disagree is no reason to lose the first error
                    error.ledger = self._salvaged(error.abort, error)
            self._kill()
            raise
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Ends the processes: by word where they are idle, else by force."""
        with suppress(PartyLost):
            for party in self._processes:
                self._tell(party, encode(None))
        deadline = monotonic() + STOP_SECONDS
        with suppress(subprocess.TimeoutExpired):
            for process in self._processes.values():
                process.wait(max(0.0, deadline - monotonic()))
        self._kill()

    def __enter__(self) -> "PartyProcesses":
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._kill()

    # Processes --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts every process and tells each where the others listen and which keys are theirs."""
        self._reports = SimpleQueue()
        for party in self.everyone:
            self._folders.append(new_folder())
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "leakledger.preprocess.transport.isolation"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                cwd=(folder := self._folders[-1].name),
                env=environment(folder),
            )
            self._processes[party] = process
            self._listeners.append(Thread(target=_listen, args=(party, process.stdout, self._reports), daemon=True))
            self._listeners[-1].start()
            self._tell(party, encode({**self._settings, "party": party}))
        listening = self._one_report_each()
        for party in self.everyone:
            self._tell(party, encode({p: listening[p] for p in self.everyone if p != party}))
        self._one_report_each()

    def _one_report_each(self) -> dict[str, Report]:
        reports: dict[str, Report] = {}
        while len(reports) < len(self.everyone):
            party, report = self._next(START_SECONDS)
            if report is None:
                raise lost(party, f"{party} ended ({self._exit(party)}) before it was ready")
            reports[party] = report
        return reports

    def _tell(self, party: str, frame: bytes) -> None:
        try:
            write_frame_within(cast(BinaryIO, self._processes[party].stdin).fileno(), frame, self._life)
        except TimeoutError:
            raise lost(party, f"{party} is silent: it has taken none of its input for {self._life:g} s") from None
        except OSError:  # the process has ended; its listener reports that
            pass

    def _next(self, timeout: float) -> tuple[str, Report | None]:
        """The next report of any party; None for its end."""
        try:
            return self._reports.get(timeout=timeout)
        except Empty:
            raise PartyLost(f"no word from the parties within {timeout:g} s") from None

    def _exit(self, party: str) -> str:
        try:
            status = self._processes[party].wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return "it runs, but what it reports cannot be read"
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def _kill(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        for listener in self._listeners:
            listener.join()
        for process in self._processes.values():
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what could not be written before the end is lost
                    cast(BinaryIO, pipe).close()
        for folder in self._folders:
            folder.cleanup()
        self._processes, self._listeners, self._folders = {}, [], []

    # Reports ----------------------------------------------------------------------------------------------------

    def _collect(self) -> dict[str, PartyResult]:
        """Every party's result; raises at the first sign that a party failed, ended or fell silent."""
        watch = Watch(self.everyone, self._settings["timeout"], self._life)
        while watch.working:
            try:
                party, report = self._reports.get(timeout=watch.seconds_left())
            except Empty:
                if (silent := watch.overdue()) is not None:
                    raise silent from None
                continue
            if report is None:
                self._raise_ended(party, watch)
            if report["report"] != "failure":
                watch.note(party, report)
            elif report["kind"] == PartyLost.__name__ and party in watch.waits:
                raise watch.silence(party)
            else:
                raise failure(party, report)
        _check_agreement(watch.done)
        return {p: PartyResult.from_plain(watch.done[p]["result"]) for p in self.everyone}

    def _salvaged(self, abort: Abort, error: FederationError) -> Ledger:
        """What the parties that are still there hold of a run that failed, and how it ended."""
        gone = {abort.party} if isinstance(error, PartyLost) else set()
        asked = {p for p, process in self._processes.items() if process.poll() is None and p not in gone}
        for party in asked:
            self._tell(party, encode({HOLDINGS: party}))
        held, deadline = {}, monotonic() + min(SALVAGE_SECONDS, self._settings["timeout"])
        with suppress(PartyLost):  # who does not answer in time is left out
            while asked:
                party, report = self._next(max(0.0, deadline - monotonic()))
                if report is not None and report["report"] == HOLDINGS:
                    held[party] = PartyResult.from_plain(report["held"])
                if report is None or party in held:
                    asked.discard(party)
        ledger = merged_ledger(held, whole=False)
        ledger.abort(abort)
        return ledger

    def _raise_ended(self, party: str, watch: Watch) -> NoReturn:
        how, deadline = self._exit(party), monotonic() + GRACE_SECONDS
        with suppress(PartyLost):
            while not watch.waited_for(party):
                other, report = self._next(max(0.0, deadline - monotonic()))
                if report is not None and report["report"] == "wait":
                    watch.note(other, report)
        raise watch.end(party, how)


def _listen(party: str, pipe: BinaryIO, reports: "SimpleQueue[tuple[str, Report | None]]") -> None:
    """Passes on what a party reports, and its end: also where what it reports is none."""
    try:
        with suppress(EOFError, ValueError, MemoryError):
            while True:
                reports.put((party, read_frame(pipe)))
    finally:
        reports.put((party, None))


def _check_agreement(done: Mapping[str, Report]) -> None:
    """Every party must have followed the same messages, its own or not."""
    (first, one), *others = done.items()
    for party, report in others:
        if report["course"] != one["course"]:
            counts = f"{first} {one['sent']} of them, {party} {report['sent']}"
            raise FederationError(f"control flow differs: {first} and {party} followed other messages ({counts})")
