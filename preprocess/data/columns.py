"""One column at a time: text or numbers, and from one to the other.

A *plain* column is either text (dtype `str`) or numbers (dtype float64); NaN is missing in both.
"""

from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from leakledger.preprocess.data.errors import DataError

EXACT = 2**53  # from here on a float64 does not tell a whole number from the next
NOT_A_NUMBER = frozenset(["nan", "+nan", "-nan"])  # texts that parse as the float NaN: neither numbers nor words


def plain_frame(frame: pd.DataFrame, missing: Collection[str], source: str) -> pd.DataFrame:
    """`frame` with plain columns and rows numbered from 0. Raises DataError with `source` and the column."""
    check_names(frame, source)
    columns = {}
    for name in frame.columns:
        try:
            columns[name] = plain(frame[name], missing)
        except TypeError as error:
            raise DataError(f"{source}: column {name!r} holds {error} values; turn them into text or numbers") from None
    return pd.DataFrame(columns).reset_index(drop=True)


def check_names(frame: pd.DataFrame, source: str) -> None:
    """Raises DataError with `source` and the column unless every column has a name of its own, in text."""
    if odd := [c for c in frame.columns if not isinstance(c, str) or not c]:
        raise DataError(f"{source}: column {odd[0]!r} has no name in text; name it, or remove it (a row index?)")
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise DataError(f"{source}: two columns are called {twice[0]!r}; rename or remove one")


def plain(column: pd.Series, missing: Collection[str]) -> pd.Series:
    """`column` as a plain one; texts in `missing` become NaN, and so do the numbers that they stand for.
    Whole numbers that float64 would not tell apart (`EXACT`) are text.

    Raises TypeError for cells that are neither text, numbers, truth values nor points in time.
    """
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        if types.is_complex_dtype(column.dtype):
            raise TypeError("complex")
        if types.is_integer_dtype(column.dtype) and ((column >= EXACT) | (column <= -EXACT)).any():
            return plain(column.astype("str"), missing)
        numbers = column.astype("Float64").astype(np.float64) if column.hasnans else column.astype(np.float64)
        codes = pd.to_numeric(pd.Series([*missing], dtype="str"), errors="coerce").dropna()
        return numbers.mask(numbers.isin(codes)) if len(codes) else numbers
    if column.dtype == object:
        odd = next((type(v).__name__ for v in column if not _is_cell(v)), None)
        if odd is not None:
            raise TypeError(odd)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.rename_categories(category_labels(column.dtype))
    text = column.astype("str")
    return text.mask(text.isin(list(missing)))


def category_labels(kind: pd.CategoricalDtype) -> list[str]:
    """The categories as text, in their order."""
    return [str(label) for label in as_text(plain(pd.Series(kind.categories), ()))]


def _is_cell(value: object) -> bool:
    return isinstance(value, str | int | float | np.generic) or value is None or value is pd.NA or value is pd.NaT


def as_text(column: pd.Series) -> pd.Series:
    """A plain column as text: whole numbers without a decimal point, other numbers in their shortest form.

    Each cell by itself, so that what a party calls a value does not depend on anyone's other cells.
    """
    if column.dtype != np.float64:
        return column
    whole = whole_cells(column.to_numpy())
    text = column.astype("str")
    text[whole] = column[whole].astype("Int64").astype("str")
    return text


def as_numbers(column: pd.Series) -> NDArray[np.float64]:
    """A plain column as numbers; what does not parse is NaN."""
    numbers: NDArray[np.float64] = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return numbers


def words(column: pd.Series, numbers: NDArray[np.float64] | None = None) -> NDArray[np.bool_]:
    """(rows,) True where a plain column holds text that is not a number; `numbers`: what it parses as, where known."""
    if column.dtype == np.float64:
        return np.zeros(len(column), bool)
    failed = np.isnan(as_numbers(column) if numbers is None else numbers) & column.notna().to_numpy()
    if failed.any():
        failed[failed] = ~column[failed].str.strip().str.lower().isin(list(NOT_A_NUMBER)).to_numpy()
    return failed


def is_code(column: pd.Series) -> bool:
    """Whether a plain text column writes numbers as codes are written: with leading zeros ("01", "02139"), or in so
    many digits that numbers would make one code of two ("9007199254740993" and its neighbour; `EXACT`).
    """
    if column.dtype == np.float64:
        return False
    long = column[column.str.fullmatch(r"\s*[+-]?\d{16,}\s*").to_numpy(bool, na_value=False)]
    return bool(column.str.match(r"\s*[+-]?0\d").any() or not (np.abs(as_numbers(long)) < EXACT).all())


def is_whole(numbers: NDArray[np.float64]) -> bool:
    """Whether all numbers but NaN are whole and small enough to be exact, and there is at least one."""
    present = numbers[~np.isnan(numbers)]
    return bool(present.size) and bool(whole_cells(present).all())


def whole_cells(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True where a number is whole and small enough to be exact; NaN is not."""
    whole: NDArray[np.bool_] = (numbers == np.rint(numbers)) & (np.abs(numbers) < EXACT)
    return whole
