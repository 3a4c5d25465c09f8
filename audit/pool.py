"""Runs the cases of an audit: one after another, or in a pool of processes that ends with its parent, or at its word.

Ctrl-C reaches all processes of a terminal at once. Workers do not heed it: the parent decides, and whatever ends the
work early (Ctrl-C, a case that fails) ends them at once and not after the cases that they are at.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, connection, get_context, parent_process
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], items: Sequence[T], jobs: int | None = None) -> Iterator[R]:
    """`work` of each item, as it finishes: `jobs` at a time (None: one per core), in this process if that is one.

    Every worker computes with one thread: the pool fills the cores, and results do not depend on how many there are.
    Raises RuntimeError when a worker process dies. Whatever is raised, also at the caller's, no worker goes on.
    """
    jobs = min(jobs or os.cpu_count() or 1, max(len(items), 1))
    if jobs == 1:
        one_thread()
        yield from map(work, items)
        return
    listening, lifeline = Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_worker, initargs=(listening,))
    try:
        with _interrupts_held():  # workers start here, and stay so
            futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise RuntimeError("a worker process died (out of memory?); run again with --set audit.jobs=1") from None
    finally:
        lifeline.close()  # ends all workers, whatever they are at
        pool.shutdown(wait=True, cancel_futures=True)
        listening.close()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """No SIGINT inside the block, which comes after it; none at all for processes that start in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def one_thread() -> None:
    """From here on, this process computes with one thread: results do not depend on how many cores there are."""
    torch.set_num_threads(1)
    threadpool_limits(1)  # and the linear algebra of numpy and scipy


def _begin_worker(lifeline: connection.Connection) -> None:
    one_thread()
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
