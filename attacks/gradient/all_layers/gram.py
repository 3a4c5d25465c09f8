"""The gradients of known rows as atoms of a linear system over all layers, by their Gram matrix in closed form.

The gradient of a row is, in each layer, a column times a point: d [h | 1]^T. So the inner product of two rows'
gradients is a sum over layers of <d_i, d_j> (<h_i, h_j> + 1), and nothing of the size of the weights is ever stored.
All is in units of the rounding of each entry (`layers`), so that residuals of true rows are about 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.all_layers.layers import Layer
from leakledger.attacks.gradient.exact.network import error_basis, forward, signals
from leakledger.attacks.gradient.exact.polish import Fit
from leakledger.attacks.observed.affine import Array, Weights, affine


@dataclass(frozen=True, eq=False)
class Problem:
    """A gradient that rows are held against: the `layers` give its units, `activation` is that of the network."""

    weights: Weights = field(repr=False)
    gradient: Weights = field(repr=False)
    activation: str
    layers: Sequence[Layer] = field(repr=False)

    def seen(self) -> list[Array]:
        """For each layer the gradient (o, i) in units of its errors."""
        return [affine(self.gradient, k.number) / np.outer(k.out * k.unit, k.inputs) for k in self.layers]

    def columns(self, columns: Sequence[Array]) -> list[Array]:
        """For each layer columns (..., o) in the same units."""
        return [c / (k.out * k.unit) for c, k in zip(columns, self.layers, strict=True)]

    def points(self, points: Sequence[Array]) -> list[Array]:
        """For each layer points (..., i) in the same units."""
        return [p / k.inputs for p, k in zip(points, self.layers, strict=True)]


def coefficients(problem: Problem, rows: Array) -> tuple[Array, Array]:
    """The output errors (n, C) with which encoded rows (n, d) together explain all layers best, and the standard error
    (n,) of each: infinite where the rows' gradients depend on each other.
    """
    passed = forward(problem.weights, rows, problem.activation)
    span = error_basis(passed.probabilities.shape[1])
    points, basis = problem.points(passed.points), problem.columns(signals(problem.weights, passed))
    n, k = len(rows), len(span)
    normal, goal = np.zeros((n * k, n * k)), np.zeros(n * k)
    for p, b, g in zip(points, basis, problem.seen(), strict=True):
        flat = b.reshape(n * k, -1)
        normal += flat @ flat.T * np.kron(p @ p.T, np.ones((k, k)))
        goal += ((flat @ g).reshape(n, k, -1) * p[:, None]).sum(2).ravel()
    step, variance = Fit(0.0, normal, goal).solved(0.0)
    return step.reshape(n, k) @ span, np.sqrt(variance.reshape(n, k).sum(1))
