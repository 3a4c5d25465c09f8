"""Divides the columns of one table among parties that all hold the same rows: a vertical partition."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.parties import RESERVED, numbered
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.nouns import plural

SERVER = "server"  # may hold the labels, and no column


def check_columns(columns: Mapping[str, Sequence[str]], labels: str | None) -> None:
    """Raises ValueError for fewer than two parties, names that cannot be, a party without columns, a column that two
    hold, and `labels` at nobody.
    """
    if len(columns) < 2:
        raise ValueError(f"columns: a federation needs at least two parties, got {len(columns)}")
    for party, own in columns.items():
        if party in RESERVED or not re.fullmatch(r"[\w.-]+", party):
            raise ValueError(f"columns: {party!r} cannot be a party's name; use letters, digits, '_', '.' and '-'")
        if not own:
            raise ValueError(f"columns: {party} holds none; every party of a vertical partition needs one")
    every = [c for own in columns.values() for c in own]
    if twice := [c for i, c in enumerate(every) if c in every[:i]]:
        raise ValueError(f"columns: {twice[0]!r} is listed twice; a column is held by one party")
    if labels not in (None, SERVER, *columns):
        raise ValueError(f"labels: {labels!r} is no party; choose one of {', '.join([*columns, SERVER])}")


def columns_of_parties(
    table: Table, parties: int, columns: Mapping[str, Sequence[str]] | None = None
) -> dict[str, tuple[str, ...]]:
    """Party -> the numeric columns that it holds: as given, or all of them dealt out in order, evenly to within one.

    Raises DataError for a target without classes, a column that is no numeric feature, and fewer columns than parties.
    """
    schema = table.schema
    if schema.task == "regression":
        raise DataError(f"{table.name}: target {schema.target!r} is a number; features are judged by classes")
    for party, own in (columns or {}).items():
        for c in own:
            if c in schema.categorical:
                raise DataError(
                    f"{table.name}: {party} holds {c!r}, which is categorical; features are made of numbers"
                )
            if c not in schema.numeric:
                known = closest(c, schema.numeric)
                raise DataError(f"{table.name}: {party} holds {c!r}, which is no numeric feature of the table{known}")
    if columns is not None:
        return {p: tuple(own) for p, own in columns.items()}
    if len(schema.numeric) < parties:
        raise DataError(
            f"{table.name}: {plural(len(schema.numeric), 'numeric column')} cannot be dealt out to {parties} parties; "
            "use fewer parties"
        )
    dealt = np.array_split(np.arange(len(schema.numeric)), parties)
    return {p: tuple(schema.numeric[k] for k in own) for p, own in zip(numbered(parties), dealt, strict=True)}
