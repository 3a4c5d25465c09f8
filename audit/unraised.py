"""Errors that nobody can catch, those of threads and of `__del__`: of code of others they are told in one line as well.

Python prints a traceback with their text, which may quote a record (`preprocess.method_errors`).
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from leakledger.audit.terminal import tell_unforeseen


@contextmanager
def unraised_told() -> Iterator[None]:
    """Inside, such an error is one line on stderr; with LEAKLEDGER_DEBUG its traceback too. Threads that were there
    before are their owner's. Where one that was started inside goes on, so does this.
    """
    if isinstance(threading.excepthook, _OfThreads):  # inside another
        yield
        return
    before, of_objects = _OfThreads(threading.excepthook, frozenset(threading.enumerate())), sys.unraisablehook
    threading.excepthook, sys.unraisablehook = before, _of_object
    try:
        yield
    finally:
        if before.threads.issuperset(threading.enumerate()):
            threading.excepthook, sys.unraisablehook = before.hook, of_objects


class _OfThreads:
    """What stands in for `threading.excepthook`: its `hook` still tells of `threads`."""

    def __init__(self, hook: Any, threads: frozenset[threading.Thread]) -> None:
        self.hook, self.threads = hook, threads

    def __call__(self, args: Any) -> None:
        if args.thread in self.threads:
            self.hook(args)
        elif not issubclass(args.exc_type, SystemExit):  # as Python itself ignores it
            tell_unforeseen("a thread", args.exc_type, args.exc_value, args.exc_traceback)


def _of_object(args: Any) -> None:
    tell_unforeseen("an object that was let go", args.exc_type, args.exc_value, args.exc_traceback)
