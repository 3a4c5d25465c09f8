"""The batch that is to be solved: its gradient in every layer, and the rank that it leaves in the last hidden one."""

from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.exact.deflation import FactoredGradient, factored
from leakledger.attacks.gradient.exact.network import depth
from leakledger.attacks.observed.affine import Weights, affine
from leakledger.attacks.observed.row_space import SURE
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import FeatureLayout


@dataclass(frozen=True, eq=False)
class UnsolvedBatch:
    """A batch of `rows` rows, its gradient in every layer of a network, of rank `rank` in the last hidden one.

    `roundoff` is the unit roundoff of the gradient's entries.
    """

    layout: FeatureLayout
    weights: Weights = field(repr=False)
    gradient: Weights = field(repr=False)
    rows: int
    rank: int
    roundoff: float = 0.0

    @property
    def layer(self) -> int:
        return depth(self.weights) - 1

    @property
    def space(self) -> FactoredGradient:
        return factored(affine(self.gradient, self.layer), self.rank)


def unsolved(update: ObservedUpdate, tolerance: float) -> UnsolvedBatch | str:
    """The batch behind an update, or why it cannot be solved.

    `tolerance` times the roundoff of the gradient's entries counts as zero, relative to the largest singular value; and
    so does what noise in every entry makes.
    """
    rows, last = update.rows, len(update.model.hidden) - 1
    gradient = affine(update.gradient, last)
    if rows >= min(gradient.shape):
        return f"a batch of {update.size} does not leave a gap in the spectrum of a {gradient.shape} gradient"
    values = np.linalg.svd(gradient, compute_uv=False)
    of_noise = SURE * update.noise * float(np.sqrt(gradient.shape).sum())
    rank = int((values > max(tolerance * update.roundoff * values[0], of_noise)).sum())
    if rank > rows:
        return f"its numerical rank is {rank} and the batch has {update.size}: noise hides their subspace"
    return UnsolvedBatch(update.layout, update.weights, update.gradient, rows, rank, update.roundoff)
