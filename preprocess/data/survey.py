"""What the columns of a table look like to whoever is about to audit it: levels, missing cells, likely slips.

Nothing here decides anything: a schema does. What is noticed are things that a newcomer's table has and that would
otherwise pass in silence: a column that names rows, dates that would be one input each, levels that differ in spaces or
capitals alone, whole numbers that may be codes. Examples are masked (`masked`), since an account of a table is pasted
where its cells must not be.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from leakledger.preprocess.data.columns import as_numbers, as_text, is_whole
from leakledger.preprocess.data.file_format import GROUPED, WITH_POINT
from leakledger.preprocess.data.profile import Kind, kind_of

Remark = Literal["identifier", "date", "thousands", "grouped", "constant", "many levels", "code", ""]
LONGEST_EXAMPLE = 16
NAMING = 0.9  # distinct values per row from which on a text column names rows
FEWEST_ROWS = 20  # below, values are distinct by chance
DATED = 0.9  # the share of a column's cells that must look like dates
NUMBERS = 0.9  # the share of a column's cells that must be numbers, with separators of thousands or not
MANY_LEVELS = 50  # of one-hot inputs, more than most tables have rows for
CODE_LEVELS = range(3, 11)  # whole numbers with so few values may stand for something
DENSE = 2  # a serial number leaves out fewer than every other number
MONTHS = "jan|feb|m[aä]r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz]"  # how their names begin
DATES = re.compile(
    r"\s*(\d{4}[-/.](0?[1-9]|1[0-2])[-/.]([0-2]?\d|3[01])|([0-2]?\d|3[01])[-/.](0?[1-9]|1[0-2])[-/.](\d{4}|\d\d)"
    r"|(0?[1-9]|1[0-2])/([0-2]?\d|3[01])/(\d{4}|\d\d)|(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])"
    rf"|([0-2]?\d|3[01])[-/. ]+({MONTHS})[^\W\d]*[-/., ]+(\d{{4}}|\d\d)"
    rf"|({MONTHS})[^\W\d]*[-. ]+([0-2]?\d|3[01]),? *(\d{{4}}|\d\d))([ T]\d?\d:\d\d.*)?\s*",
    re.IGNORECASE,
)
NUMBER = re.compile(r"\s*[+-]?\d+([.,]\d+)?\s*")
THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,'’ \u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?\s*")
IDENTIFYING = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|nr|no|num|number|key|index|code|mrn|ssn)([^a-z]|$)")


@dataclass(frozen=True)
class ColumnSurvey:
    """One column: what its cells hold, distinct values, missing cells, a masked cell, and what is noticed.

    `alike`: groups of levels that differ in spaces or capitals alone. `kind` is "empty" for a column without a value.
    """

    name: str
    kind: Kind
    levels: int
    missing: int
    example: str
    remark: Remark
    alike: tuple[tuple[str, ...], ...] = ()


def survey(frame: pd.DataFrame) -> list[ColumnSurvey]:
    """A line about each column of a plain frame (`columns.plain_frame`)."""
    return [_survey(frame[name]) for name in frame.columns]


def masked(text: str) -> str:
    """The shape of a text: 9 for a digit, A and a for letters, other characters as they are; cut where it is long."""
    shape = "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    return shape if len(shape) <= LONGEST_EXAMPLE else shape[: LONGEST_EXAMPLE - 1] + "…"


def near_duplicates(levels: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Levels that are the same without spaces around them, runs of spaces and capitals, in groups of two or more."""
    groups: dict[str, list[str]] = {}
    for level in levels:
        groups.setdefault(" ".join(level.split()).casefold(), []).append(level)
    return tuple(tuple(sorted(group)) for group in groups.values() if len(group) > 1)


def rows_with_missing(frame: pd.DataFrame, columns: Iterable[str]) -> int:
    """How many rows miss a value in one of the columns."""
    return int(frame[list(columns)].isna().any(axis=1).sum())


def counted_levels(frame: pd.DataFrame) -> Mapping[str, int]:
    return {str(name): int(frame[name].nunique()) for name in frame.columns}


def _survey(column: pd.Series) -> ColumnSurvey:
    present = column.dropna()
    kind, text = kind_of(column), as_text(present)
    levels = text.unique()
    remark = _remark(str(column.name), present, text, kind, len(levels))
    alike = near_duplicates(levels) if kind == "text" and remark not in ("identifier", "date", "thousands") else ()
    example = masked(text.iloc[0]) if len(text) else ""
    return ColumnSurvey(str(column.name), kind, len(levels), int(column.isna().sum()), example, remark, alike)


def _remark(name: str, present: pd.Series, text: pd.Series, kind: Kind, levels: int) -> Remark:
    if not levels:
        return ""
    if text.str.fullmatch(DATES).mean() >= DATED and levels > 1:
        return "date"
    if kind == "text" and _has_thousands(text):
        return "thousands"
    if _names_rows(name, present, kind, levels):
        return "identifier"
    if levels == 1:
        return "constant"
    if kind == "text":
        return "many levels" if levels > MANY_LEVELS else ""
    if _may_be_grouped(present):
        return "grouped"
    return "code" if kind == "whole" and levels in CODE_LEVELS else ""


def _has_thousands(text: pd.Series) -> bool:
    """Whether cells are numbers of which some have separators of thousands, so that none of them is read as one."""
    grouped = text.str.fullmatch(THOUSANDS)
    return bool(grouped.any()) and (grouped | text.str.fullmatch(NUMBER)).mean() >= NUMBERS


def _may_be_grouped(present: pd.Series) -> bool:
    """Whether cells are numbers whose every point has three digits behind it, as a separator of thousands has: read as
    decimals, "1.234" is a little more than one, and "950" far above it.
    """
    if present.dtype == np.float64:
        return False
    pointed = present[present.str.fullmatch(WITH_POINT)]
    return len(pointed) > 0 and bool(pointed.str.fullmatch(GROUPED).all())


def _names_rows(name: str, present: pd.Series, kind: Kind, levels: int) -> bool:
    """Text that is nearly always another; whole numbers that always are, and are called so or follow each other."""
    rows = len(present)
    if rows < FEWEST_ROWS:
        return False
    if kind == "text":
        return levels >= NAMING * rows
    numbers = as_numbers(present)
    if kind != "whole" or levels < rows or not is_whole(numbers):
        return False
    named = IDENTIFYING.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold())
    return bool(named) or float(np.ptp(numbers)) < DENSE * rows
