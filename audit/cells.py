"""Rows cell by cell, in the terms that claims about records use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.views import FeatureLayout

TOLERANCE = 0.319  # of a standard deviation: TabLeak, appendix A


@dataclass(frozen=True)
class Cells:
    """Rows cell by cell: `categories` (n, K) candidate numbers, `numbers` (n, L) in the units of a `RecordsClaim`.

    `sources` (L,) are numbers of the features behind the numeric columns; empty where each column is one.
    """

    categories: NDArray[np.int64]
    numbers: NDArray[np.float64]
    sources: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.categories)

    def take(self, rows: NDArray[np.int64]) -> "Cells":
        return Cells(self.categories[rows], self.numbers[rows], self.sources)


def joined(parts: Sequence[Cells]) -> Cells:
    """The rows of all parts, which have the same columns, in order."""
    categories, numbers = (np.vstack([getattr(p, name) for p in parts]) for name in ("categories", "numbers"))
    return Cells(categories, numbers, parts[0].sources)


def cells(layout: FeatureLayout, data: Encoded) -> Cells:
    """The cells of a party's rows: the candidates as the party encoded them, since columns alone need not tell them.

    Raises ValueError for rows that come from no table.
    """
    if data.candidates is None:
        raise ValueError(f"{len(data)} encoded rows without the candidates that they stand for have no true cells")
    return Cells(data.candidates, unscaled(layout, data.rows))


def unscaled(layout: FeatureLayout, rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """(n, L) the numbers of encoded rows (n, width), unscaled where the scaling is public."""
    numbers = np.array(rows[:, [b.start for b in layout.numeric]], np.float64)
    for k, number in enumerate(layout.numeric):
        numbers[:, k] = number.raw(numbers[:, k])
        if number.scaled and number.integer:
            numbers[:, k] = numbers[:, k].round()  # undoes the float32 rounding of the encoded column
    return numbers
