"""Small tables and federations for tests."""

from collections.abc import Mapping, Sequence
from types import FunctionType

import numpy as np
import pandas as pd

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated

SCHEMA = Schema(
    target="ill",
    categorical=("ward", "diet"),
    numeric=("age", "dose"),
    task="binary",
    classes=("no", "yes"),
    integer=("age",),
)
WARDS = ("cardiology", "oncology", "surgery", "paediatrics", "urology")
DIETS = ("full", "light", "none")


def table(rows: int = 40, seed: int = 0, wards: Sequence[str] = WARDS) -> Table:
    """A table whose target depends on its features."""
    coins = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "ward": coins.choice(wards, rows),
            "diet": coins.choice(DIETS, rows),
            "age": coins.integers(0, 99, rows).astype(float),
            "dose": coins.normal(3, 2, rows).round(2),
        }
    )
    chance = frame["age"] / 99 + (frame["ward"] == "oncology") * 0.5 - 0.3
    frame["ill"] = np.where(coins.random(rows) < chance, "yes", "no")
    frame.loc[0, "ill"], frame.loc[1, "ill"] = "yes", "no"
    return Table(frame.astype({"ward": "str", "diet": "str", "ill": "str"}), SCHEMA, "example")


def cut(whole: Table, parts: Sequence[Sequence[int]]) -> dict[str, Table]:
    """The table cut into parties P1, P2, ... by row numbers."""
    return {f"P{i + 1}": whole.rows(np.asarray(rows)) for i, rows in enumerate(parts)}


def simulated(tables: Mapping[str, Table], seed: int = 0) -> tuple[Simulated, dict[str, At[Table]]]:
    fed = Simulated(list(tables), secret=pinned(seed))
    return fed, located(fed, tables)


def located(fed: Federation, tables: Mapping[str, Table]) -> dict[str, At[Table]]:
    return {p: fed.at(p, t) for p, t in tables.items()}


def of_this_package(function):
    """The function as if it stood in a module of this package."""
    return FunctionType(function.__code__, {**function.__globals__, "__name__": "leakledger.made_up"})
