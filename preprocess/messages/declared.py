"""Which types the fields of a kind may have: those that `schema.check` tells apart, and that controls can make up."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from leakledger.preprocess.messages.arrays import element_type

SCALARS = (bool, int, float, str, bytes)
ALLOWED = (
    "bool, int, float, str, bytes, NDArray[np.float64] (or another element type), list[T], tuple[T, ...], "
    "dict[str, T], T | None, frozen dataclasses of these, Any"
)


def check_declared(owner: str, types: Mapping[str, Any]) -> None:
    """Raises TypeError, one line, for the first field of another type."""
    for name, hint in types.items():
        if why := _problem(hint, ()):
            raise TypeError(f"{owner}.{name}: {why}")


def _problem(hint: Any, inside: tuple[Any, ...]) -> str:
    """What is wrong with a type, within dataclasses that are being looked at; empty where nothing is."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or hint in SCALARS or hint in inside:
        return ""
    if hint is np.ndarray:
        return "numpy.ndarray says no element type; write NDArray[np.float64]"
    if hint in (list, tuple, dict):
        written = {list: "list[str]", tuple: "tuple[str, ...]", dict: "dict[str, int]"}[hint]
        return f"{hint.__name__} says no element type; write {written}, say"
    if element_type(hint) is not None:
        return ""
    if origin is list:
        return _problem(parts[0], inside)
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        return _problem(parts[0], inside)
    if origin is dict and parts[0] is str:
        return _problem(parts[1], inside)
    if origin in (Union, UnionType):
        options = [p for p in parts if p is not NoneType]
        return next(filter(None, (_problem(p, inside) for p in options)), "")
    if isinstance(hint, type) and is_dataclass(hint):
        own = get_type_hints(hint)
        return next(filter(None, (_problem(own[f.name], (*inside, hint)) for f in fields(hint))), "")
    return f"{_written(hint)} is no type of a message; choose among {ALLOWED}"


def _written(hint: Any) -> str:
    if not isinstance(hint, type) or get_origin(hint) is not None:
        return str(hint)
    return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
