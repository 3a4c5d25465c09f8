"""An update in other columns: the same network with a first layer that reads fewer inputs.

With x = a @ basis^T for every row of the batch, weights W @ basis read a, and the gradient with respect to them is that
of W times the basis.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.candidates.codes import Array
from leakledger.attacks.candidates.meaning import Ints
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import Block, FeatureLayout

Reading = Callable[[RecordsClaim], RecordsClaim]


@dataclass(frozen=True, eq=False)
class RestatedUpdate:
    """An update in other columns; `meant` turns a claim in its layout into what that means."""

    update: ObservedUpdate = field(repr=False)
    meant: Reading = field(repr=False)


class RestatedColumns:
    """The columns of a restated update, block by block: `blocks`, and the matrix (w, n) that leads to each."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.parts: list[tuple[slice | Ints, Array | None]] = []
        self.width = 0

    def add(self, block: Block, old: slice | Ints, basis: Array | None = None) -> None:
        """`block` with its new place; it reads the `old` columns, times `basis` where these are not its own."""
        self.blocks.append(replace(block, start=self.width))
        self.parts.append((old, basis))
        self.width += block.width

    def keep(self, block: Block) -> None:
        """`block` with the columns that it has."""
        self.add(block, slice(block.start, block.start + block.width))

    def of(self, update: ObservedUpdate) -> ObservedUpdate:
        """The update in these columns, and with it those of other rounds that have its rows."""
        layout = FeatureLayout(tuple(self.blocks))
        return replace(self._in(update, layout), repeats=tuple(self._in(r, layout) for r in update.repeats))

    def _in(self, update: ObservedUpdate, layout: FeatureLayout) -> ObservedUpdate:
        weights, gradient = ({**t, "0.weight": self._of(t["0.weight"])} for t in (update.weights, update.gradient))
        gradient["0.weight"] = as_precise(gradient["0.weight"], update)
        model = replace(update.model, inputs=layout.width)
        return replace(update, layout=layout, model=model, weights=weights, gradient=gradient)

    def _of(self, columns: Array) -> Array:
        parts = [columns[:, old] if basis is None else columns[:, old] @ basis for old, basis in self.parts]
        return np.hstack(parts) if parts else columns


def as_precise(changed: Array, update: ObservedUpdate) -> Array:
    """`changed` with no more digits than the update's own gradient has."""
    single = update.roundoff >= float(np.finfo(np.float32).eps)
    return changed.astype(np.float32).astype(np.float64) if single else changed
