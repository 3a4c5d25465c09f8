"""Through whose code an error came: module and function of each frame, the package that these are in, what they held,
and whether the last of them raised it itself.
"""

from dis import opmap
from traceback import walk_tb
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


def functions_through(at: TracebackType | None) -> list[tuple[str, str]]:
    """(module, name) of each function that an error came through, the one that raised it last."""
    return [(str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname) for frame, _ in walk_tb(at)]


def held_through(at: TracebackType | None, kind: type[T]) -> list[T]:
    """The values of that kind in the variables of each function that an error came through, the one that raised it
    last.
    """
    return [held for frame, _ in walk_tb(at) for held in frame.f_locals.values() if isinstance(held, kind)]


def raised_itself(at: TracebackType | None) -> bool:
    """Whether the function that an error came through last has the `raise` that it is from. What compiled code raises,
    as `int` and NumPy do, has no frame of its own and seems to be from whoever called that.
    """
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_code[at.tb_lasti] == opmap["RAISE_VARARGS"]


def package_of(module: str) -> str:
    """The top-level package that a module is in."""
    return module.partition(".")[0]
