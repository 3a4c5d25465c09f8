"""A target in other columns: the same network with a first layer that reads fewer inputs.

With x = a @ basis^T for every row of the batch, weights W @ basis read a, and the gradient with respect to them is that
of W times the basis.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from attacks.base import RecordsClaim
from attacks.candidates.codes import Array
from attacks.candidates.meaning import Ints
from attacks.tableak.targets import Target
from preprocess.views import Block, FeatureLayout, View

Told = Callable[[RecordsClaim], RecordsClaim]


@dataclass(frozen=True, eq=False)
class Problem:
    """A target with the view whose layout and model it has; `told` turns a claim in that layout into what it means."""

    view: View
    target: Target = field(repr=False)
    told: Told = field(repr=False)


class Columns:
    """The columns of a restated target, block by block: `blocks`, and the matrix (w, n) that leads to each."""

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

    def of(self, view: View, target: Target) -> tuple[View, Target]:
        """View and target in these columns."""
        spec, layout = view.public.model, FeatureLayout(tuple(self.blocks))
        assert spec is not None  # find_targets refuses a view without
        weights, gradient = ({**t, "0.weight": self._of(t["0.weight"])} for t in (target.weights, target.gradient))
        gradient["0.weight"] = as_precise(gradient["0.weight"], target.gradient["0.weight"])
        public = replace(view.public, layout=layout, model=replace(spec, inputs=layout.width))
        return replace(view, public=public), replace(target, weights=weights, gradient=gradient)

    def _of(self, columns: Array) -> Array:
        parts = [columns[:, old] if basis is None else columns[:, old] @ basis for old, basis in self.parts]
        return np.hstack(parts) if parts else columns


def as_precise(changed: Array, observed: Array) -> Array:
    """`changed` with no more digits than the `observed` gradient has, by which attacks tell rounding from rank."""
    single = np.array_equal(observed, observed.astype(np.float32))
    return changed.astype(np.float32).astype(np.float64) if single else changed
