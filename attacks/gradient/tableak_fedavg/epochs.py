"""The rows of several epochs are the same rows: a tie between them while they are looked for, one table in the end.

Each epoch is a pass over all rows in an order of its own. `SeparateEpochs` reconstructs it with rows of its own, held
together by the order-invariant prior of Dimitrov et al. (2022), with the squared l2 distance and the mean, as TabLeak's
appendix B chooses: the mean over all pairs of epochs and all columns of the squared difference of their mean rows. In
the end the rows of every epoch are matched to those of the first, and averaged as distributions and positions (so the
published implementation); a row is only matched to one with the same label. `TiedEpochs` has one set of rows for all
epochs, in orders that agree with the labels.

Shapes: V victims, R restarts, E epochs of N rows, T = E·N, d columns.
"""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakledger.attacks.gradient.matching.ensemble import differing_share
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior
from leakledger.attacks.observed.update import Schedule

OTHER_LABEL = 2.0  # more than any number of differing cells costs, which is 1: equal labels go first
Order = NDArray[np.int64]


class Epochs(Protocol):
    """How the variables' rows stand for the rows of all epochs: `rows` variables' rows per restart."""

    rows: int

    def spread(self, columns: Tensor) -> Tensor:
        """The rows (V, R, T, d) of all epochs from those of the variables (V, R, rows, d)."""

    def collect(self, gradient: Tensor, columns: Tensor) -> Tensor:
        """The gradient for the variables' rows from that for `spread(columns)`, and from the prior."""

    def combine(self, prior: StructuralPrior, units: Array, labels: NDArray[np.int64]) -> tuple[Array, Order]:
        """One restart's units (rows, size) and labels (E, N) as one table (N, size), and its order per epoch (E, N)."""


class SeparateEpochs:
    """Rows of its own for every epoch. `strength` (V,) weighs the prior; `tolerance` is that of the matching."""

    def __init__(self, schedule: Schedule, strength: Tensor, tolerance: float) -> None:
        self.rows, self.shape = schedule.total, (schedule.epochs, schedule.rows)
        self.strength, self.tolerance = strength.view(-1, 1, 1, 1, 1), tolerance
        self.tied = schedule.epochs > 1 and bool(strength.any())

    def spread(self, columns: Tensor) -> Tensor:
        return columns

    def collect(self, gradient: Tensor, columns: Tensor) -> Tensor:
        if self.tied:
            _, together = epoch_distance(columns, self.shape[0])
            gradient.view(*gradient.shape[:2], *self.shape, -1).add_(together.mul_(self.strength))
        return gradient

    def combine(self, prior: StructuralPrior, units: Array, labels: NDArray[np.int64]) -> tuple[Array, Order]:
        split = units.reshape(*self.shape, -1)
        order = epoch_order(prior, split, labels, self.tolerance)
        return merge(split, order), order


class TiedEpochs:
    """The same rows for every epoch. Labels are (V, E, N)."""

    def __init__(self, schedule: Schedule, labels: NDArray[np.int64], device: str) -> None:
        self.rows = schedule.rows
        self.places = torch.tensor(tied_places(labels), device=device)[:, None, :, None]

    def spread(self, columns: Tensor) -> Tensor:
        return columns.gather(2, self._index(columns))

    def collect(self, gradient: Tensor, columns: Tensor) -> Tensor:
        return torch.zeros_like(columns).scatter_add_(2, self._index(columns), gradient)

    def combine(self, prior: StructuralPrior, units: Array, labels: NDArray[np.int64]) -> tuple[Array, Order]:
        return units, tied_order(labels)

    def _index(self, columns: Tensor) -> Tensor:
        return self.places.expand(-1, columns.shape[1], -1, columns.shape[-1])


def epoch_distance(columns: Tensor, epochs: int) -> tuple[Tensor, Tensor]:
    """The prior (V, R) of columns (V, R, E·N, d), and its gradient per row of each epoch (V, R, E, 1, d)."""
    rows = columns.view(*columns.shape[:2], epochs, -1, columns.shape[-1])
    means = rows.mean(3)  # (V, R, E, d)
    apart = means - means.mean(2, keepdim=True)
    scale = 2 / (epochs * columns.shape[-1])  # of all E² pairs: twice the spread around the mean of means
    return scale * apart.square().sum((2, 3)), (2 * scale / rows.shape[3]) * apart.unsqueeze(3)


def epoch_order(prior: StructuralPrior, units: Array, labels: NDArray[np.int64], tolerance: float) -> Order:
    """(E, N): the row of each epoch that is the same as each row of the first; units (E, N, size), labels (E, N)."""
    rows = prior.project(units)
    reference = Rows(rows.categories[0], rows.numbers[0])
    cost = differing_share(reference, rows, tolerance * prior.deviation)  # (E, N, N)
    cost += OTHER_LABEL * (labels[0][None, :, None] != labels[:, None, :])
    return np.stack([linear_sum_assignment(c)[1] for c in cost])


def merge(units: Array, order: Order) -> Array:
    """(N, size): the mean over epochs of units (E, N, size), in the order of the first."""
    merged: Array = np.take_along_axis(units, order[..., None], axis=1).mean(0)
    return merged


def replay(rows: NDArray[Any], order: Order) -> NDArray[Any]:
    """(T, ...): rows (N, ...) where each epoch has them, so that every batch gets rows with its labels."""
    return np.concatenate([rows[np.argsort(o)] for o in order])


def repeated(variables: Tensor, labels: NDArray[np.int64]) -> Tensor:
    """Variables (V, size, R·T) that give every epoch the rows of `variables` (V, size, R, N); labels (V, E, N)."""
    places = torch.tensor(tied_places(labels), device=variables.device)[:, None, None]  # (V, 1, 1, T)
    return variables.gather(3, places.expand(-1, *variables.shape[1:3], -1)).flatten(2)


def tied_places(labels: NDArray[np.int64]) -> Order:
    """(V, T): which row of the first epoch stands at each place of all epochs, if tied; labels (V, E, N)."""
    return np.stack([replay(np.arange(part.shape[1]), tied_order(part)) for part in labels])


def tied_order(labels: NDArray[np.int64]) -> Order:
    """(E, N): an order in which all epochs can have the same rows: the k-th of a label is the k-th in every epoch."""
    ranks = [np.argsort(epoch, kind="stable") for epoch in labels]
    return np.stack([r[np.argsort(ranks[0])] for r in ranks])
