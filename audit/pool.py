"""Runs the cases of an audit: one after another, or in a pool of processes that ends with its parent, or at its word.

Ctrl-C reaches all processes of a terminal at once. Workers do not heed it: the parent decides, and whatever ends the
work early (Ctrl-C, a case that fails) ends them at once and not after the cases that they are at.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, connection, get_context, parent_process
from types import ModuleType
from typing import NamedTuple, TypeVar

import torch
from threadpoolctl import threadpool_limits

from leakledger.audit.records import plural
from leakledger.audit.steps import Listener, listen, listening, pass_on
from leakledger.audit.terminal import crashes_told
from leakledger.preprocess.told_failure import ToldFailure

SHOWN = 4  # items at which a worker may have died
HEARD_SECONDS = 5.0  # for what was told last; a worker that was killed may leave half a message
T = TypeVar("T")
R = TypeVar("R")


def each(
    work: Callable[[T], R],
    items: Sequence[T],
    jobs: int | None = None,
    on_step: Listener | None = None,
    name: Callable[[T], str] | None = None,
) -> Generator[R, None, None]:
    """`work` of each item, as it finishes: `jobs` at a time (None: one per core), in this process if that is one.

    What the work tells of its steps (`steps`) comes to `on_step`, in another thread where there are several processes.

    Every worker computes with one thread: the pool fills the cores, and results do not depend on how many there are.
    Raises ToldFailure when a worker process dies, with the `name` of each item that was being worked on. Whatever is
    raised, also at the caller's, no worker goes on.
    """
    jobs = min(jobs or os.cpu_count() or 1, max(len(items), 1))
    if jobs == 1:
        one_thread()
        with listening(on_step):
            yield from map(work, items)
        return
    line, lifeline = Pipe(duplex=False)
    ear, mouth = Pipe(duplex=False)  # small messages are written at once: several processes need no lock
    spawn, ends = get_context("spawn"), (line, mouth)
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_begin_worker, initargs=ends)
    at_work: set[int] = set()
    hearing = threading.Thread(target=_hear, args=(ear, on_step, at_work), daemon=True)
    hearing.start()
    died = False
    try:
        with _interrupts_held(), _without_main():  # workers start here, and stay so
            futures = [pool.submit(_at_work, work, i, item) for i, item in enumerate(items)]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        died = True
    finally:
        lifeline.close()  # ends all workers, whatever they are at
        pool.shutdown(wait=True, cancel_futures=True)
        line.close()
        mouth.close()  # the last one that was open: nothing more is to be heard
        hearing.join(HEARD_SECONDS)
        ear.close()
    if died:
        at = f" at {_any_of([name(items[i]) for i in sorted(at_work)])}" if at_work and name else ""
        raise ToldFailure(f"a worker process died{at} (out of memory?); run again with --set audit.jobs=1")


def _any_of(names: Sequence[str]) -> str:
    others = len(names) - SHOWN
    return " or ".join([*names[:SHOWN], *([plural(others, "other")] if others > 0 else [])])


def _hear(ear: connection.Connection, on_step: Listener | None, at_work: set[int]) -> None:
    """Passes on what workers tell until none of them is left, and keeps which items they are `at_work` on."""
    with suppress(EOFError, OSError):
        while True:
            told = ear.recv()
            if isinstance(told, _Item):
                (at_work.add if told.begun else at_work.discard)(told.number)
            elif on_step is not None:
                on_step(told)


class _Item(NamedTuple):
    """What a worker tells when it begins or ends the item of that number."""

    number: int
    begun: bool


def _at_work(work: Callable[[T], R], number: int, item: T) -> R:
    """`work` of an item in a worker, which tells of its begin and end."""
    pass_on(_Item(number, True))
    try:
        return work(item)
    finally:
        pass_on(_Item(number, False))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """No SIGINT inside the block, which comes after it; none at all for processes that start in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes that start inside do not run the script that is running here: whatever it is, work comes from modules.

    Otherwise each would begin the audit again, in a script that does not guard its main part.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def one_thread() -> None:
    """From here on, this process computes with one thread: results do not depend on how many cores there are."""
    torch.set_num_threads(1)
    threadpool_limits(1)  # and the linear algebra of numpy and scipy


def _begin_worker(lifeline: connection.Connection, mouth: connection.Connection) -> None:
    one_thread()
    crashes_told()
    listen(mouth.send)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()


def _end_with_parent(lifeline: connection.Connection) -> None:
    """A worker whose parent was killed, or has let go of its end of the line, has no one to work for."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel, lifeline])
        os._exit(1)


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
