"""Readers of table files whose cells have types, by suffix; a plugin adds others (`leakledger.readers`).

A reader takes a path and returns a frame with a column per feature: text, numbers, truth values, points in time. It
raises ValueError, in one line that quotes no cell, for a file that is none of its kind; one that comes out of a library
is told by its kind alone, since those quote what they stumbled over. CSV is no such file: its cells are text.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.raised import functions_through, package_of
from leakledger.preprocess.told_failure import ON_REQUEST, exit_code

Reader = Callable[[Path], pd.DataFrame]


def read_parquet(path: Path) -> pd.DataFrame:
    """Reads a Parquet file: its columns with their types; ordered categories declare the order of a feature."""
    try:
        frame = pd.read_parquet(path)
        _check_text(frame)
    except OSError:
        raise
    except Exception:  # of a damaged file, and of damaged metadata in it, the libraries raise any type
        raise DataError(f"{path}: not a Parquet file, or a damaged one; write it again, or name it .csv") from None
    return frame


def _check_text(frame: pd.DataFrame) -> None:
    """Raises ValueError for text that is none: Arrow takes bytes as they are, and fails where they are looked at."""
    import pyarrow as pa  # imported late: takes a third of a second that other files need not wait

    for _, column in frame.items():
        text = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
        if isinstance(text.dtype, pd.StringDtype):
            pa.array(text).validate(full=True)


READERS: dict[str, Reader] = {".parquet": read_parquet}


def read_typed(path: Path) -> pd.DataFrame | None:
    """The table of a file whose suffix a reader knows; None for any other. Raises DataError, OSError."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return None
    try:
        frame = reader(path)
    except DataError:
        raise
    except ValueError as error:
        kind = f"the reader of {path.suffix.lower()} raised {type(error).__name__}; {ON_REQUEST}"
        raise DataError(f"{path}: {' '.join(str(error).split()) if _own(error, reader) else kind}") from error
    except SystemExit as error:
        called = f"the reader of {path.suffix.lower()} called sys.exit({exit_code(error)})"
        raise DataError(f"{path}: {called}") from None
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{path}: the reader of {path.suffix.lower()} returns a {type(frame).__name__}, no DataFrame")
    if frame.empty:
        raise DataError(f"{path}: the table has no rows or no columns")
    return frame


def _own(error: ValueError, reader: Reader) -> bool:
    """Whether the package of the reader raised it, and no library that it called."""
    return package_of(functions_through(error.__traceback__)[-1][0]) == package_of(str(reader.__module__))
