"""Guesses how a CSV file is written, for a person to check: separator, encoding, decimal sign, cells that mean missing.

Reading itself guesses nothing (`csv_file`): what is found here is written into a configuration, where it can be seen.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from leakledger.preprocess.data.columns import check_names, words
from leakledger.preprocess.data.csv_file import read_csv, unpacked
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.file_format import GROUPED, WITH_COMMA, WITH_POINT, FileFormat, format_of, with_points
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.data.suggest import closest

SEPARATORS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last takes any bytes
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
LINES = 50  # by which a separator is judged
STANDARD = frozenset(["", "na", "n/a", "nan", "null", "#n/a", "?"])  # missing in any column, and so is a blank cell
MOSTLY = 0.9  # of a column's cells are numbers once commas are points
HALF = 0.5  # the share of words from which on reading takes a column for text, and below which it refuses the words
MOST_WORDS = 3  # different ones in such a column; more are no sign for missing
WIDEST = 12  # characters of such a sign


def sniffed(path: Path, given: Mapping[str, Any]) -> FileFormat:
    """How the file seems to be written; what is `given` and not None stays as it is.

    Raises DataError for a file that cannot be read so, OSError where it cannot be opened.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if path.suffix.lower() in READERS:
        return format_of(None, chosen)
    if not path.is_file():
        raise DataError(f"{path}: no such file{closest(path.name, (p.name for p in path.parent.glob('*')))}")
    content = unpacked(path)
    chosen.setdefault("encoding", _encoding(content))
    text = _decoded(content, chosen["encoding"])
    chosen.setdefault("separator", _separator(text))
    frame = read_csv(path, chosen["encoding"], chosen["separator"])
    check_names(frame, path.name)
    if "decimal" not in chosen:
        chosen["decimal"] = _quoted_decimal(frame) if chosen["separator"] == "," else _decimal(frame, path)
    if "na_values" not in chosen:
        chosen["na_values"] = tuple(_missing_signs(_with_points(frame, chosen["decimal"], path)))
    return format_of(None, chosen)


def _encoding(content: bytes) -> str:
    if mark := MARKS.get(content[:2]):
        return mark
    for name in ENCODINGS:
        try:
            content.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return ENCODINGS[0]


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding, errors="replace").removeprefix("\ufeff")
    except LookupError:
        return content.decode("latin-1")  # enough to find separators; reading refuses the encoding, and says so


def _separator(text: str) -> str:
    """The one that cuts the first lines into the most cells, of those that cut all of them alike; where none does, that
    of the header, so that reading names the row that differs.
    """
    head = text.splitlines(keepends=True)[:LINES]
    widths = {s: {len(row) for row in _rows("".join(head), s)} for s in SEPARATORS}
    alike = {s: min(found) for s, found in widths.items() if len(found) == 1 and min(found) > 1}
    header = "".join(head[:1])
    return max(alike, key=lambda s: alike[s]) if alike else max(SEPARATORS, key=header.count)


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    """The rows but the last, which a quoted line break may have cut."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    except csv.Error:
        rows = []
    yield from rows[:-1] if len(rows) > 2 else rows


def _decimal(frame: pd.DataFrame, path: Path) -> str:
    """The sign of a column that is numbers with one that can be no separator of thousands ("1,5", not "1,500").

    Raises DataError where only commas are found that can be either.
    """
    if _has_numbers(frame, WITH_COMMA, either=False):
        return ","
    if _has_numbers(frame, WITH_COMMA, either=True) and not _has_numbers(frame, WITH_POINT, either=False):
        raise DataError(
            f"{path}: numbers with three digits behind a comma may be above a thousand, or have decimals; "
            "set data.decimal to ',' where they have decimals, else write them without separators of thousands"
        )
    return "."


def _quoted_decimal(frame: pd.DataFrame) -> str:
    """That of a file whose separator is a comma, too: a comma only where cells in quotes have it and no number has a
    point, since a list of numbers ("1,5") is quoted in such a file as well.
    """
    points = _has_numbers(frame, WITH_POINT, either=False) or _has_numbers(frame, WITH_POINT, either=True)
    return "," if _has_numbers(frame, WITH_COMMA, either=False) and not points else "."


def _has_numbers(frame: pd.DataFrame, written: re.Pattern[str], either: bool) -> bool:
    """Whether a column holds nearly nothing but numbers once commas are points, and has cells so `written`, all of
    which may be grouped by thousands (`either`) or some of which cannot.
    """
    for name in frame.columns:
        cells = frame[name][frame[name] != ""]
        found = cells.str.fullmatch(written)
        if found.any() and bool(cells[found].str.fullmatch(GROUPED).all()) == either:
            commas = cells.str.fullmatch(WITH_COMMA)
            if 1 - words(cells.where(~commas, "1")).mean() >= MOSTLY:
                return True
    return False


def _with_points(frame: pd.DataFrame, decimal: str, path: Path) -> pd.DataFrame:
    try:
        return with_points(frame, str(path)) if decimal == "," else frame
    except DataError:
        return frame  # reading refuses it, and says why


def _missing_signs(frame: pd.DataFrame) -> list[str]:
    """Signs that mean missing in any column, and words in columns that hold numbers but for these."""
    cells = {c for name in frame.columns for c in frame[name].unique()}
    found = {c for c in cells if c and c.strip().casefold() in STANDARD}
    for name in frame.columns:
        column = frame[name][~frame[name].isin(["", *found])]  # as reading will see it
        text = words(column)
        strange = set(column[text].unique())
        if len(text) and text.mean() < HALF and len(strange) <= MOST_WORDS and all(len(c) <= WIDEST for c in strange):
            found |= strange
    return sorted(found)
