"""Starts one process per party, hands each its own input, and collects what it has after a run.

A process is told over a pipe: which function to run, the public parameters, and its party's input; nothing of another
party's. Whatever goes wrong in one of them ends all of them, and the error names the party, the step and the message.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, BinaryIO, NoReturn, cast

from preprocess.federation import FederationError, PartyLost
from preprocess.transport.channels import MESSAGE_LIMIT
from preprocess.transport.pipes import read_frame, write_frame
from preprocess.transport.projected import Wait
from preprocess.transport.protocol import PartyResult, Protocol, protocol_name
from preprocess.transport.simulated import Simulated
from preprocess.wire import WireError, encode

START_SECONDS = 60.0
STOP_SECONDS = 5.0
GRACE_SECONDS = 0.5  # to learn who was waiting for a party that ended

Report = dict[str, Any]


def run_projected(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    seed: int | None,
    server: str = "server",
    timeout: float = 60.0,
) -> dict[str, PartyResult]:
    """One run with a process per party, started for it; see `PartyProcesses.run`."""
    with PartyProcesses(clients, server=server, timeout=timeout) as parties:
        return parties.run(function, inputs, params, seed=seed)


class PartyProcesses:
    """The processes of all parties, for any number of runs: started by the first, ended by `close` or by a failure.

    `timeout` is how long a party waits for one message, in seconds; `limit` is the largest message, in bytes.
    """

    def __init__(
        self, clients: Sequence[str], *, server: str = "server", timeout: float = 60.0, limit: int = MESSAGE_LIMIT
    ) -> None:
        self.everyone = Simulated(clients, server=server).everyone  # the names follow the rules of any federation
        self._settings = {"clients": list(clients), "server": server, "timeout": timeout, "limit": limit}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._listeners: list[Thread] = []
        self._reports: SimpleQueue[tuple[str, Report | None]] = SimpleQueue()

    def run(
        self, function: str | Protocol, inputs: Mapping[str, Any], params: Mapping[str, Any], *, seed: int | None
    ) -> dict[str, PartyResult]:
        """What each party has after `function`, a `Protocol` at the top level of a module (itself, or "module:name").

        `inputs` maps parties to plain data, `params` is plain and public; `seed` None draws all coins from the
        operating system. Raises FederationError when a party fails or the parties disagree on what was sent, PartyLost
        when one ends or falls silent. All processes end then; the next run starts new ones.
        """
        if unknown := sorted(inputs.keys() - set(self.everyone)):
            raise FederationError(f"inputs for {unknown}, but the parties are {list(self.everyone)}")
        job = {"function": protocol_name(function), "located": list(inputs), "params": dict(params), "seed": seed}
        frames = {p: encode({**job, "input": inputs.get(p)}) for p in self.everyone}
        try:
            if not self._processes:
                self._start()
            for party, frame in frames.items():
                self._tell(party, frame)
            return self._collect()
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Ends the processes: by word where they are idle, else by force."""
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
        # A child finds modules where this process does, wherever it was started.
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
        self._reports = SimpleQueue()
        for party in self.everyone:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "preprocess.transport.party"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths},
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
                raise PartyLost(f"{party} ended ({self._exit(party)}) before it was ready")
            reports[party] = report
        return reports

    def _tell(self, party: str, frame: bytes) -> None:
        with suppress(OSError):  # the process has ended; its listener reports that
            write_frame(cast(BinaryIO, self._processes[party].stdin), frame)

    def _next(self, timeout: float | None = None) -> tuple[str, Report | None]:
        """The next report of any party; None for its end."""
        try:
            return self._reports.get(timeout=timeout)
        except Empty:
            raise PartyLost(f"no word from the parties within {timeout:g} s") from None

    def _exit(self, party: str) -> str:
        status = self._processes[party].wait()
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
        self._processes, self._listeners = {}, []

    # Reports ----------------------------------------------------------------------------------------------------

    def _collect(self) -> dict[str, PartyResult]:
        """Every party's result; raises at the first sign that a party failed, ended or fell silent."""
        done: dict[str, Report] = {}
        waits: dict[str, Wait] = {}
        while len(done) < len(self.everyone):
            party, report = self._next()
            if report is None:
                self._raise_ended(party, waits)
            if report["report"] == "wait":
                _note(waits, party, report)
            elif report["report"] == "result":
                done[party] = report
            elif report["kind"] == PartyLost.__name__ and party in waits:
                self._raise_silent(party, waits, done)
            else:
                raise FederationError(f"{party} failed {report['where']}: {report['kind']}: {report['text']}")
        _check_agreement(done)
        return {p: PartyResult.from_plain(done[p]["result"]) for p in self.everyone}

    def _raise_ended(self, party: str, waits: dict[str, Wait]) -> NoReturn:
        how, deadline = self._exit(party), monotonic() + GRACE_SECONDS
        with suppress(PartyLost):
            while not any(w.hop == party for w in waits.values()):
                other, report = self._next(max(0.0, deadline - monotonic()))
                if report is not None and report["report"] == "wait":
                    _note(waits, other, report)
        waiting = [f"while {p} waited for it ({w.what})" for p, w in waits.items() if w.hop == party]
        raise PartyLost(f"{party} ended ({how}) {waiting[0] if waiting else 'while no other party waited for it'}")

    def _raise_silent(self, reporter: str, waits: Mapping[str, Wait], done: Mapping[str, Report]) -> NoReturn:
        """Follows who waits for whom, from the party whose patience ended to the one that waits for nobody."""
        chain = [reporter]
        while (silent := waits[chain[-1]].hop) in waits and silent not in chain:
            chain.append(silent)
        wait = f"{chain[-1]} waited {self._settings['timeout']:g} s for it ({waits[chain[-1]].what})"
        if silent in chain:
            raise FederationError(f"control flow differs: the parties wait for each other, {silent} too, where {wait}")
        if silent in done:
            raise FederationError(f"control flow differs: {silent} has finished, where {wait}")
        raise PartyLost(f"{silent} is silent: {wait}")


def _listen(party: str, pipe: BinaryIO, reports: "SimpleQueue[tuple[str, Report | None]]") -> None:
    with suppress(EOFError, WireError):
        while True:
            reports.put((party, read_frame(pipe)))
    reports.put((party, None))


def _note(waits: dict[str, Wait], party: str, report: Report) -> None:
    if "hop" in report:
        waits[party] = Wait(report["hop"], report["what"])
    else:
        waits.pop(party, None)


def _check_agreement(done: Mapping[str, Report]) -> None:
    """Every party must have followed the same messages, its own or not."""
    (first, one), *others = done.items()
    for party, report in others:
        if report["course"] != one["course"]:
            counts = f"{first} {one['sent']} of them, {party} {report['sent']}"
            raise FederationError(f"control flow differs: {first} and {party} followed other messages ({counts})")
