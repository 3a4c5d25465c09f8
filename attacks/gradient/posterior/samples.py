"""Samples of a posterior: batches of rows, how probable each is, and which chains they are from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.observed.tabular import Array, Rows


@dataclass(frozen=True, eq=False)
class Samples:
    """M batches: `index` (M, B, F) with rows where `present` (M, B), each with its log posterior `fit` (M,), and which
    `ladder` (M,) of chains it is from. Whether their chains `settled`, and the mean `energy` of these. `share`: of all
    samples, those that these are. `guessed`: the noise was worked out of what the best batch leaves, or stands for
    errors of another kind, so wrong rows may count as noise. `witness` (M,): which are of chains that began elsewhere
    than all others; None: no witnesses were called, or were heard.
    """

    index: NDArray[np.int64]
    present: NDArray[np.bool_]
    fit: Array
    ladder: NDArray[np.int64]
    settled: bool
    energy: float = np.nan
    share: float = 1.0
    guessed: bool = False
    witness: NDArray[np.bool_] | None = None

    @property
    def sure(self) -> bool:
        """Whether the samples say how probable a cell is."""
        return self.settled and not self.guessed

    def of_one_size(self) -> "Samples":
        """Those that have the commonest number of rows from one on, without the places that have none. No sample where
        all are without a row.
        """
        sizes = self.present.sum(1)
        size = max(1, int(np.bincount(sizes[sizes > 0], minlength=1).argmax()))
        chosen = sizes == size
        rows = self.index[chosen][self.present[chosen]].reshape(-1, size, self.index.shape[2])
        there = np.ones(rows.shape[:2], bool)
        return replace(
            self,
            index=rows,
            present=there,
            fit=self.fit[chosen],
            ladder=self.ladder[chosen],
            share=float(chosen.mean()),
            witness=None if self.witness is None else self.witness[chosen],
        )


def rows_of(index: NDArray[np.int64], categorical: Sequence[Cell], numeric: Sequence[Cell]) -> Rows:
    """Rows (..., B) with values `index` (..., B, F), numbers in the units of a claim."""
    count = len(categorical)
    numbers = [c.raw[index[..., count + i]] for i, c in enumerate(numeric) if c.raw is not None]
    shape = index.shape[:-1]
    return Rows(index[..., :count], np.stack(numbers, -1) if numbers else np.zeros((*shape, 0)))
