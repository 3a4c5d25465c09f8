"""What everyone knows of a table before its rows are looked at, and the schema that follows once they have been.

What is declared (a configuration, a schema file, the header, the column types of a typed source) is public input. What
is not declared, rows must say (`profile`): `Basis` names what is asked of them, and builds the schema of the answers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.profile import Kind
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared, Task
from leakledger.preprocess.data.suggest import closest, listed

MAX_NUMBERED_CLASSES = 10  # a target with more distinct whole numbers is taken for a quantity


@dataclass(frozen=True)
class Basis:
    """What everyone knows of a table before its rows are looked at.

    The declaration, the names of the columns in order, and `types`, "text" or "number" by column, of a source that has
    types ({} for CSV, whose cells are all text). Raises DataError for a declaration that does not fit the columns.
    """

    declared: Declared
    columns: tuple[str, ...]
    types: Mapping[str, Kind] = field(default_factory=dict)
    source: str = "table"  # named in errors

    def __post_init__(self) -> None:
        d = self.declared
        target = () if d.target is None else (d.target,)
        used = (*target, *(d.categorical or ()), *(d.numeric or ()))
        bounded = (*d.orders, *d.ranges, *d.domains)
        for name in (*used, *(d.integer or ()), *d.sensitive, *bounded, *d.drop, *d.carried):
            if name not in self.columns:
                near = closest(name, self.columns)
                where = "partition's column or `carried`" if name in d.carried else "target or the schema"
                raise DataError(f"{self.source}: no column {name!r}{near}; correct the {where}")
        for key, names in {"drop": d.drop, "carried": d.carried}.items():
            if both := [c for c in names if c in used]:
                raise DataError(f"{self.source}: {both[0]!r} is in {key} and used; remove it there, or as a feature")
        if d.target is None:
            raise DataError(f"{self.source}: no target; name the column to predict, one of {listed(self.columns)}")

    @property
    def target(self) -> str:
        return str(self.declared.target)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Columns that are declared neither categorical nor numeric, nor anything else: () where both are declared."""
        d = self.declared
        if d.categorical is not None and d.numeric is not None:
            return ()
        taken = {d.target, *d.drop, *d.carried, *(d.categorical or ()), *(d.numeric or ())}
        return tuple(c for c in self.columns if c not in taken)

    @property
    def task_is_open(self) -> bool:
        d = self.declared
        said = (d.task, d.positive_class, d.classes, d.orders.get(self.target))
        return all(s is None for s in said) and self.types.get(self.target) != "text"

    @property
    def classes_are_open(self) -> bool:
        return self.declared.classes is None and self.declared.task != "regression"

    @property
    def asked(self) -> tuple[str, ...]:
        """Columns of which the rows must say what they hold."""
        kinds = {c for c in self.undeclared if c not in self.types}
        whole: set[str] = set()
        if self.declared.integer is None:
            typed = () if self.declared.numeric is not None else self.undeclared
            whole = {*(self.declared.numeric or ()), *(c for c in typed if self.types.get(c) == "number")}
        target = {self.target} if self.task_is_open else set()
        return tuple(c for c in self.columns if c in kinds | whole | target)

    @property
    def negotiated(self) -> tuple[str, ...]:
        """The facts of the schema that follow from rows: what parties have to agree on by messages."""
        facts = {
            "kinds": any(c not in self.types for c in self.undeclared),
            "integer": self.declared.integer is None and bool(set(self.asked) - {self.target}),
            "task": self.task_is_open,
            "classes": self.classes_are_open,
        }
        return tuple(name for name, is_open in facts.items() if is_open)

    def most_classes(self, kinds: Mapping[str, Kind]) -> int | None:
        """How many distinct values of the target are listed at most; None (no limit) where it surely has classes.

        A target of numbers with more values is a quantity, whose values nobody needs to know.
        """
        return MAX_NUMBERED_CLASSES if self.task_is_open and kinds[self.target] != "text" else None

    def schema(self, kinds: Mapping[str, Kind], classes: Sequence[str] | None) -> Schema:
        """The schema, by the kinds of the columns in `asked` and the target's classes where they are open.

        Raises DataError where these contradict the declaration, or each other.
        """
        d = self.declared
        categorical, numeric = self._features(kinds)
        self._check_bounds(categorical, numeric)
        task, labels = self._labels(kinds, classes)
        integer = tuple(c for c in numeric if kinds.get(c) == "whole") if d.integer is None else d.integer
        return Schema(
            target=self.target,
            categorical=categorical,
            numeric=numeric,
            task=task,
            classes=labels,
            sensitive=tuple(c for c in d.sensitive if c in (*categorical, *numeric, d.target)),
            integer=integer,
            orders={c: values for c, values in d.orders.items() if c in categorical},
            ranges={c: bounds for c, bounds in d.ranges.items() if c in numeric},
            domains={c: values for c, values in d.domains.items() if c in categorical},
        )

    def _check_bounds(self, categorical: Sequence[str], numeric: Sequence[str]) -> None:
        """Raises DataError where a range, a domain or an order is of a column that has none: it would do nothing."""
        d = self.declared
        numbers = "numeric; list it under categorical in the schema, or give its range instead"
        text = "categorical; list it under numeric in the schema, or take it out"
        no_domain = {self.target: "the target, whose values are its classes; take it out"}
        no_range = {self.target: "the target, which is not scaled; take it out"}
        refused: dict[str, tuple[Collection[str], dict[str, str]]] = {
            "domains": (d.domains, no_domain | dict.fromkeys(numeric, numbers)),
            "orders": (d.orders, dict.fromkeys(numeric, numbers)),  # of the target it is that of its classes
            "ranges": (d.ranges, no_range | dict.fromkeys(categorical, text)),
        }
        for key, (names, why) in refused.items():
            if odd := [c for c in names if c in why]:
                raise DataError(f"{self.source}: {key} names {odd[0]!r}, which is {why[odd[0]]}")

    def _features(self, kinds: Mapping[str, Kind]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Categorical and numeric features: those declared, else those found, in the order of the columns."""
        found = {c: self.types.get(c) or kinds[c] for c in self.undeclared}
        if empty := [c for c, kind in found.items() if kind == "empty"]:
            raise DataError(
                f"{self.source}: column {empty[0]!r} holds nothing; list it under drop in a schema, or remove it"
            )
        text = tuple(c for c, kind in found.items() if kind == "text")
        numbers = tuple(c for c, kind in found.items() if kind != "text")
        d = self.declared
        return text if d.categorical is None else d.categorical, numbers if d.numeric is None else d.numeric

    def _labels(self, kinds: Mapping[str, Kind], classes: Sequence[str] | None) -> tuple[Task, tuple[str, ...]]:
        """The task, and the classes in label order."""
        d = self.declared
        if d.task == "regression":
            return d.task, d.classes or ()
        if d.classes is None and classes is not None and len(classes) < 2:
            raise DataError(f"{self.source}: target {d.target!r} has one value or none; prediction needs two or more")
        known = classes if d.classes is None else d.classes
        task = d.task or self._task(kinds, known)
        if known is None or task == "regression":
            return "regression", ()
        ordered = list(d.orders.get(self.target, ()))
        others = [c for c in known if c not in ordered]
        return task, self._positive_last(
            ordered + (sorted(others, key=_numbers_first) if d.classes is None else others)
        )

    def _positive_last(self, classes: list[str]) -> tuple[str, ...]:
        positive = self.declared.positive_class
        if positive is None:
            return tuple(classes)
        if positive not in classes:
            near = closest(positive, classes)
            raise DataError(f"{self.source}: positive_class {positive!r} is no value of target {self.target!r}{near}")
        return (*(c for c in classes if c != positive), positive)

    def _task(self, kinds: Mapping[str, Kind], classes: Sequence[str] | None) -> Task:
        if (classes is not None and len(classes) == 2) or self.declared.positive_class is not None:
            return "binary"
        if not self.task_is_open or kinds[self.target] == "text":
            return "multiclass"
        few = classes is not None and len(classes) <= MAX_NUMBERED_CLASSES and kinds[self.target] == "whole"
        return "multiclass" if few else "regression"


def _numbers_first(label: str) -> tuple[bool, float, str]:
    """Sorts class labels: numbers by value, then text."""
    number = pd.to_numeric(label, errors="coerce")
    return bool(np.isnan(number)), 0.0 if np.isnan(number) else float(number), label
