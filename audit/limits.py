"""Numbers, lists and texts that no configuration means: refused with their key, before anything computes with them."""

from collections.abc import Iterator, Mapping
from typing import Any

from leakledger.audit.options import located_error

LARGEST, SMALLEST = 1e50, 1e-50  # of numbers: their squares and products, as accountants form them, stay finite
LONGEST = 10_000  # entries of a list
OF_TABLE = "data"  # the section that quotes a table, which may hold any number and list any values
Place = tuple[str | int, ...]


def check_limits(values: Mapping[str, Any]) -> None:
    """Raises a ValidationError for the first such value of a configuration; nan and infinity have one of their own."""
    for at, value in _leaves(values, ()):
        if problem := _problem(value, at[0] == OF_TABLE):
            raise located_error(problem, None, *at)


def _leaves(value: Any, at: Place) -> Iterator[tuple[Place, Any]]:
    """Lists before what is in them."""
    if isinstance(value, Mapping):
        for key, own in value.items():
            yield from _leaves(own, (*at, str(key)))
        return
    if at:
        yield at, value
    if isinstance(value, list | tuple) and len(value) <= LONGEST:
        for k, own in enumerate(value):
            yield from _leaves(own, (*at, k))


def _problem(value: Any, of_table: bool) -> str:
    if isinstance(value, str) and "\0" in value:
        return "has a character NUL, which no name or file has; remove it"
    if of_table:
        return ""
    if isinstance(value, list | tuple) and len(value) > LONGEST:
        return f"has {len(value)} entries; it must have at most {LONGEST}"
    if isinstance(value, int | float) and LARGEST < abs(value) < float("inf"):
        return f"is {value:.6g}; it must be at most {LARGEST:g} in size"
    if isinstance(value, float) and 0 < abs(value) < SMALLEST:
        return f"is {value:.6g}; it must be 0 or at least {SMALLEST:g} in size"
    return ""
