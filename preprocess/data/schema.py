"""What the columns of a table are: target, features, their kinds, orders and bounds; what is not said is inferred."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, get_args

import numpy as np
import pandas as pd

from preprocess.data.columns import as_numbers, as_text, category_labels, is_code, is_whole, plain_frame, words
from preprocess.data.errors import DataError
from preprocess.data.schema_file import Declared, Task, find_schema, read_schema
from preprocess.data.suggest import closest

__all__ = ["Declared", "Schema", "Task", "complete", "find_schema", "infer_schema", "read_schema"]

MAX_NUMBERED_CLASSES = 10  # a target with more distinct whole numbers is taken for a quantity


@dataclass(frozen=True)
class Schema:
    """The columns of a table. Raises DataError when its parts contradict each other.

    `classes` are the target's values in label order: label k is `classes[k]`, and of two classes the second is the
    positive one; () for regression. `integer` names the numeric features that hold whole numbers, `sensitive` features
    or the target. `orders` has the values of ordinal features, lowest first; `ranges` the declared (low, high) of
    numeric ones.
    """

    target: str
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    task: Task
    classes: tuple[str, ...]
    sensitive: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_classes()
        for feature, (low, high) in self.ranges.items():
            if not (isfinite(low) and isfinite(high) and low <= high):
                raise DataError(f"schema: the range of {feature!r} is [{low}, {high}]; write [low, high], both finite")
        for column, values in {**self.orders, self.target: self.classes}.items():
            if len(set(values)) < len(values):
                raise DataError(f"schema: the order of {column!r} lists a value twice")

    def _check_columns(self) -> None:
        columns = (*self.features, self.target)
        if not self.features:
            raise DataError("schema: there are no features; list columns under categorical or numeric")
        if twice := [c for i, c in enumerate(columns) if c in columns[:i]]:
            raise DataError(f"schema: {twice[0]!r} is listed twice; a column is categorical, numeric or the target")
        members: dict[str, tuple[Collection[str], Collection[str]]] = {
            "sensitive": (self.sensitive, columns),
            "integer": (self.integer, self.numeric),
            "orders": (self.orders, self.categorical),
            "ranges": (self.ranges, self.numeric),
        }
        for key, (names, known) in members.items():
            for name in (n for n in names if n not in known):
                raise DataError(f"schema: {key} names {name!r}, not one of {', '.join(known)}{closest(name, known)}")

    def _check_classes(self) -> None:
        if self.task not in get_args(Task):
            raise DataError(f"schema: task {self.task!r} is unknown; choose one of {', '.join(get_args(Task))}")
        count = len(self.classes)
        if not {"binary": count == 2, "multiclass": count >= 2, "regression": count == 0}[self.task]:
            wanted = {"binary": "two", "multiclass": "two or more", "regression": "no"}[self.task]
            raise DataError(f"schema: a {self.task} target has {wanted} classes, {self.target!r} has {count}; set task")

    @property
    def features(self) -> tuple[str, ...]:
        """Categorical features, then numeric ones, each in the order declared."""
        return self.categorical + self.numeric

    @property
    def positive_class(self) -> str | None:
        """The second of a binary target's classes; None for any other task."""
        return self.classes[1] if self.task == "binary" else None

    def to_plain(self) -> dict[str, Any]:
        """Text, numbers, lists and dicts only; `from_plain` reads it."""
        plain: dict[str, Any] = json.loads(json.dumps({f.name: getattr(self, f.name) for f in fields(self)}))
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Schema":
        lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
        tables = {key: {c: tuple(v) for c, v in plain[key].items()} for key in ("orders", "ranges")}
        return cls(**{**plain, **lists, **tables})


def infer_schema(frame: pd.DataFrame, target: str | None = None) -> Schema:
    """The schema of a frame of which only the target is known.

    Text, truth values and categories are categorical (ordered categories declare their order). Numbers are numeric,
    also whole numbers of few distinct values: list those under `categorical` in a schema where they are codes. The
    target is binary with two distinct values, multiclass with text or up to ten whole numbers, else regression; classes
    are sorted, so that "1" comes after "0" and "yes" after "no". Raises DataError for a target that is not there (with
    the nearest name) or constant, and for a column without any value.
    """
    declared = Declared(target=target, orders=category_orders(frame))
    return complete(declared, plain_frame(frame, [""], "table"), "table", typed=True)


def category_orders(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The orders that ordered categorical columns carry."""
    kinds = {str(c): t for c, t in frame.dtypes.items() if isinstance(t, pd.CategoricalDtype) and t.ordered}
    return {column: tuple(category_labels(kind)) for column, kind in kinds.items()}


def complete(declared: Declared, frame: pd.DataFrame, source: str, typed: bool) -> Schema:
    """`declared` with what it leaves open inferred from a plain frame (see `infer_schema`).

    Where only one of `categorical` and `numeric` is declared, the other is inferred from the remaining columns and what
    is of neither kind is no feature. `typed`: text is text; else text that parses as numbers is numbers, but for codes
    with leading zeros. `source` is named in errors.
    """
    _check_names(declared, frame, source)
    if declared.target is None:
        raise DataError(f"{source}: no target; name the column to predict, one of {', '.join(frame.columns)}")
    categorical, numeric = _features(declared, frame, source, typed)
    task, classes = _classes(declared, frame[declared.target], source, typed)
    return Schema(
        target=declared.target,
        categorical=categorical,
        numeric=numeric,
        task=task,
        classes=classes,
        sensitive=tuple(c for c in declared.sensitive if c in (*categorical, *numeric, declared.target)),
        integer=tuple(c for c in numeric if is_whole(as_numbers(frame[c]))),
        orders={c: values for c, values in declared.orders.items() if c in categorical},
        ranges={c: bounds for c, bounds in declared.ranges.items() if c in numeric},
    )


def _check_names(declared: Declared, frame: pd.DataFrame, source: str) -> None:
    """Every column that the declaration names is one of the table's."""
    target = () if declared.target is None else (declared.target,)
    used = (*target, *(declared.categorical or ()), *(declared.numeric or ()))
    for name in (*used, *declared.sensitive, *declared.orders, *declared.ranges, *declared.drop):
        if name not in frame:
            raise DataError(
                f"{source}: no column {name!r}{closest(name, frame.columns)}; correct the target or the schema"
            )
    if dropped := [c for c in declared.drop if c in used]:
        raise DataError(f"{source}: {dropped[0]!r} is dropped and used; remove it from drop, or from the features")


def _features(
    declared: Declared, frame: pd.DataFrame, source: str, typed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Categorical and numeric features: those declared, else those found in table order."""
    if declared.categorical is not None and declared.numeric is not None:
        return declared.categorical, declared.numeric
    taken = {declared.target, *declared.drop, *(declared.categorical or ()), *(declared.numeric or ())}
    kinds = {c: _is_numeric(frame[c], source, typed) for c in frame.columns if c not in taken}
    found = {kind: tuple(c for c, is_kind in kinds.items() if is_kind is kind) for kind in (False, True)}
    return (
        found[False] if declared.categorical is None else declared.categorical,
        found[True] if declared.numeric is None else declared.numeric,
    )


def _is_numeric(column: pd.Series, source: str, typed: bool) -> bool:
    """Whether an undeclared column is numeric. Raises DataError for an empty one, and for numbers with some text."""
    if column.isna().all():
        raise DataError(f"{source}: column {column.name!r} holds nothing; list it under drop in a schema, or remove it")
    if column.dtype == np.float64:
        return True
    if typed or is_code(column):
        return False
    word = words(column)
    if word.any() and word.sum() < column.notna().sum() / 2:
        raise DataError(
            f"{source}: column {column.name!r} holds numbers, but text in {word.sum()} rows (the first is row "
            f"{word.argmax() + 1}); declare in a schema what it is, or name the text for missing in na_values"
        )
    return not word.any()


def _classes(declared: Declared, column: pd.Series, source: str, typed: bool) -> tuple[Task, tuple[str, ...]]:
    """The task, and the classes in label order."""
    found = as_text(column.dropna()).unique().tolist()
    if len(found) < 2:
        raise DataError(f"{source}: target {column.name!r} has one value or none; prediction needs two or more")
    task = declared.task or _task(declared, column, found, source, typed)
    if task == "regression":
        return task, ()
    ordered = list(declared.orders.get(str(column.name), ()))
    classes = ordered + sorted(set(found).difference(ordered), key=_numbers_first)
    positive = declared.positive_class
    if positive is None:
        return task, tuple(classes)
    if positive not in classes:
        raise DataError(
            f"{source}: positive_class {positive!r} is no value of target {column.name!r}{closest(positive, classes)}"
        )
    return task, (*(c for c in classes if c != positive), positive)


def _task(declared: Declared, column: pd.Series, found: list[str], source: str, typed: bool) -> Task:
    if len(found) == 2 or declared.positive_class is not None:
        return "binary"
    if str(column.name) in declared.orders or not _is_numeric(column, source, typed):
        return "multiclass"
    few = len(found) <= MAX_NUMBERED_CLASSES and is_whole(as_numbers(column))
    return "multiclass" if few else "regression"


def _numbers_first(label: str) -> tuple[bool, float, str]:
    """Sorts class labels: numbers by value, then text."""
    number = pd.to_numeric(label, errors="coerce")
    return bool(np.isnan(number)), 0.0 if np.isnan(number) else float(number), label
