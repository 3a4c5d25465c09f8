"""Runs the cases of an audit: one after another, or in a pool of processes that ends with its parent."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], items: Sequence[T], jobs: int | None = None) -> Iterator[R]:
    """`work` of each item, as it finishes: `jobs` at a time (None: one per core), in this process if that is one.

    Every worker computes with one thread: the pool fills the cores, and results do not depend on how many there are.
    Raises RuntimeError when a worker process dies.
    """
    jobs = min(jobs or os.cpu_count() or 1, max(len(items), 1))
    if jobs == 1:
        _one_thread()
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        for future in as_completed([pool.submit(work, item) for item in items]):
            yield future.result()
    except BrokenProcessPool:
        raise RuntimeError("a worker process died (out of memory?); run again with --set audit.jobs=1") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    torch.set_num_threads(1)
    threadpool_limits(1)  # and the linear algebra of numpy and scipy


def _begin_worker() -> None:
    _one_thread()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed has no one to work for."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
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
