"""From a plain frame and a schema to a table: every cell checked, missing values treated as asked."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.columns import as_numbers, as_text, whole_cells, words
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.impute import filled
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.nouns import plural

Missing = Literal["error", "drop", "impute", "keep"]
LARGEST = 1e150  # beyond, a square is no float64, and a column with one has no deviation to scale it with


def clean(
    frame: pd.DataFrame, schema: Schema, source: str, name: str, missing: Missing, basis: Basis | None = None
) -> Table:
    """The table of a plain frame. Columns that the schema does not name are kept, as text.

    `missing` in a feature or the target: "error" raises with the counts per column; "drop" leaves the rows out;
    "impute" fills features by this table's own values (`impute`); "keep" leaves them missing, for whoever divides the
    rows to fill at the parties. A target is never filled. `basis` says what of the schema is declared; None: all of it.

    Raises DataError with `source`, row and column for text among numbers, numbers that are not finite or too large
    (`LARGEST`), not whole where the schema says so or out of their declared range, and values that are no class, not in
    their declared order or not in their declared domain.
    """
    if missing not in (choices := get_args(Missing)):
        raise DataError(
            f"missing {missing!r} is unknown{closest(missing, choices)}; choose one of {', '.join(choices)}"
        )
    if absent := [c for c in (*schema.features, schema.target) if c not in frame]:
        raise DataError(f"{source}: no column {absent[0]!r}{closest(absent[0], frame.columns)}, which the schema names")
    numeric = (*schema.numeric, schema.target) if schema.task == "regression" else schema.numeric
    columns = {c: _numbers(frame[c], source) if c in numeric else as_text(frame[c]) for c in frame}
    checked = pd.DataFrame(columns)
    _check_values(checked, schema, source)
    complete = _treat_missing(checked, schema, source, missing)
    table = Table(complete, schema, name, missing in ("impute", "keep"), basis)
    return filled(table) if missing == "impute" else table


def require_variation(tables: Sequence[Table], source: str) -> None:
    """Raises DataError when all rows of all tables have one class, or one target value: nothing could be learned."""
    if len(np.unique(np.concatenate([t.labels() for t in tables]))) < 2:
        target = tables[0].schema.target
        raise DataError(f"{source}: target {target!r} is the same in every row; prediction needs two values or more")


def _numbers(column: pd.Series, source: str) -> pd.Series:
    """A plain column as float64, finite and of a size that has a square, or missing."""
    what = "holds text, not a number; list it under categorical, set data.decimal where it has commas, or repair it"
    _refuse(words(column), column.name, source, what)
    numbers = as_numbers(column)
    infinite = ~np.isfinite(numbers) & column.notna().to_numpy()
    _refuse(infinite, column.name, source, "is not finite; leave the field empty where a value is missing")
    what = (
        f"is beyond {LARGEST:g}, where nothing can be scaled; take another unit, drop the column in a schema, "
        "or leave the field empty where a value is missing"
    )
    _refuse(np.abs(numbers) > LARGEST, column.name, source, what)
    return pd.Series(numbers, name=column.name)


def _check_values(frame: pd.DataFrame, schema: Schema, source: str) -> None:
    for feature in schema.integer:
        fraction = frame[feature].notna().to_numpy() & ~whole_cells(frame[feature].to_numpy(np.float64))
        _refuse(fraction, feature, source, "is no whole number, as the schema has it; repair it, or the schema")
    for feature, (low, high) in schema.ranges.items():
        outside = (frame[feature] < low) | (frame[feature] > high)
        _refuse(outside.to_numpy(), feature, source, f"is outside its declared range [{low:g}, {high:g}]")
    known = {**schema.orders, **({schema.target: schema.classes} if schema.classes else {})}
    for column, values in known.items():
        what = "is none of the declared classes" if column == schema.target else "is not in its declared order"
        _refuse_others(frame[column], values, source, f"{what}; add the value to the schema, or repair it")
    for feature, possible in schema.domains.items():
        what = "is none of its declared values; add it to domains under [data], or in the schema, or repair it"
        _refuse_others(frame[feature], possible, source, what)


def _refuse_others(column: pd.Series, values: Sequence[str], source: str, problem: str) -> None:
    """Raises DataError for the first cell that is there and none of the values."""
    other = column.notna() & ~column.isin(list(values))
    _refuse(other.to_numpy(), column.name, source, problem)


def _refuse(bad: NDArray[np.bool_], column: object, source: str, problem: str) -> None:
    """Raises DataError for the first of the bad rows."""
    if bad.any():
        more = f" (and {plural(int(bad.sum()) - 1, 'more row')})" if bad.sum() > 1 else ""
        raise DataError(f"{source}: row {bad.argmax() + 1}{more}: column {column!r} {problem}")


def _treat_missing(frame: pd.DataFrame, schema: Schema, source: str, missing: Missing) -> pd.DataFrame:
    """The frame with no missing value in the target, and none in a feature unless it is filled later."""
    used = [*schema.features, schema.target]
    counts = {c: int(n) for c, n in frame[used].isna().sum().items() if n}
    if not counts:
        return frame
    if missing == "error":
        listed = ", ".join(f"{c} {n}" for c, n in counts.items())
        raise DataError(
            f"{source}: missing values: {listed} (of {plural(len(frame), 'row')}); set missing to 'drop' or 'impute'"
        )
    if missing == "drop":
        kept = frame.dropna(subset=used).reset_index(drop=True)
        if kept.empty:
            raise DataError(f"{source}: every row misses a value, so none is left; set missing to 'impute'")
        return kept
    if schema.target in counts:
        n = counts[schema.target]
        raise DataError(f"{source}: target {schema.target!r} is missing in {plural(n, 'row')}; set missing to 'drop'")
    return frame
