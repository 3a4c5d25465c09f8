"""Checks plain data against the type of a field: what arrives is what the kind declares, or it is refused.

Types: None, bool, int, float, str, bytes, arrays (`NDArray[np.float64]`, `NDArray[np.integer[Any]]`, ...), `list[T]`,
`tuple[T, ...]`, `dict[str, T]`, `T | None`, frozen dataclasses of these, and `Any`. A whole number is accepted where a
float is declared; nothing else is converted but lists to tuples.
"""

from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from leakledger.preprocess.messages.arrays import element_type

SCALARS = frozenset({bool, int, float, str, bytes})


class SchemaError(ValueError):
    """Plain data of another type than declared; the text names types, never a value or a key."""


def check(hint: Any, plain: Any) -> Any:
    """`plain` as the declared type. Raises SchemaError."""
    origin = get_origin(hint)
    if hint is Any:
        return plain
    if (element := element_type(hint)) is not None:
        return _array(element, plain)
    if origin in (list, tuple):
        item = get_args(hint)[0]
        if not isinstance(plain, list):
            raise SchemaError(f"{_name(plain)}, not a list")
        alike = item is Any or (item in SCALARS and set(map(type, plain)) <= {item})  # most long lists are such
        checked = plain if alike else [check(item, v) for v in plain]
        return tuple(checked) if origin is tuple else checked
    if origin is dict:
        if not isinstance(plain, dict):
            raise SchemaError(f"{_name(plain)}, not a mapping")
        item = get_args(hint)[1]
        return {k: check(item, v) for k, v in plain.items()}
    if origin in (Union, UnionType):
        return _either(hint, plain)
    if is_dataclass(hint):
        return _record(hint, plain)
    return _scalar(hint, plain)


def _scalar(hint: Any, plain: Any) -> Any:
    if hint is float and type(plain) is int:
        return float(plain)
    if hint is type(None) or hint is None:
        hint = type(None)
    if type(plain) is not hint:  # True is no number
        raise SchemaError(f"{_name(plain)}, not {getattr(hint, '__name__', hint)}")
    return plain


def _array(element: Any, plain: Any) -> Any:
    if not isinstance(plain, np.ndarray) or (element is not Any and not np.issubdtype(plain.dtype, element)):
        given = f"an array of {plain.dtype}" if isinstance(plain, np.ndarray) else _name(plain)
        wanted = "numbers" if element is Any else element.__name__
        raise SchemaError(f"{given}, not an array of {wanted}")
    return plain


def _either(hint: Any, plain: Any) -> Any:
    for option in get_args(hint):
        try:
            return check(option, plain)
        except SchemaError as error:
            last = error
    raise last


def _record(hint: Any, plain: Any) -> Any:
    types = _record_types(hint)
    if not isinstance(plain, dict) or plain.keys() != types.keys():
        raise SchemaError(f"{_name(plain)}, not the fields {', '.join(types)}")
    return hint(**{name: check(of, plain[name]) for name, of in types.items()})


@lru_cache(None)
def _record_types(hint: Any) -> dict[str, Any]:
    hints = get_type_hints(hint)
    return {f.name: hints[f.name] for f in fields(hint)}


def _name(plain: Any) -> str:
    return type(plain).__name__
