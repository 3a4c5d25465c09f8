"""Errors about one of the columns that a method was handed.

Scalers and sums see matrices without names, so they say which column by its number. Whoever gave them the columns knows
what its user calls them, and says that instead.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray


class ColumnError(ValueError):
    """What is wrong with the column at place `column`, from 0, in words that follow the column's name."""

    def __init__(self, column: int, problem: str) -> None:
        super().__init__(column, problem)  # both, so that it survives the way between processes
        self.column, self.problem = column, problem

    def __str__(self) -> str:
        return f"column {self.column + 1} {self.problem}"


@contextmanager
def naming_columns(name: Callable[[int], str]) -> Iterator[None]:
    """A ColumnError becomes a ValueError with the same notes that says `name` of the place of its column."""
    try:
        yield
    except ColumnError as error:
        named = ValueError(f"{name(error.column)} {error.problem}")
        for note in getattr(error, "__notes__", ()):
            named.add_note(note)
        raise named from error


def check_finite(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The (rows, columns) numbers. Raises ColumnError for the first column with some that are not finite."""
    if bad := np.flatnonzero(~np.isfinite(columns).all(axis=0)).tolist():
        raise ColumnError(bad[0], "holds numbers that are not finite; remove or impute them first")
    return columns
