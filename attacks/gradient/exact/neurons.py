"""The neurons of the first layer as a row sees them: which it activates, as far as that is sure.

A gradient is taken at one point, and there a row's pre-activations say which neurons it activates. An update of
several local steps (FedAvg) is a sum of gradients along a way: from the `weights` that it began from, by -rate *
update. A neuron counts as inactive for a row where it is so on the whole way, of which only the ends are known. It may
bend as far again as it is long to both sides of its middle, and by a share of how far the row's most moved neuron went.
A tenth is enough to find rows by: on Adult and German at most one pair of a row and a neuron, in every fifth training
of 32 rows that moved far, changed sides from beyond it. To hold rows against the whole update takes half.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.row_space import RowSpace

Mask = NDArray[np.bool_]
# A neuron below this share of the loudest one shows no row. Too small: rounding is read as zeros and signals; too
# large: neurons that only faint rows activate are lost, and the rows with them.
LIVE = 1e-5
CLEAR = 1000  # nor does one below so many standard deviations of the noise; the same trade
# A neuron below this share of the median is not scaled to the size of the others where there is noise. Too small: its
# noise is blown up with it; too large: it no longer counts.
SOFT = 0.1
# Pre-activations below this share of a row's largest may have the other sign. Too small: rounding turns signs and true
# rows are refuted; too large: fewer neurons tell rows apart.
ROUNDING = 1e-4
# How far a row's neurons may leave their way, as shares of the longest: for search, for proof. Too small: a neuron that
# changed sides counts as silent; too large: none does. Measured on Adult and German as said above.
BEND, FAR = 0.1, 0.5


@dataclass(frozen=True, eq=False)
class Signs:
    """Pre-activations `values` (n, H) of rows, in the middle of their way, which may lead up to `drift` (n, H) away."""

    values: Array
    drift: Array

    @property
    def uncertainty(self) -> Array:
        """(n, H) below what size the sign of a pre-activation is not sure."""
        return np.asarray(ROUNDING * np.abs(self.values).max(1, keepdims=True, initial=0) + self.drift)

    @property
    def inactive(self) -> Mask:
        """(n, H) where a row surely never is active."""
        return np.asarray(self.values < -self.uncertainty)


@dataclass(frozen=True, eq=False)
class Neurons:
    """The live neurons: rows `left` (H, r), shorter than 1 where noise would be most of them, and planes: coordinates
    (n, r) @ `planes` (r, H) are pre-activations in the middle of their way, coordinates @ `moves` (r, H) the length of
    it. `noise` (H,) is that of each entry of a row.
    """

    left: Array = field(repr=False)
    planes: Array = field(repr=False)
    moves: Array = field(repr=False)
    noise: Array = field(repr=False)

    def signs(self, coordinates: Array) -> Signs:
        """Of rows at coordinates (n, r)."""
        return Signs(coordinates @ self.planes, drift(coordinates @ self.moves))


def live_neurons(space: RowSpace, weight: Array, bias: Array) -> Neurons:
    """Neurons that some row activates, and loud enough to be read; the others say nothing. There may be none."""
    size = np.linalg.norm(space.left, axis=1)
    live = size > max(LIVE * size.max(), CLEAR * space.noise)
    left, size = space.left[live], size[live]
    moves = -space.rate * left.T
    before = space.right @ np.column_stack([weight, bias])[live].T
    unit = np.maximum(size, SOFT * np.median(size)) if space.noise and len(size) else size
    return Neurons(left / unit[:, None], before + moves / 2, moves, space.noise / unit)


def drift(moved: Array, bend: float = BEND) -> Array:
    """How far pre-activations that moved by `moved` (n, H) may have been from the middle of their way."""
    size = np.abs(moved)
    return np.asarray(size + bend * size.max(1, keepdims=True, initial=0))


def ever_active(space: RowSpace, weight: Array, bias: Array, encoded: Array) -> Mask:
    """(n, H) which of all neurons the rows (n, d) may have activated at some time."""
    points = with_ones(encoded)
    moved = -space.rate * (points @ space.gradient.T)
    return np.asarray(encoded @ weight.T + bias + moved / 2 > -drift(moved, FAR))
