"""The adversary's own figures, from its own table: what it takes off a sum, and where its prior comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import StatisticClaim
from leakledger.preprocess.messages import Payload
from leakledger.preprocess.views import FeatureLayout, Message, View

Floats = NDArray[np.float64]


class Unreadable(ValueError):
    """An observer's own input is missing or is no table; the text says which."""


class NoTable(Unreadable):
    """An observer's own input is missing."""


@dataclass(frozen=True)
class OwnTable:
    """One observer's rows: `columns` of numbers (n,) by feature, `texts` by categorical feature: its values, and the
    number of each row's (n,), below 0 where it is missing.
    """

    rows: int
    columns: Mapping[str, Floats] = field(repr=False)
    texts: Mapping[str, tuple[tuple[str, ...], NDArray[np.int64]]] = field(repr=False)

    def column(self, feature: str, value: str = "") -> Floats:
        """(n,) the numbers of a feature, or membership of one value. Raises Unreadable for a feature that it lacks."""
        try:
            return self.columns[feature] if not value else self._members(feature, value)
        except KeyError:
            raise Unreadable(f"the observer's own table has no column {feature!r}") from None

    def values(self, feature: str) -> frozenset[str]:
        """The distinct values of a categorical feature. Raises Unreadable for one that the table lacks."""
        if feature not in self.texts:
            raise Unreadable(f"the observer's own table has no column {feature!r}")
        values, numbers = self.texts[feature]
        return frozenset(values[i] for i in np.unique(numbers[numbers >= 0]))

    @cached_property
    def figures(self) -> dict[Any, Floats]:
        """What was worked out of this table, by what it is: several steps need the same figures."""
        return {}

    @cached_property
    def steps(self) -> dict[Any, int]:
        """The same of what is shared over a ring, in steps of its grid."""
        return {}

    def _members(self, feature: str, value: str) -> Floats:
        values, numbers = self.texts[feature]
        place = values.index(value) if value in values else len(values)
        members: Floats = (numbers == place).astype(np.float64)
        return members


def latest_before(view: View, kind: type[Payload], number: int) -> Message | None:
    """The last readable message of a kind before message `number`: what that one answers."""
    before = [m for m in view.readable(kind) if m.sequence < number]
    return before[-1] if before else None


def the_one_outside(view: View) -> str | None:
    """The only client that does not observe; None where there are more, or none."""
    outside = [c for c in view.public.clients if c not in view.observers]
    return outside[0] if len(outside) == 1 else None


def rows_of_the_last(party: str, tables: Mapping[str, OwnTable], total: Message) -> StatisticClaim:
    """Exactly how many rows it has, when a message tells how many (`count`) all clients have."""
    left = total.payload.count - sum(t.rows for t in tables.values())
    return StatisticClaim(party, "", "count", left, left, left, (total.sequence,))


def own_tables(view: View) -> dict[str, OwnTable]:
    """The table of each observer that is a client. Raises NoTable for one that is missing, Unreadable for one of
    another form.
    """
    clients = [c for c in view.public.clients if c in view.observers]
    if missing := [c for c in clients if c not in view.inputs]:
        raise NoTable(f"the view holds no table of its own observer {missing[0]}")
    return {c: _read(c, view.inputs[c]) for c in clients}


def _read(client: str, plain: Any) -> OwnTable:
    """The table. Raises Unreadable without quoting what is in it: an error of NumPy names the value."""
    try:
        table = _columns(plain)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, OverflowError):
        raise Unreadable(
            f"the own input of {client} is no table: `columns` has for each feature an array of numbers, or `values` "
            "and `codes`, as many for all"
        ) from None
    if any((numbers >= len(values)).any() for values, numbers in table.texts.values()):
        raise Unreadable(f"the own input of {client} is no table: a code is the number of no value")
    return table


def _columns(plain: Any) -> OwnTable:
    columns, texts = {}, {}
    for name, column in plain["columns"].items():
        if isinstance(column, np.ndarray):
            columns[name] = np.asarray(column, np.float64)
        else:
            values, numbers = tuple(str(v) for v in column["values"]), np.asarray(column["codes"], np.int64)
            texts[name] = values, numbers
    lengths = {*(len(c) for c in columns.values()), *(len(numbers) for _, numbers in texts.values())}
    if len(lengths) != 1:
        raise ValueError("columns differ in length")
    return OwnTable(lengths.pop(), columns, texts)


def integer_features(layout: FeatureLayout | None) -> frozenset[str]:
    """The numeric features whose values are whole numbers: their sums are whole too."""
    return frozenset(b.feature for b in layout.numeric if b.integer) if layout else frozenset()
