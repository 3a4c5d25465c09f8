"""Which rows lie in the spaces of every layer: dozens of equations per layer, whatever the activation.

A row of the batch has its point [h | 1] in the row space of each layer, and its column in the column space, where as
many rows span them as the batch has. A mixture of rows satisfies the equations of the first layer, in which points are
linear, and none of the others. For every row that is accepted, p G^+ d = 1 (`exact.deflation`) gives its output errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.all_layers.layers import TINY, Layer
from leakledger.attacks.gradient.all_layers.tangents import columns_of
from leakledger.attacks.gradient.exact.deflation import least_outside
from leakledger.attacks.gradient.exact.network import Pass, error_basis, forward, signals
from leakledger.attacks.observed.affine import Array, Weights

# Standard errors, root mean square, by which a row may miss a space. True rows of five activations missed by at most 8
# and false ones by more than 20,000. Too small: a client whose arithmetic is coarser hides; too large: mixtures pass.
MISSED = 30.0


@dataclass(frozen=True, eq=False)
class Spaces:
    """The `layers` of a gradient, of a network with `activation`."""

    weights: Weights = field(repr=False)
    activation: str
    layers: Sequence[Layer] = field(repr=False)

    @property
    def rank(self) -> int:
        """How many rows the gradient shows to be independent."""
        return max((layer.rank for layer in self.layers), default=0)

    @property
    def ranks(self) -> list[int]:
        return [layer.rank for layer in self.layers]

    @property
    def full(self) -> list[Layer]:
        """The hidden layers whose spaces have the rank of the batch, and leave most vectors out."""
        return [layer for layer in self.layers[:-1] if layer.telling and layer.rank == self.rank]

    @property
    def second(self) -> Layer | None:
        """The second layer, where it is one of these."""
        return next((layer for layer in self.full if layer.number == 1), None)

    @property
    def sides(self) -> list[Layer]:
        """Those that have the points of all rows: the first layer too where its rows depend on each other."""
        first = self.layers[0]
        return [*self.full, *([first] if first.telling and first.rank < self.rank else [])]

    def passed(self, rows: Array) -> Pass:
        """Encoded rows (n, d) in the network."""
        return forward(self.weights, rows, self.activation)

    def missed(self, rows: Array) -> Array:
        """(n,) by how many standard errors encoded rows (n, d) miss the spaces of their worst layer."""
        passed = self.passed(rows)
        columns = columns_of(self.weights, passed, self.direction(passed))
        missed = [layer.points(passed.points[layer.number]).missed for layer in self.sides]
        missed += [layer.columns(columns[layer.number]).missed for layer in self.full]
        return np.max(missed, axis=0) if self.full else np.full(len(rows), np.inf)

    def direction(self, passed: Pass) -> Array:
        """The unit output errors (n, C) whose columns lie least outside the column spaces."""
        span = error_basis(passed.probabilities.shape[1])
        if len(span) == 1 or not self.full:
            return np.repeat(span[:1], len(passed.probabilities), 0)
        basis, outside = signals(self.weights, passed), []
        for layer in self.full:
            n, k, width = basis[layer.number].shape
            flat = layer.columns(basis[layer.number].reshape(n * k, width))
            outside.append((flat.left * flat.error[:, None]).reshape(n, k, width))
        return np.asarray(least_outside(np.concatenate(outside, 2)) @ span)

    def errors(self, rows: Array) -> tuple[Array, Array]:
        """The output errors (n, C) of rows (n, d) of these spaces, and how far they may be off (n,), relative."""
        passed = self.passed(rows)
        direction = self.direction(passed)
        columns = columns_of(self.weights, passed, direction)
        best, off = np.zeros(len(rows)), np.full(len(rows), np.inf)
        for layer in self.full:
            seen = (passed.points[layer.number] / layer.inputs) @ layer.right.T / layer.values
            shown = (columns[layer.number] / layer.out) @ layer.left
            product = (seen * shown).sum(1)
            error = layer.unit * np.linalg.norm(seen, axis=1) * np.linalg.norm(shown / layer.values, axis=1)
            error = error / np.maximum(np.abs(product), TINY) + layer.own
            best, off = np.where(error < off, 1 / np.where(product != 0, product, np.inf), best), np.minimum(off, error)
        return best[:, None] * direction, off
