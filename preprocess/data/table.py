"""A table: checked rows and the schema that says what their columns are."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.columns import as_numbers, as_text
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.nouns import plural


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one party, or of all.

    `frame` has text (dtype `str`) in categorical features and the target's classes, float64 in numeric features and a
    regression's target, none of it missing. Further columns are carried along as text, for partitions by column; they
    are no features. Raises DataError when the frame does not fit the schema. The frame must not be changed afterwards.

    `partial`: features may miss values, which `impute.fill` fills in. `basis` says what of the schema is declared,
    where rows decided the rest; None: all of it. It stays with whoever read the table, it is no part of `to_plain`.
    """

    frame: pd.DataFrame = field(repr=False)
    schema: Schema
    name: str
    partial: bool = False
    basis: Basis | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        text = (*self.schema.categorical, *((self.schema.target,) if self.schema.classes else ()))
        numbers = (*self.schema.numeric, *(() if self.schema.classes else (self.schema.target,)))
        for column, dtype in (*((c, "str") for c in text), *((c, "float64") for c in numbers)):
            if column not in self.frame:
                raise DataError(f"{self.name}: no column {column!r}{closest(column, self.frame.columns)}")
            may_miss = self.partial and column != self.schema.target
            if self.frame[column].dtype != dtype or (self.frame[column].hasnans and not may_miss):
                raise DataError(
                    f"{self.name}: column {column!r} must be complete {dtype}; use read_table to make a table"
                )

    def __len__(self) -> int:
        return len(self.frame)

    def rows(self, index: NDArray[np.int64]) -> "Table":
        """The rows at these positions, in this order, numbered anew. They were checked with the table."""
        return self._with(self.frame.take(index))

    def divided(self, order: NDArray[np.int64], counts: NDArray[np.int64]) -> list["Table"]:
        """The rows at the positions `order` cut into tables of so many rows each, numbered anew: views of one frame."""
        frame, ends = self.frame.take(order), np.cumsum(counts)
        return [self._with(frame.iloc[end - n : end]) for end, n in zip(ends, counts, strict=True)]

    def lent(self) -> "Table":
        """The same rows for code of others: what it changes of them is its own copy (copy on write), and stays there.
        They are what claims are held against.
        """
        return self._with(self.frame.copy(deep=False))

    def _with(self, frame: pd.DataFrame) -> "Table":
        """A table of rows of this one, which were checked with it; the frame is new and gets numbers of its own."""
        frame.index = pd.RangeIndex(len(frame))
        part = copy(self)
        object.__setattr__(part, "frame", frame)
        return part

    def only(self, features: Sequence[str]) -> "Table":
        """The same rows with these features and the target, in this order; what columns are is taken as declared.
        Raises DataError for a feature that the table lacks.
        """
        own = self.schema
        kept = replace(
            own,
            categorical=tuple(c for c in features if c in own.categorical),
            numeric=tuple(c for c in features if c not in own.categorical),
            sensitive=tuple(c for c in own.sensitive if c in (*features, own.target)),
            integer=tuple(c for c in own.integer if c in features),
            orders={c: order for c, order in own.orders.items() if c in features},
            ranges={c: bounds for c, bounds in own.ranges.items() if c in features},
            domains={c: values for c, values in own.domains.items() if c in features},
        )
        return replace(self, frame=self.frame[[*features, own.target]], schema=kept, basis=None)

    def under(self, schema: Schema) -> "Table":
        """The same rows under a schema that parties agreed on: columns as text or numbers, as it says."""
        numeric = (*schema.numeric, *(() if schema.classes else (schema.target,)))
        text = (*schema.categorical, *((schema.target,) if schema.classes else ()))
        numbers = {c: as_numbers(self.frame[c]) for c in numeric if self.frame[c].dtype != np.float64}
        words = {c: as_text(self.frame[c]) for c in text if self.frame[c].dtype == np.float64}
        frame = self.frame.assign(**numbers, **words) if numbers or words else self.frame
        return replace(self, frame=frame, schema=schema, basis=None)

    def labels(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """(n,) positions in the schema's classes, int64; for regression the target itself, float64."""
        column = self.frame[self.schema.target]
        if self.schema.task == "regression":
            return column.to_numpy(np.float64, copy=True)
        codes = pd.Index(self.schema.classes, dtype="str").get_indexer(pd.Index(column)).astype(np.int64)
        if (codes < 0).any():
            raise DataError(f"{self.name}: row {(codes < 0).argmax() + 1}: the target is none of the schema's classes")
        return codes

    def numbers(self) -> NDArray[np.float64]:
        """(n, numeric features) in the schema's order."""
        return self.frame[list(self.schema.numeric)].to_numpy(np.float64, copy=True).reshape(len(self), -1)

    def values(self, feature: str) -> NDArray[np.object_]:
        """(n,) the texts of a categorical feature, the target's classes or a carried column."""
        if feature not in self.frame or self.frame[feature].dtype == np.float64:
            raise DataError(f"{self.name}: no text column {feature!r}{closest(feature, self.frame.columns)}")
        return self.frame[feature].to_numpy(dtype=object)

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the schema and of every cell in order: equal only for equal tables."""
        digest = sha256(b"[%s, %s, %d]" % (self.schema.in_json, _json(list(self.frame.columns)), len(self)))
        for column in self.frame:
            plain = _plain_column(self.frame[column])
            if isinstance(plain, np.ndarray):
                digest.update(b"numbers" + plain.astype("<f8").tobytes())
            else:
                digest.update(_json(plain["values"]) + plain["codes"].astype("<i4").tobytes())
        return digest.hexdigest()

    def to_plain(self) -> dict[str, Any]:
        """Text, lists, dicts and numeric arrays only, so that a table can travel to a process; `from_plain` reads it.

        A text column is its distinct values and the code of each row's value (-1: missing).
        """
        return {
            "name": self.name,
            "partial": self.partial,
            "schema": self.schema.to_plain(),
            "order": list(self.frame.columns),
            "columns": {c: _plain_column(self.frame[c]) for c in self.frame},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Table":
        """The table that `to_plain` described. Raises DataError when the parts do not make one."""
        columns = {c: _from_plain_column(plain["columns"][c], plain["name"]) for c in plain["order"]}
        if len({len(c) for c in columns.values()}) != 1:
            raise DataError(f"{plain['name']}: columns of different lengths do not make a table")
        return cls(pd.DataFrame(columns), Schema.from_plain(plain["schema"]), plain["name"], plain["partial"])

    def split(self, test_fraction: float, rng: np.random.Generator) -> tuple["Table", "Table"]:
        """Training and test rows, drawn at random, each in table order; at least one row on either side.

        For classification every class is divided in that proportion, to within one row. Raises DataError for a fraction
        outside (0, 1) and for a table of one row.
        """
        n = len(self)
        if not 0 < test_fraction < 1:
            raise DataError(f"{self.name}: test fraction {test_fraction} is outside (0, 1)")
        if n < 2:
            raise DataError(f"{self.name}: {plural(n, 'row')} cannot be split into training and test rows")
        held_out = min(max(round(n * test_fraction), 1), n - 1)
        order = rng.permutation(n)
        if self.schema.classes:
            order = order[np.argsort(self.labels()[order], kind="stable")]
        # Evenly spaced positions in an order sorted by class: each class gets its share, rounded up or down.
        steps = (np.arange(n + 1) * held_out + rng.integers(n)) // n
        chosen = order[np.diff(steps) > 0]
        return self.rows(np.setdiff1d(np.arange(n), chosen)), self.rows(np.sort(chosen))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _plain_column(column: pd.Series) -> NDArray[np.float64] | dict[str, Any]:
    if column.dtype == np.float64:
        return column.to_numpy(np.float64, copy=True)
    texts = column.to_numpy(object)  # not factorised: of a few rows, which one of many parties has, that takes as long
    values = sorted({v for v in texts if isinstance(v, str)})
    places = {v: k for k, v in enumerate(values)}
    return {"values": values, "codes": np.fromiter((places.get(v, -1) for v in texts), np.int32, len(texts))}


def _from_plain_column(plain: Any, name: str) -> pd.Series:
    if isinstance(plain, np.ndarray):
        return pd.Series(plain.astype(np.float64))
    codes = np.asarray(plain["codes"])
    if codes.size and not (codes.min() >= -1 and codes.max() < len(plain["values"])):
        raise DataError(f"{name}: a code of a text column stands for no value")
    values = np.array([*plain["values"], None], dtype=object)
    return pd.Series(values[codes], dtype="str")
