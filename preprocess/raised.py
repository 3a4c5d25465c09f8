"""Through whose code an error came: module and function of each frame, and the package that these are in."""

from traceback import walk_tb
from types import TracebackType


def functions_through(at: TracebackType | None) -> list[tuple[str, str]]:
    """(module, name) of each function that an error came through, the one that raised it last."""
    return [(str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname) for frame, _ in walk_tb(at)]


def package_of(module: str) -> str:
    """The top-level package that a module is in."""
    return module.partition(".")[0]
