"""The schema of a table of which not everything is declared, by all its rows at once.

Whoever reads a table before it is divided infers its schema so, to check the input and to divide it. No party is told
the outcome: where rows decide, parties agree by messages (`preprocess.agreement`), on the same schema.
"""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.columns import category_labels, is_code, plain_frame, words
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.profile import Kind, distinct_classes, kind_of
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.nouns import plural


def infer_schema(frame: pd.DataFrame, target: str | None = None) -> Schema:
    """The schema of a frame of which only the target is known.

    Text, truth values and categories are categorical (ordered categories declare their order). Numbers are numeric,
    also whole numbers of few distinct values: list those under `categorical` in a schema where they are codes. The
    target is binary with two distinct values, multiclass with text or up to ten whole numbers, else regression; classes
    are sorted, so that "1" comes after "0" and "yes" after "no". Raises DataError for a target that is not there (with
    the nearest name) or constant, and for a column without any value.
    """
    declared = Declared(target=target, orders=category_orders(frame))
    plain = plain_frame(frame, [""], "table")
    return infer(basis_of(declared, plain, "table", typed=True), plain)


def category_orders(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The orders that ordered categorical columns carry."""
    kinds = {str(c): t for c, t in frame.dtypes.items() if isinstance(t, pd.CategoricalDtype) and t.ordered}
    return {column: tuple(category_labels(kind)) for column, kind in kinds.items()}


def basis_of(declared: Declared, frame: pd.DataFrame, source: str, typed: bool) -> Basis:
    """What is known of a plain frame without its rows. `typed`: text is text; else text that parses as numbers is
    numbers, but for codes (`columns.is_code`). `source` is named in errors.
    """
    dtypes = frame.dtypes.items() if typed else ()
    types: dict[str, Kind] = {str(c): "number" if dtype == np.float64 else "text" for c, dtype in dtypes}
    return Basis(declared, tuple(frame.columns), types, source)


def infer(basis: Basis, frame: pd.DataFrame) -> Schema:
    """The schema of a plain frame: what its declaration leaves open, by all its rows.

    Where only one of `categorical` and `numeric` is declared, the other is inferred from the remaining columns and what
    is of neither kind is no feature. Raises DataError for columns that cannot be told.
    """
    kinds = {c: kind_of(frame[c]) for c in basis.asked}
    _refuse_unclear(frame, basis.undeclared, basis, kinds)
    target = frame[basis.target]
    classes = distinct_classes(target, basis.most_classes(kinds)) if basis.classes_are_open else None
    if basis.task_is_open and (classes is None or len(classes) > 2):
        _refuse_unclear(frame, [basis.target], basis, kinds)
    return basis.schema(kinds, classes)


def _refuse_unclear(frame: pd.DataFrame, columns: Collection[str], basis: Basis, kinds: Mapping[str, Kind]) -> None:
    """Raises DataError for an empty column, and for numbers with some text among them."""
    for name in columns:
        if kinds.get(name) in ("whole", "number"):
            continue
        column = frame[name]
        if column.isna().all():
            raise DataError(
                f"{basis.source}: column {name!r} holds nothing; list it under drop in a schema, or remove it"
            )
        if name in basis.types or (kinds.get(name) or kind_of(column)) != "text" or is_code(column):
            continue
        word = words(column)
        if word.sum() < column.notna().sum() / 2:
            raise DataError(
                f"{basis.source}: column {name!r} holds numbers, but text in {plural(int(word.sum()), 'row')} (the "
                f"first is row {word.argmax() + 1}); set data.na_values where the text means missing, data.decimal "
                "where numbers have a comma, or declare in a schema what it is"
            )
