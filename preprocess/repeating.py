"""Something that is done again and again while something else goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def repeating(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Calls it after every so many seconds, from a thread of its own, until the end of the block."""
    over = Event()

    def repeat() -> None:
        while not over.wait(seconds):
            call()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
