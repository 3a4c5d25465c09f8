"""A command that is told to end, by SIGTERM of a scheduler or a cancelled job, ends like one that its user stops."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit code, also where it was told to end


class Interrupted(KeyboardInterrupt):
    """A command that its user stopped; the text says what is kept and how to continue."""


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside the block, where this is the main thread; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Yields what says whether a signal to stop has come inside the block: code of others that catches everything goes
    on after it, with half of its work undone. It does as before beside; only the main thread is told.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def noting(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def note(number: int, frame: FrameType | None) -> None:
            noted.append(number)
            handler(number, frame)

        return note

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if callable(handler):  # else it is ignored, or ends the process
            signal.signal(number, noting(handler))
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
