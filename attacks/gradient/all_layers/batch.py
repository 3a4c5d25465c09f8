"""A batch, or what is left of it, with the spaces of all layers, and rows that are found in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.all_layers.labels import Counts
from leakledger.attacks.gradient.all_layers.layers import Layer, layers_of
from leakledger.attacks.gradient.all_layers.spaces import Spaces
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.observed.affine import Weights
from leakledger.attacks.observed.update import ObservedUpdate


@dataclass(frozen=True, eq=False)
class Remaining:
    """What is left of a batch of `batch` rows: the `gradient` of `rows` of them, and its spaces."""

    update: ObservedUpdate
    gradient: Weights = field(repr=False)
    rows: int
    spaces: Spaces

    @property
    def rank(self) -> int:
        return self.spaces.rank


@dataclass(frozen=True, eq=False)
class FoundRows:
    """Rows (n,) and how often each occurs with each label (n, C)."""

    rows: EncodedRows
    counts: Counts = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "FoundRows":
        return FoundRows(self.rows.where(chosen), self.counts[chosen])

    def plus(self, other: "FoundRows") -> "FoundRows":
        return FoundRows(self.rows.plus(other.rows), np.concatenate([self.counts, other.counts]))


def remaining(
    update: ObservedUpdate,
    gradient: Weights,
    rows: int,
    ranks: Sequence[int],
    like: Sequence[Layer] = (),
    subtracted: Sequence[float] = (),
) -> Remaining | str:
    """What is left of a batch, the rank of each layer at most that in `ranks`, or why noise hides it."""
    layers = layers_of(update.weights, gradient, ranks, update.roundoff, like, subtracted, update.noise)
    if isinstance(layers, str):
        return layers
    return Remaining(update, gradient, rows, Spaces(update.weights, update.model.activation, layers))
