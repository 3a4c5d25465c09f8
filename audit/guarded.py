"""Code of plugins, whatever it does: what it prints, sets or replaces is none of a command's business."""

from collections.abc import Iterator
from contextlib import contextmanager

from leakledger.audit.kept_code import code_kept
from leakledger.audit.kept_settings import settings_kept
from leakledger.audit.terminal import foreign


@contextmanager
def guarded() -> Iterator[None]:
    """Inside, nothing reaches stdout; settings of the process and code are afterwards as they were before. Raises
    ToldFailure where code was replaced.
    """
    with foreign(), settings_kept(), code_kept():
        yield
