"""What observers know from their own rows: which values they hold, and how often."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import View

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
    values, codes = column["values"], np.asarray(column["codes"], np.int64)
    assert isinstance(values, list)
    return Counter(_tallied(tuple(values), codes.tobytes()))


@lru_cache(1 << 12)
def _tallied(values: tuple[object, ...], codes: bytes) -> Mapping[str, int]:
    """How often each value occurs; kept by content, since coalitions share members and attacks share views."""
    held = np.frombuffer(codes, np.int64)
    times = np.bincount(held[held >= 0], minlength=len(values))
    return MappingProxyType({str(v): int(n) for v, n in zip(values, times, strict=True) if n})


def together(own: Mapping[str, Counts]) -> Counts:
    """The counts of all observers, added up."""
    pooled: Counts = {}
    for counts in own.values():
        for feature, held in counts.items():
            pooled.setdefault(feature, Counter()).update(held)
    return pooled


def pooled_counts(own: Mapping[str, Counts]) -> dict[str, NDArray[np.int64]]:
    """Feature -> (values,) in how many of the observers' rows each of their values occurs."""
    return {f: np.sort(np.fromiter(held.values(), np.int64, len(held))) for f, held in together(own).items()}
