"""What the fields of a kind promise beyond their types: how many axes an array has, which of them are as long as each
other, that numbers are finite and sizes no less than nothing. Whoever reads a message that others wrote relies on it.

Types are checked when a message is decoded (`schema`); these promises where an observer reads it (`Message.payload`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from leakledger.preprocess.messages.base import Payload, Share
from leakledger.preprocess.nouns import plural

PROMISE = "promise"
LARGEST = 2**53  # float64 has every whole number up to here, and nobody holds as many of anything
COMMON = frozenset({"columns", "features", "records", "targets"})
"""Axes that are as long in all messages of one method."""


@dataclass(frozen=True)
class Promise:
    """See `shaped`."""

    axes: tuple[str | int, ...]
    least: int | None
    finite: bool


def shaped(*axes: str | int, least: int | None = 0, finite: bool = True) -> Mapping[str, Promise]:
    """The metadata of a field of numbers with these axes: by name, or by length where that is fixed; without any, one
    number. Of a mapping each value has them, of a list the first is its length. Whole numbers are at least `least`
    (None: any), others finite.
    """
    return {PROMISE: Promise(axes, least, finite)}


def axes_of(one: Field[Any]) -> tuple[str | int, ...] | None:
    """The axes that a field was declared with; None where it promises nothing."""
    return one.metadata[PROMISE].axes if PROMISE in one.metadata else None


def broken(payload: Payload) -> str:
    """The first promise that a payload does not keep, in words without its values; "" where it keeps all."""
    return next(_broken(payload, {}), "")


def common_lengths(payload: Payload) -> dict[str, int]:
    """How long the axes of a payload are that all messages of its method share; of one that keeps its promises."""
    known: dict[str, int] = {}
    for _ in _broken(payload, known):
        pass
    return {axis: length for axis, length in known.items() if axis in COMMON}


def _broken(record: Any, known: dict[str, int]) -> Iterator[str]:
    """Notes in `known` how long named axes are; those in one value of a mapping are none of the next one's."""
    for one in fields(record):
        value = getattr(record, one.name)
        parts = [(v, dict(known)) for v in value.values()] if isinstance(value, Mapping) else [(value, known)]
        for part, own in parts:
            if PROMISE in one.metadata:
                wrong = _of_field(part, one.metadata[PROMISE], own)
                yield from [f"{one.name} {wrong}"] if wrong else []
            elif is_dataclass(part):
                yield from (f"{one.name}: {what}" for what in _broken(part, own))


def _of_field(value: Any, promise: Promise, known: dict[str, int]) -> str:
    """What is wrong with the value of one field, or ""."""
    value = value.value if isinstance(value, Share) else value
    axes, shape = promise.axes, (len(value),) if isinstance(value, list | tuple) else np.shape(value)
    if len(shape) != len(axes):
        named = f" ({', '.join(map(str, axes))})" if axes else ""
        return f"has {plural(len(shape), 'axis', 'axes')}, not {len(axes)}{named}"
    for axis, length in zip(axes, shape, strict=True):
        expected = axis if isinstance(axis, int) else known.setdefault(axis, length)
        if length != expected:
            return f"has {length} {axis if isinstance(axis, str) else 'entries'}, not {expected}"
    return _of_numbers(value, promise)


def _of_numbers(value: Any, promise: Promise) -> str:
    if isinstance(value, list | tuple):
        return next(filter(None, (_of_numbers(v, promise) for v in value)), "")
    if isinstance(value, int) and abs(value) > LARGEST:  # as an array it may be of no kind of number
        return "is more than 2^53"
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return "is not finite" if promise.finite and not np.isfinite(array).all() else ""
    below = promise.least is not None and array.dtype.kind in "iu" and (array < promise.least).any()
    return f"is less than {promise.least}" if below else ""
