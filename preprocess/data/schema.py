"""What the columns of a table are: target, features, their kinds, orders and bounds."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import isfinite
from typing import Any, get_args

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema_file import Declared, Task
from leakledger.preprocess.data.suggest import closest, listed


@dataclass(frozen=True)
class Schema:
    """The columns of a table. Raises DataError when its parts contradict each other.

    `classes` are the target's values in label order: label k is `classes[k]`, and of two classes the second is the
    positive one; () for regression. `integer` names the numeric features that hold whole numbers, `sensitive` features
    or the target. `orders` has the values of ordinal features, lowest first; `ranges` the declared (low, high) of
    numeric ones, `domains` the declared possible values of categorical ones, held by anybody or not.
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
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_classes()
        for feature, (low, high) in self.ranges.items():
            if not (isfinite(low) and isfinite(high) and low <= high):
                raise DataError(f"schema: the range of {feature!r} is [{low}, {high}]; write [low, high], both finite")
        for column, values in {**self.orders, self.target: self.classes}.items():
            if len(set(values)) < len(values):
                raise DataError(f"schema: the order of {column!r} lists a value twice")
        for column, values in self.domains.items():
            if len(set(values)) < len(values):
                raise DataError(f"schema: the domain of {column!r} lists a value twice")

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
            "domains": (self.domains, self.categorical),
        }
        for key, (names, known) in members.items():
            for name in (n for n in names if n not in known):
                raise DataError(f"schema: {key} names {name!r}, not one of {listed(known)}{closest(name, known)}")

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

    def declaration(self) -> Declared:
        """All of it as a declaration, which leaves nothing open."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return Declared.model_validate({**said, "classes": self.classes or None})

    def to_plain(self) -> dict[str, Any]:
        """Text, numbers, lists and dicts only; `from_plain` reads it."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "domains" or self.domains}
        plain: dict[str, Any] = json.loads(json.dumps(said))
        return plain

    @cached_property
    def in_json(self) -> bytes:
        """`to_plain` with its keys in order; kept, since every party of a partition has the same schema."""
        return json.dumps(self.to_plain(), sort_keys=True).encode()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Schema":
        lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
        tables = {
            key: {c: tuple(v) for c, v in plain[key].items()} for key in ("orders", "ranges", "domains") if key in plain
        }
        return cls(**{**plain, **lists, **tables})
