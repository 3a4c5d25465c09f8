"""The gradient of every layer in units of its own rounding, and the spaces that its rows and columns span.

A gradient G (out, in + 1) = D^T [H | 1] comes rounded. What rounding leaves in an entry is about the unit roundoff
times the size of its row and of its column (`row_space.rounding_errors`): with rows and columns divided by these, the
errors of all entries are alike, and a column of small amounts counts as much as one of large ones. A gradient that was
read from models has noise beyond that, alike in all entries, and is divided by that. There the row space
of G is that of the inputs of the batch, its column space that of what is propagated back, both known up to the errors:
a point of the row space at G = U S V^T is off by E^T U S^-1 V^T p, so by about |S^-1 V^T p| in each coordinate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leakledger.attacks.observed.affine import Array, Weights, affine
from leakledger.attacks.observed.row_space import PRECISION

# Times the largest singular value that errors of one unit make, sqrt(out) + sqrt(in + 1): above is a row. Too small:
# sums in the client's own arithmetic, which round more than an entry, look like rows; too large: faint rows are lost.
SIGNAL = 16.0
COARSE = (
    4.0  # times that: what a client's arithmetic may leave where the batch has fewer rows. Larger takes noise for it
)
# Roundings that subtracted rows may leave of themselves: their shares as the client computed them.
# Too small: true rows are not admitted; too large: rows that are nearly right are, and spoil what is left.
SUBTRACTED = 256.0
FLOOR = 1e-6  # of the largest row or column: smaller divides zeros by nothing, larger hides faint columns
TINY = 1e-300  # keeps a quotient by a gradient of zero finite
# Of each coordinate, times the unit roundoff: what the client's own passes may leave of a point or a column before it
# enters the sum. Too small: rows of deep or saturated networks are refused; too large: wrong ones pass.
OWN = 8.0


@dataclass(frozen=True, eq=False)
class Outside:
    """How far vectors (n, w) are from a space: what is `left` of them (n, w), in units of the standard error (n,) of
    the space there, of which `freedom` coordinates are free.
    """

    left: Array = field(repr=False)
    error: Array
    freedom: int

    @property
    def missed(self) -> Array:
        """(n,) root mean square, in standard errors: about 1 for vectors of the space."""
        return np.asarray(np.linalg.norm(self.left, axis=-1) / np.sqrt(max(1, self.freedom)))


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's gradient divided by `out` (o,) and `inputs` (i,), which leaves errors of `unit` in each entry:
    left @ diag(values) @ right up to these, with orthonormal columns (o, r) and rows (r, i). `subtracted` is the size
    of what rows were subtracted, the root of the sum of their squares.
    """

    number: int
    out: Array = field(repr=False)
    inputs: Array = field(repr=False)
    left: Array = field(repr=False)
    values: Array = field(repr=False)
    right: Array = field(repr=False)
    roundoff: float
    unit: float = 1.0
    subtracted: float = 0.0

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def telling(self) -> bool:
        """Whether its spaces leave most vectors out."""
        return self.rank < min(len(self.out), len(self.inputs)) and self.rank > 0

    @property
    def own(self) -> float:
        """What the client's own passes leave of a point or a column, relative to it."""
        return OWN * self.roundoff

    @property
    def firm(self) -> "Layer":
        """The layer without directions in which there is no more than subtracted rows may leave of themselves."""
        rank = int((self.values > SUBTRACTED * self.roundoff * self.subtracted).sum())
        if rank == self.rank:
            return self
        left, values, right = self.left[:, :rank], self.values[:rank], self.right[:rank]
        unit = max(self.unit, at_once(self.values, rank, min(len(self.out), len(self.inputs))))
        return replace(self, left=left, values=values, right=right, unit=unit)

    @property
    def precision(self) -> float:
        """How far errors may turn the row space, in the units of its columns, in the direction that they hide best."""
        shown = np.linalg.svd(self.values[:, None] * self.right * self.inputs, compute_uv=False)
        return max(PRECISION, self.unit * float(np.linalg.norm(self.inputs) / max(shown.min(initial=np.inf), TINY)))

    def points(self, points: Array) -> Outside:
        """Inputs [h | 1] (n, i) beside the row space."""
        return self._outside(points / self.inputs, self.right)

    def columns(self, columns: Array) -> Outside:
        """What is propagated back (n, o) beside the column space."""
        return self._outside(columns / self.out, self.left.T)

    def _outside(self, vectors: Array, basis: Array) -> Outside:
        inside = vectors @ basis.T
        error = self.unit * np.linalg.norm(inside / self.values, axis=-1)
        own = self.own * np.linalg.norm(vectors, axis=-1) / np.sqrt(vectors.shape[-1])
        error = np.hypot(error, own) + TINY
        return Outside((vectors - inside @ basis) / error[..., None], error, basis.shape[1] - len(basis))

    def moves(self, slopes: Array, outside: Outside) -> Array:
        """How inputs that move by `slopes` (n, f, i) move what is left of them (n, f, i)."""
        return self._moved(slopes / self.inputs, self.right, outside)

    def column_moves(self, slopes: Array, outside: Outside) -> Array:
        """The same for what is propagated back, (n, f, o)."""
        return self._moved(slopes / self.out, self.left.T, outside)

    @staticmethod
    def _moved(slopes: Array, basis: Array, outside: Outside) -> Array:
        return np.asarray((slopes - slopes @ basis.T @ basis) / outside.error[:, None, None])


def layer_of(
    gradient: Weights,
    number: int,
    rows: int,
    roundoff: float,
    like: Layer | None = None,
    subtracted: float = 0.0,
    noise: float = 0.0,
) -> Layer | str:
    """One layer of the gradient of at most `rows` independent rows, or why it is not that: noise. Errors of standard
    deviation `noise` in its entries are reckoned with.

    In the units of a layer `like` it, if that is given; `subtracted` in these units is what was subtracted from all.
    """
    seen = affine(gradient, number)
    out, inputs = (like.out, like.inputs) if like else scales(seen, roundoff, noise)
    left, values, right = np.linalg.svd(seen / np.outer(out, inputs), full_matrices=False)
    floor = SIGNAL * float(np.sqrt(seen.shape).sum())
    rank = int((values > floor).sum())
    if rank > rows:
        if values[rows] > max(COARSE * floor, SUBTRACTED * roundoff * subtracted):
            return f"the numerical rank of layer {number} is {rank}, above the {rows} of the batch: noise hides them"
        rank = rows
    open = float(np.prod(np.array(seen.shape) - rank))
    unit = max(1.0, float(np.sqrt((values[rank:] ** 2).sum() / max(open, 1.0))))
    if subtracted:
        unit = max(unit, at_once(values, rank, len(values)))
    return Layer(number, out, inputs, left[:, :rank], values[:rank], right[:rank], roundoff, unit, subtracted)


def at_once(values: Array, rank: int, width: int) -> float:
    """The error of each coordinate, root mean square, of a vector that is off by the largest of `values` (r,) beyond
    the `rank`: what subtracted rows leave of themselves is not spread over all entries as rounding is, and a row may be
    off by all of it.
    """
    return float(values[rank]) / float(np.sqrt(width - rank)) if rank < len(values) else 0.0


def scales(gradient: Array, roundoff: float, noise: float = 0.0) -> tuple[Array, Array]:
    """Of rows (o,) and columns (i,): their outer product is about what rounding leaves in each entry, or alike noise
    where that is more.
    """
    rows, columns = (np.sqrt((gradient**2).mean(axis)) for axis in (1, 0))
    size = max(float(np.sqrt((gradient**2).mean())), TINY)
    if noise > roundoff * size:
        return np.full(len(rows), noise), np.ones(len(columns))
    out, inputs = (s.clip(max(FLOOR * float(s.max()), TINY)) for s in (rows, columns))
    return roundoff * out / size, inputs


def layers_of(
    weights: Weights,
    gradient: Weights,
    ranks: Sequence[int],
    roundoff: float,
    like: Sequence[Layer] = (),
    subtracted: Sequence[float] = (),
    noise: float = 0.0,
) -> list[Layer] | str:
    """All layers of a gradient, the last one included, each of at most the rank in `ranks`; in the units of those
    `like` it, if there are any, and with what was `subtracted` from each. `noise` is that of its entries.
    """
    layers = list[Layer]()
    for number, rank in enumerate(ranks):
        own, less = (like[number], subtracted[number]) if like else (None, 0.0)
        layer = layer_of(gradient, number, rank, roundoff, own, less, noise)
        if isinstance(layer, str):
            return layer
        layers.append(layer)
    return layers
