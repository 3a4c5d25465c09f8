"""Reads CSV files as text: quoting as in RFC 4180, and every irregularity named instead of guessed around."""

import csv
import gzip
import io
import zlib
from pathlib import Path

import pandas as pd

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.nouns import plural

GZIP_MAGIC = b"\x1f\x8b"
FIELD_LIMIT = 2**24  # characters; the csv module's own limit of 2**17 is below some free-text fields


def read_csv(path: Path, encoding: str, separator: str) -> pd.DataFrame:
    """All cells as text, exactly as written; "" where a field is empty. Blank lines are skipped, a byte order mark too.

    Raises DataError for a corrupt gzip stream, bytes that are not in `encoding` or no text, an empty file, a header
    without rows, rows of another length than the header, and quotes that do not close. OSError where the file cannot be
    opened.
    """
    if len(separator) != 1:
        raise DataError(f"{path}: separator {separator!r} must be one character")
    rows = _parse(_decode(unpacked(path), path, encoding), path, separator)
    if not rows:
        raise DataError(f"{path}: the file is empty; a table needs a header and rows")
    header = rows.pop(0)
    if any("\0" in name for name in header):
        raise DataError(
            f"{path}: no text, its first line has zero bytes; save a workbook as CSV, or set data.encoding (utf-16?)"
        )
    if len(header) == 1:
        raise DataError(f"{path}: the header has one column; is {separator!r} the separator? Set data.separator if not")
    if "" in header:
        raise DataError(f"{path}: column {header.index('') + 1} has no name; name it, or remove it (a row index?)")
    if not rows:
        raise DataError(f"{path}: there is a header but no row")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise DataError(
                f"{path}: row {number} has {plural(len(row), 'field')}, the header {len(header)}; quote or repair it"
            )
    return pd.DataFrame(rows, columns=pd.Index(header, dtype="str"), dtype="str")


def unpacked(path: Path) -> bytes:
    """The file's bytes, decompressed where its name or its first bytes say gzip."""
    content = path.read_bytes()
    if path.suffix.lower() != ".gz" and not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error):  # whose texts quote the first bytes of a table
        raise DataError(
            f"{path}: not a whole gzip file; fetch or compress it again, or take .gz off its name"
        ) from None


def _decode(content: bytes, path: Path, encoding: str) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise DataError(f"{path}: encoding {encoding!r} is unknown; try utf-8, latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the byte at offset {error.start} is not {encoding}; set data.encoding, for example to cp1252"
        ) from None


def _parse(text: str, path: Path, separator: str) -> list[list[str]]:
    """Header and rows, without blank lines."""
    previous = csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        return [row for row in reader if row]
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num} is not CSV: {error}; check its quotes") from None
    finally:
        csv.field_size_limit(previous)
