"""What observers know from their own rows: which values they hold, and how often."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from preprocess.views import View

Counts = dict[str, Counter[str]]  # feature -> value -> rows


def own_counts(view: View) -> dict[str, Counts]:
    """Observer -> its counts, for the observers whose own table is in the view as `Table.to_plain` has it."""
    found = {}
    for party, plain in view.inputs.items():
        columns = plain.get("columns") if isinstance(plain, Mapping) else None
        if isinstance(columns, Mapping):
            found[party] = {f: _counts(c) for f, c in columns.items() if isinstance(c, Mapping)}
    return found


def _counts(column: Mapping[str, object]) -> Counter[str]:
    values, codes = column["values"], np.asarray(column["codes"])
    assert isinstance(values, list)
    held = np.bincount(codes[codes >= 0], minlength=len(values))
    return Counter({str(v): int(n) for v, n in zip(values, held, strict=True) if n})


def together(own: Mapping[str, Counts]) -> Counts:
    """The counts of all observers, added up."""
    pooled: Counts = {}
    for counts in own.values():
        for feature, held in counts.items():
            pooled.setdefault(feature, Counter()).update(held)
    return pooled


def pooled_counts(own: Mapping[str, Counts]) -> dict[str, NDArray[np.int64]]:
    """Feature -> (values,) in how many of the observers' rows each of their values occurs."""
    return {f: np.array(sorted(held.values()), np.int64) for f, held in together(own).items()}
