"""Crossing of restarts: where one has a row wrong another may have it right, so children can be better than parents.

Restarts that run alone end at local optima of their own: two rows have exchanged cells, say, which no small step
undoes. Here the optimisation pauses a few times (`stretches`). At each pause the restarts are matched row by row to the
best one, as for pooling but within equal labels only, since the label of each place is fixed. The best third stays, and
the others give way to children of two of that third, each row from either at even odds. Children are moved a little
off, so that no two restarts are copies, and all go on from there. Only the loss of a restart's projected rows says
which is better.

In large batches rows that match the gradient better are no better rows: there, restarts that ran alone and are pooled
all together are right more often, so that those of `crowded` batches are not crossed.

TabLeak has nothing of the kind: without crossovers its restarts are as published. This is a uniform crossover (Syswerda
1989) whose genes are rows; since a descent follows it, the whole is a memetic algorithm (Moscato 1989).

Shapes: R restarts, B rows.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.matching.ensemble import matching_order
from leakledger.attacks.observed.tabular import Array, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

PARENTS = 3  # one restart in so many is a parent: more parents are worse ones, fewer make all children alike
FEWEST = 9  # restarts that are worth crossing: three parents and their children
CROSSING = 7  # sets this generator apart from those of the initial variables
# Of the narrowest hidden layer for each row, in a batch that is not crowded. Fewer: rows that match the gradient better
# are no better rows; more: batches that crossing helps are left alone. See `docs/attacks.md`.
NEURONS = 3
OFF = 0.5  # how far a child's variable is moved at most: less makes copies, more forgets the parents


def crowded(hidden: Sequence[int], rows: int) -> bool:
    """Whether the hidden layers are too narrow for the loss to judge a batch of so many rows."""
    return any(width < NEURONS * rows for width in hidden)


def stretches(iterations: int, crossovers: int, restarts: int) -> list[range]:
    """The iterations before the first crossover and after each: two shares before, then one each.

    One stretch where restarts or iterations are too few to cross.
    """
    each = iterations // (crossovers + 2) if restarts >= FEWEST else 0
    ends = [iterations - i * each for i in range(crossovers, -1, -1)] if each else [iterations]
    return [range(a, b) for a, b in pairwise([0, *ends])]


def crossover_rng(seed: int, update: ObservedUpdate, number: int) -> np.random.Generator:
    """What decides the crossover of that number: victim, round and seed, not what runs beside."""
    return np.random.default_rng([number, CROSSING, seed, update.round, *update.victim.encode()])


def crossed(
    rng: np.random.Generator,
    prior: StructuralPrior,
    units: Array,
    variables: Array,
    losses: Array,
    labels: NDArray[np.int64],
    tolerance: Array,
) -> Array:
    """Variables (R, B, size) from which the restarts of one batch go on, parents first.

    `units` and `variables` (R, B, size) and `losses` (R,) are where they are, `labels` (B,) those of the places.
    Numbers more than `tolerance` (L,) apart count as different.
    """
    ranks = losses.argsort(kind="stable")
    order = matching_order(prior.project(units), int(ranks[0]), tolerance, labels)
    parents = np.take_along_axis(variables, order[..., None], axis=1)[ranks[: len(losses) // PARENTS]]
    return np.concatenate([parents, _children(rng, parents, len(losses) - len(parents))])


def _children(rng: np.random.Generator, parents: Array, count: int) -> Array:
    """(count, B, size): each has two different parents and each of its rows from one of them."""
    pairs = np.stack([rng.permutation(len(parents))[:2] for _ in range(count)])
    rows = rng.random((count, parents.shape[1], 1)) < 0.5
    children: Array = np.where(rows, parents[pairs[:, 0]], parents[pairs[:, 1]])
    return children + rng.uniform(-OFF, OFF, children.shape)
