"""Values that nobody can change: what is public is the same for all parties, and stays so.

A list stays a list and a dict a dict (equal, and encoded alike); what would change them raises TypeError. Arrays are
read-only. It keeps out slips, not hostile code: C functions of Python write into anything.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

MUTABLE = (list, dict, set, bytearray)


def _refuse(self: object, *values: Any, **named: Any) -> NoReturn:
    raise TypeError("a public value cannot be changed; make a new one from it")


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class FrozenDict(dict[Any, Any]):
    """A dict that cannot be changed."""

    update = setdefault = pop = popitem = clear = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def freeze(value: Any) -> Any:
    """`value` with everything in it frozen: plain data, arrays and frozen dataclasses of these.

    What can be changed is copied first. Raises ValueError for anything else, naming its type.
    """
    if isinstance(value, FrozenList | FrozenDict):
        return value
    if isinstance(value, np.ndarray):
        return _frozen_array(value)
    if isinstance(value, list):
        return FrozenList(freeze(v) for v in value)
    if isinstance(value, Mapping):
        return FrozenDict({k: freeze(v) for k, v in value.items()})
    if isinstance(value, tuple):
        return _frozen_tuple(value)
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _frozen_dataclass(value)
    if value is None or isinstance(value, bool | int | float | str | bytes | range | np.generic | Enum):
        return value
    raise ValueError(f"{type(value).__name__} cannot be public; plain data, arrays and frozen dataclasses can")


def first_mutable(function: Any) -> str | None:
    """What a function carries with it that can be changed, in words: of its closure, its defaults or its object."""
    for kind, held in _carried(function):
        if isinstance(held, MUTABLE) and not isinstance(held, FrozenList | FrozenDict):
            return f"a {type(held).__name__} in its {kind}"
        if isinstance(held, np.ndarray) and held.flags.writeable:
            return f"a writable array in its {kind}"
        if isinstance(held, np.random.Generator):
            return f"a generator in its {kind}"
    return None


def _carried(function: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(function, partial):
        yield from _carried(function.func)
        yield from (("arguments", v) for v in (*function.args, *function.keywords.values()))
        return
    if (bound := getattr(function, "__self__", None)) is not None:
        yield "object", bound
    inner = getattr(function, "__func__", function)
    if isinstance(inner, FunctionType):
        yield from (("defaults", v) for v in (*(inner.__defaults__ or ()), *(inner.__kwdefaults__ or {}).values()))
        yield from (("closure", c.cell_contents) for c in inner.__closure__ or () if _filled(c))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that the enclosing function has not given a value yet
        return False


def _frozen_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not array.flags.writeable:
        return array
    own = array.copy()
    own.setflags(write=False)
    return own


def _frozen_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = [freeze(v) for v in value]
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def _frozen_dataclass(value: Any) -> Any:
    if not value.__dataclass_params__.frozen:
        raise ValueError(f"{type(value).__name__} cannot be public: it is a dataclass that is not frozen")
    own = copy.copy(value)
    for field in fields(value):
        object.__setattr__(own, field.name, freeze(getattr(value, field.name)))
    return own
