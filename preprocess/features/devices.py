"""What the parties of vertical feature engineering hold: other columns of the same records, and one of them labels.

Records are aligned when every party has the same ids in the same order. Nobody puts them in order here: ids are
compared by digest, and parties that differ are an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from leakledger.preprocess.features.sketch import Column, Labels
from leakledger.preprocess.messages import RecordOrder
from leakledger.preprocess.wire import encode


@dataclass(frozen=True)
class DeviceColumns:
    """One device's part: `ids` of its records, and its columns (n,) by feature."""

    ids: tuple[str, ...]
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        check_ids(self.ids)
        for name, column in self.columns.items():
            if np.shape(column) != (len(self.ids),):
                raise ValueError(
                    f"{name} has shape {np.shape(column)}, not one value for each of {len(self.ids)} records"
                )

    def to_plain(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "columns": dict(self.columns)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "DeviceColumns":
        return cls(tuple(plain["ids"]), plain["columns"])


@dataclass(frozen=True)
class LabelColumn:
    """The class number (n,) of each record, with the ids of the records."""

    ids: tuple[str, ...]
    labels: Labels

    def __post_init__(self) -> None:
        check_ids(self.ids)
        if np.shape(self.labels) != (len(self.ids),):
            raise ValueError(f"labels have shape {np.shape(self.labels)}, not one for each of {len(self.ids)} records")

    def to_plain(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "labels": self.labels}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "LabelColumn":
        return cls(tuple(plain["ids"]), plain["labels"])


def check_ids(ids: Sequence[str]) -> None:
    """Raises ValueError for no records, and for an id that two of them have."""
    if not ids:
        raise ValueError("there are no records")
    if len(set(ids)) < len(ids):
        raise ValueError(f"{len(ids) - len(set(ids))} record ids occur twice; every record needs an id of its own")


def record_order(held: DeviceColumns | LabelColumn) -> RecordOrder:
    return RecordOrder(len(held.ids), sha256(encode(list(held.ids))).digest())


def check_aligned(names: Sequence[str], *orders: RecordOrder) -> None:
    """Raises ValueError, naming the party, where records are not those of the first in the same order."""
    first = orders[0]
    for name, order in zip(names, orders, strict=True):
        if order.records != first.records:
            raise ValueError(f"{name} holds {order.records} records and {names[0]} {first.records}; align them by id")
        if order.digest != first.digest:
            raise ValueError(f"{name} holds other records than {names[0]}, or in another order; align them by id")
