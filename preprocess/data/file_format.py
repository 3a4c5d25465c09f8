"""How the cells of a table file are written: separator, encoding, decimal sign, and what stands for a missing value.

A configuration or a schema file says so (`data.separator`, `separator`, ...); what neither says is as in RFC 4180 and
UTF-8. A Parquet file has none of this but texts and numbers that stand for missing.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema_file import Declared

Decimal = Literal[".", ","]
WITH_COMMA, WITH_POINT = re.compile(r"\s*[+-]?\d*,\d+\s*"), re.compile(r"\s*[+-]?\d*\.\d+\s*")
GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*")  # above a thousand, or a number with three decimals


@dataclass(frozen=True)
class FileFormat:
    """`na_values`: cells that mean missing, beside the empty one. Raises DataError for an unknown decimal sign."""

    separator: str = ","
    encoding: str = "utf-8"
    decimal: Decimal = "."
    na_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in get_args(Decimal):
            raise DataError(f"decimal {self.decimal!r} is unknown; write '.' or ','")

    @property
    def missing(self) -> frozenset[str]:
        return frozenset({"", *self.na_values})


def format_of(declared: object, given: Mapping[str, Any]) -> FileFormat:
    """The format that is `given`, where that is not None, else what a schema file says, else the default."""
    names = [f.name for f in fields(FileFormat)] if isinstance(declared, Declared) else []
    chosen = {**{n: getattr(declared, n) for n in names}, **{n: v for n, v in given.items() if v is not None}}
    values: dict[str, Any] = {n: v for n, v in chosen.items() if v is not None}
    if "na_values" in values:
        values["na_values"] = tuple(map(str, values["na_values"]))
    return FileFormat(**values)


def with_points(frame: pd.DataFrame, source: str, leave: Collection[str] = ()) -> pd.DataFrame:
    """Cells like "1,5" as "1.5", but in the columns to `leave` alone (categorical ones, and those that are dropped).

    Raises DataError for a column that has both, and for one whose points may all be separators of thousands: whether
    "1.234" is above a thousand there, nobody can tell.
    """
    changed = {}
    for name in frame.columns.difference(list(leave)):
        commas, points = (_matches(frame[name], pattern) for pattern in (WITH_COMMA, WITH_POINT))
        if not commas.any():
            if points.any() and _matches(frame[name], GROUPED)[points].all():
                raise DataError(
                    f"{source}: column {name!r} has points where thousands have them (the first in row "
                    f"{int(np.argmax(points)) + 1}), beside decimal commas; write its numbers without separators of "
                    "thousands and with a comma, or list it under categorical or drop in a schema"
                )
            continue
        if points.any():
            raise DataError(
                f"{source}: column {name!r} has numbers with a comma and with a point (the first in row "
                f"{int(np.argmax(points)) + 1}); write one of them throughout, without separators of thousands"
            )
        changed[name] = frame[name].where(~commas, frame[name].str.replace(",", "."))
    return frame.assign(**changed)


def _matches(column: pd.Series, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.str.fullmatch(pattern).to_numpy(bool, na_value=False)
    return found
