"""Imputation from a party's own rows: what takes the place of a feature's missing values, and putting it there.

Numeric features take the lower median, a value that occurs; categorical ones the most frequent value, and of several
the first in sorted order. Values are found on training rows and filled into training and held-out rows alike. A target
is never filled.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.table import Table

Filling = Mapping[str, float | str]


def filling_of(table: Table) -> dict[str, float | str]:
    """What takes the place of missing values, by feature; a feature without any value has no entry."""
    present = {c: table.frame[c].dropna() for c in table.schema.features}
    return {c: _typical(column) for c, column in present.items() if not column.empty}


def fill(table: Table, filling: Filling) -> Table:
    """The table with no value missing. Raises DataError for a feature that misses values and has no filling."""
    lacking = [c for c in table.schema.features if table.frame[c].hasnans]
    if helpless := [c for c in lacking if c not in filling]:
        raise DataError(
            f"{table.name}: column {helpless[0]!r} holds nothing to impute from; list it under drop in a schema"
        )
    frame = table.frame.fillna({c: filling[c] for c in lacking}) if lacking else table.frame
    return replace(table, frame=frame, partial=False)


def filled(table: Table) -> Table:
    """A table whose missing values are filled from its own rows; the table itself where it may miss none."""
    return fill(table, filling_of(table)) if table.partial else table


def _typical(present: pd.Series) -> float | str:
    if present.dtype == np.float64:
        return float(present.quantile(interpolation="lower"))
    return str(present.mode().iloc[0])
