"""What one party's rows say about its columns: the facts that parties tell each other where nothing is declared.

Profiles join: the profile of several parties' rows together follows from theirs, whatever the division. So the schema
that parties agree on by messages (`preprocess.agreement`) is that of all their rows.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from leakledger.preprocess.data.columns import as_numbers, as_text, is_code, is_whole, words

Kind = Literal["empty", "whole", "number", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # each holds for rows of those before it


def kind_of(column: pd.Series) -> Kind:
    """What a plain column holds: nothing, whole numbers, numbers, or text that is not all numbers.

    Numbers that are written as codes are (`is_code`), with leading zeros or in more digits than a number has, are text.
    """
    if column.isna().all():
        return "empty"
    if is_code(column):
        return "text"
    numbers = as_numbers(column)
    if column.dtype != np.float64 and words(column, numbers).any():
        return "text"
    return "whole" if is_whole(numbers) else "number"


def join_kinds(kinds: Iterable[Kind]) -> Kind:
    """The kind of a column whose pieces have these kinds."""
    return KINDS[max((KINDS.index(k) for k in kinds), default=0)]


def distinct_classes(column: pd.Series, most: int | None) -> list[str] | None:
    """The distinct values of a target, sorted as text; None for more than `most` (no limit: None)."""
    found = sorted(as_text(column.dropna()).unique().tolist())
    return None if most is not None and len(found) > most else found


def join_classes(parts: Sequence[Sequence[str] | None], most: int | None) -> list[str] | None:
    """The distinct values of a target whose pieces have these; None where that is more than `most`."""
    known = [part for part in parts if part is not None]
    found = sorted(set().union(*known))
    return None if len(known) < len(parts) or (most is not None and len(found) > most) else found
