"""The adversary's own figures, from its own table: what it takes off a sum, and where its prior comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from preprocess.views import FeatureLayout, View

Floats = NDArray[np.float64]


class Unreadable(ValueError):
    """An observer's own input is missing or is no table; the text says which."""


@dataclass(frozen=True)
class OwnTable:
    """One observer's rows: `columns` of numbers (n,) by feature, `texts` (n,) of values by categorical feature."""

    rows: int
    columns: Mapping[str, Floats] = field(repr=False)
    texts: Mapping[str, NDArray[np.object_]] = field(repr=False)

    def column(self, feature: str, value: str = "") -> Floats:
        """(n,) the numbers of a feature, or membership of one value. Raises Unreadable for a feature that it lacks."""
        try:
            return self.columns[feature] if not value else (self.texts[feature] == value).astype(np.float64)
        except KeyError:
            raise Unreadable(f"the observer's own table has no column {feature!r}") from None

    def values(self, feature: str) -> frozenset[str]:
        """The distinct values of a categorical feature. Raises Unreadable for one that the table lacks."""
        if feature not in self.texts:
            raise Unreadable(f"the observer's own table has no column {feature!r}")
        return frozenset(v for v in self.texts[feature] if v is not None)


def own_tables(view: View) -> dict[str, OwnTable]:
    """The table of each observer that is a client. Raises Unreadable for one that is missing or has another form."""
    clients = [c for c in view.public.clients if c in view.observers]
    if missing := [c for c in clients if c not in view.inputs]:
        raise Unreadable(f"the view holds no table of its own observer {missing[0]}")
    try:
        return {c: _read(view.inputs[c]) for c in clients}
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise Unreadable(f"an observer's own input is no table of columns ({type(error).__name__}: {error})") from None


def _read(plain: Mapping[str, Any]) -> OwnTable:
    columns, texts = {}, {}
    for name, column in plain["columns"].items():
        if isinstance(column, np.ndarray):
            columns[name] = np.asarray(column, np.float64)
        else:
            values = np.array([*column["values"], None], dtype=object)
            texts[name] = values[np.asarray(column["codes"], np.int64)]
    lengths = {len(c) for c in (*columns.values(), *texts.values())}
    if len(lengths) != 1:
        raise ValueError(f"columns of {sorted(lengths)} rows")
    return OwnTable(lengths.pop(), columns, texts)


def integer_features(layout: FeatureLayout | None) -> frozenset[str]:
    """The numeric features whose values are whole numbers: their sums are whole too."""
    return frozenset(b.feature for b in layout.numeric if b.integer) if layout else frozenset()
