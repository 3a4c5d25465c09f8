"""Rows that come down to the spaces of the first two layers: single rows, many at once, by annealing.

A batch may have more rows than its columns have directions. Then the first layer's row space holds every combination of
the categories that occur, and says nothing of numbers. But the points [h | 1] that enter the second layer still lie in
a space of as many dimensions as there are rows, fewer than that layer has inputs. By how much a row misses both spaces,

    E(x) = |Q_1 [x | 1]|² + |Q_2 [h(x) | 1]|²,

Q being what each space leaves out, is 0 at the rows of the batch and depends on no other row. So chains of single rows
draw cell by cell from exp(-E / T) under a falling temperature T, and most end at a row of the batch. (Simulated
annealing by Gibbs sampling: Geman and Geman 1984.) They give numbers roughly; all equations polish them (`search`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.all_layers.layers import TINY, Layer
from leakledger.attacks.gradient.all_layers.spaces import Spaces
from leakledger.attacks.gradient.exact.activations import ACTIVATIONS, Activation
from leakledger.attacks.gradient.exact.rows import EncodedRows, with_codes
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.labels import plausible_rows
from leakledger.preprocess.views import FeatureLayout

Floats = NDArray[np.float32]

CHAINS, SWEEPS = 512, 50  # fewer chains miss rows, fewer sweeps leave them at mixtures; both cost time
HOT, COLD = 0.3, 1e-4  # temperatures, where rows that are no more than plausible have an energy of 1 for each space
CHOICES = 64  # values of a category that a visit weighs, at most: memory and time
FRESH, NEAR = 6, 10  # values of a number that a visit weighs, from anywhere and from around the present one
LEAST, FARTHEST = 2e-3, 2.0  # deviations that those are away
ALWAYS = 1e-6  # relative to points, what they miss by rounding alone: larger drops equations, smaller keeps rounding
AT_ONCE = 2**24  # numbers of an intermediate result


def annealed(spaces: Spaces, layout: FeatureLayout, rng: np.random.Generator) -> Iterator[EncodedRows]:
    """Rows near the spaces of the first two layers, some at a time; none where the second has none that tells."""
    second = spaces.second
    if second is None:
        return
    energy = energy_of(spaces, second, layout, rng)
    some = min(CHAINS, max(1, AT_ONCE // (CHOICES * energy.pushes.shape[1])))
    for first in range(0, CHAINS, some):
        rows = _Rows(energy, layout, min(some, CHAINS - first), rng)
        for temperature in np.geomspace(HOT, COLD, SWEEPS):
            rows.sweep(float(temperature))
        yield rows.found


@dataclass(frozen=True, eq=False)
class Energy:
    """What rows miss: `pushes` (d, H + q) turns a row x into what the H neurons of the first layer see and the q
    equations of its row space, beside `base` (H + q,); `equations` (H + 1, p) are those of the second.
    """

    pushes: Floats = field(repr=False)
    base: Floats = field(repr=False)
    equations: Floats = field(repr=False)
    activation: Activation

    def of(self, seen: Floats) -> Floats:
        """(...) of rows that give `seen` (..., H + q)."""
        neurons = len(self.equations) - 1
        point = np.asarray(self.activation.value(cast(Array, seen[..., :neurons])), np.float32)
        missed = point @ self.equations[:-1] + self.equations[-1]
        beside = seen[..., neurons:]
        return np.asarray((missed * missed).sum(-1) + (beside * beside).sum(-1))


def energy_of(spaces: Spaces, second: Layer, layout: FeatureLayout, rng: np.random.Generator) -> Energy:
    """The energy in which plausible rows have 1 for each space, in the mean; none for a space that holds them all."""
    activation, first = ACTIVATIONS[spaces.activation], affine(spaces.weights, 0)
    rows = with_ones(plausible_rows(layout, CHAINS, rng))
    points = with_ones(activation.value(rows @ first.T))
    beside, equations = left_out(spaces.layers[0], rows), left_out(second, points)
    whole = np.concatenate([first.T, beside], 1).astype(np.float32)  # (d + 1, H + q)
    return Energy(whole[:-1], whole[-1], equations.astype(np.float32), activation)


def left_out(layer: Layer, points: Array) -> Array:
    """(i, q) equations that points [h | 1] of a layer's row space satisfy, and plausible `points` (n, i) miss by 1 in
    all, root mean square. Those that all of these satisfy, as one-hot columns add up to 1, are left out.
    """
    if not layer.telling:
        return np.zeros((len(layer.inputs), 0))
    basis = np.linalg.svd(layer.right, full_matrices=True)[2][layer.rank :].T
    missed = points / layer.inputs @ basis
    _, values, directions = np.linalg.svd(missed, full_matrices=False)
    some = values > ALWAYS * np.linalg.norm(points / layer.inputs)
    equations = basis @ directions[some].T / layer.inputs[:, None]
    return np.asarray(equations / max(float(np.linalg.norm(values[some])) / len(points) ** 0.5, TINY))


class _Rows:
    """So many rows on their way: `categories` (n, K), `numbers` (n, M) as columns have them, what they give `seen`."""

    def __init__(self, energy: Energy, layout: FeatureLayout, count: int, rng: np.random.Generator) -> None:
        self.energy, self.layout, self.rng = energy, layout, rng
        self.codes = [block.codebook().astype(np.float32) for block in layout.categorical]
        self.moves = [
            codes @ energy.pushes[block.start : block.start + block.width]
            for codes, block in zip(self.codes, layout.categorical, strict=True)
        ]
        plausible = plausible_rows(layout, CHAINS, rng)[:, [b.start for b in layout.numeric]]
        self.centre, self.deviation = plausible.mean(0), plausible.std(0)
        self.categories = (
            np.stack([rng.integers(len(c), size=count) for c in self.codes], 1)
            if self.codes
            else np.zeros((count, 0), np.int64)
        )
        self.numbers = plausible[rng.integers(CHAINS, size=count)].astype(np.float32)
        self.slopes = energy.pushes[[b.start for b in layout.numeric]]
        self.seen = self.numbers @ self.slopes + energy.base
        for moves, chosen in zip(self.moves, self.categories.T, strict=True):
            self.seen += moves[chosen]

    @property
    def found(self) -> EncodedRows:
        encoded = np.zeros((len(self.seen), self.layout.width))
        encoded[:, [b.start for b in self.layout.numeric]] = self.numbers
        return with_codes(self.layout, self.categories, encoded)

    def sweep(self, temperature: float) -> None:
        """Visits every cell of every row once."""
        named = len(self.codes)
        for f in self.rng.permutation(named + len(self.slopes)).tolist():
            if f < named:
                self._choose(f, temperature)
            else:
                self._move(f - named, temperature)

    def _choose(self, k: int, temperature: float) -> None:
        """Draws category `k` of each row anew."""
        now, size = self.categories[:, k], len(self.codes[k])
        others = np.arange(size) if size <= CHOICES else self.rng.integers(size, size=CHOICES)
        tried = np.concatenate([np.broadcast_to(others, (len(now), len(others))), now[:, None]], 1)
        moved = self.seen[:, None] - self.moves[k][now][:, None] + self.moves[k][tried]
        self.categories[:, k] = self._drawn(tried, moved, temperature)

    def _move(self, j: int, temperature: float) -> None:
        """Draws number `j` of each row anew."""
        now, deviation, n = self.numbers[:, j, None], self.deviation[j], len(self.numbers)
        fresh = self.centre[j] + deviation * self.rng.standard_t(3, (n, FRESH))
        reach = deviation * np.exp(self.rng.uniform(np.log(LEAST), np.log(FARTHEST), (n, 1)))
        near = now + reach * (self.rng.normal(size=(n, 1)) + self.rng.normal(size=(n, NEAR)))
        tried = np.concatenate([now, fresh, near], 1).astype(np.float32)
        moved = self.seen[:, None] + (tried - now)[..., None] * self.slopes[j]
        self.numbers[:, j] = self._drawn(tried, moved, temperature)

    def _drawn(self, tried: NDArray[np.generic], moved: Floats, temperature: float) -> NDArray[np.generic]:
        """(n,) one of the values `tried` (n, m) for each row, which make it give `moved` (n, m, H + q)."""
        energy = self.energy.of(moved)
        each = np.arange(len(energy))
        chosen = (self.rng.gumbel(size=energy.shape) - energy / temperature).argmax(1)
        self.seen = moved[each, chosen]
        return np.asarray(tried[each, chosen])
