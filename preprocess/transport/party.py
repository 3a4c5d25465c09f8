"""The process of one party: takes jobs from its driver over stdin, runs its part of each protocol, reports over stdout.

Started by `processes.PartyProcesses` as `python -m leakledger.preprocess.transport.isolation`. What a protocol prints
goes to stderr, so that it cannot pass for a report. When the driver ends, however it ends, so does this process.
"""

import os
import signal
import traceback
from collections.abc import Mapping
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, BinaryIO

from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.method_errors import may_be_told
from leakledger.preprocess.repeating import repeating
from leakledger.preprocess.told_failure import DEBUG
from leakledger.preprocess.transport.channels import Channels
from leakledger.preprocess.transport.pipes import read_frame, write_frame
from leakledger.preprocess.transport.projected import Projected, Wait
from leakledger.preprocess.transport.protocol import find_protocol, held_by, perform
from leakledger.preprocess.views import Abort
from leakledger.preprocess.wire import encode

BEAT_SECONDS = 0.5
HOLDINGS = "holdings"
"""What a driver says to learn which messages a party has of a run that will not end."""


class Reports:
    """The pipe to the driver, for several threads: what the party does, that it lives and, when it is asked, what it
    holds.
    """

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe, self._lock = pipe, Lock()
        self.ledger = Ledger()  # of the run that was begun last

    def write(self, report: bytes) -> None:
        with self._lock:
            write_frame(self._pipe, report)

    def tell(self, report: str, **facts: Any) -> None:
        self.write(encode({"report": report, **facts}))


def main() -> None:
    """Serves one driver: its settings, the addresses of the other parties, then jobs until it says None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C goes to the whole group; the driver decides what follows
    jobs, pipe = _take_standard_streams()
    inbox: SimpleQueue[Any] = SimpleQueue()
    reports = Reports(pipe)
    Thread(target=_listen, args=(jobs, inbox, reports), daemon=True).start()
    settings = inbox.get()
    with Channels(settings["limit"], settings["backlog"]) as channels:
        reports.tell("listens", endpoint=channels.endpoint, key=channels.key)
        channels.admit(inbox.get())
        reports.tell("admits")  # no other party may connect before: it would be refused, and its message lost
        while (job := inbox.get()) is not None:
            reports.write(_work(settings, job, channels, reports))


def _work(settings: Mapping[str, Any], job: Mapping[str, Any], channels: Channels, reports: Reports) -> bytes:
    """This party's part of one run: the encoded report of its result, or of the error that ended it."""
    me = settings["party"]

    def on_wait(wait: Wait | None) -> None:
        reports.tell("wait", **({"hop": wait.hop, "what": wait.what} if wait else {}))

    common = {"server": settings["server"], "secret": job["secret"], "timeout": settings["timeout"]}
    common["clock"] = monotonic if settings["times"] else None
    aborts: tuple[Abort, ...] = ()
    try:
        channels.begin(job["run"])
        fed = Projected(me, settings["clients"], channels, on_wait=on_wait, **common)
        reports.ledger = fed.ledger
        # All the while, the driver is told that this process runs, and how many messages it has got through.
        with repeating(BEAT_SECONDS, lambda: reports.tell("alive", sent=fed.sent)):
            inputs = {p: job["input"] if p == me else None for p in job["located"]}
            try:
                result = perform(fed, find_protocol(job["function"]), inputs, job["params"])[me]
            finally:
                aborts = fed.ledger.aborts
            return encode({"report": "result", "result": result.to_plain(), "sent": fed.sent, "course": fed.course})
    except Exception as error:
        if DEBUG in os.environ:
            traceback.print_exception(error)
        where = ", ".join(getattr(error, "__notes__", ["in step start"]))
        failure = {"kind": type(error).__name__, "text": may_be_told(error), "where": where}
        return encode({"report": "failure", **failure, "aborts": [a.to_plain() for a in aborts]})


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes from and to the driver, taken out of the way of whatever a protocol reads or prints."""
    jobs, reports = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return jobs, reports


def _listen(jobs: BinaryIO, inbox: "SimpleQueue[Any]", reports: Reports) -> None:
    """Passes frames on until None; a driver that is gone ends the process, whatever it is doing."""
    try:
        while (frame := read_frame(jobs)) is not None:
            if isinstance(frame, Mapping) and HOLDINGS in frame:
                reports.write(encode({"report": HOLDINGS, "held": held_by(frame[HOLDINGS], reports.ledger).to_plain()}))
            else:
                reports.ledger = Ledger()  # what was held before is of another run
                inbox.put(frame)
    except EOFError:
        os._exit(1)
    inbox.put(None)
