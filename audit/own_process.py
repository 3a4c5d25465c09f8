"""The process of a command is its own: code of others may not end it as if its work were done, nor go on in a copy."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def process_kept() -> Iterator[None]:
    """Inside, `os._exit` is `sys.exit`, which is caught: a run that it ends would end with its code, 0 perhaps, and
    without a word. A fork ends where it would come out of the block: it would play the rest of the run once more.
    """
    exits, own = os._exit, os.getpid()

    def raising(status: int) -> NoReturn:
        if os.getpid() != own:
            exits(status)  # as forks end that stay inside
        if threading.current_thread() is not threading.main_thread():
            exits(status or 1)
        raise SystemExit(status)

    os._exit = raising
    try:
        yield
    finally:
        os._exit = exits
        if os.getpid() != own:
            exits(1)
