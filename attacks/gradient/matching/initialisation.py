"""Where restarts start: variables drawn for each victim, round and restart, whatever runs beside them.

*uniform*: evenly from [-1, 1], as in the published implementation and by default. *unit-uniform*: evenly from [0, 1],
as in the paper's algorithm 1. *gaussian*: standard normal. *marginals*: at rows drawn from what the layout makes public
(`observed.labels.plausible`); an undecided softmax there leans to the drawn candidate.
"""

from collections.abc import Callable

import numpy as np

from leakledger.attacks.observed.labels import plausible_cells
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior, raw_numbers
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import FeatureLayout

EDGE = 0.01  # how near to its bounds a sigmoid starts at most, in shares of the range: nearer, and it hardly moves

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
"""Variables (B, size) of one restart from its random generator."""


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.uniform(-1, 1, shape)


def unit_uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.uniform(0, 1, shape)


def gaussian(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.normal(size=shape)


INITIALISATIONS: dict[str, Draw | None] = {
    "uniform": uniform,
    "unit-uniform": unit_uniform,
    "gaussian": gaussian,
    "marginals": None,  # needs the layout: `marginals`
}


def initialisation(name: str, prior: StructuralPrior, layout: FeatureLayout) -> Draw:
    """What draws the variables of restarts under `prior`."""
    return INITIALISATIONS[name] or marginals(prior, layout)


def marginals(prior: StructuralPrior, layout: FeatureLayout) -> Draw:
    """Variables that stand for plausible rows."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        categories, numbers = plausible_cells(layout, shape[0], rng)
        numbers = np.clip(raw_numbers(prior.numeric, numbers), prior.low, prior.high)
        logits = prior.certain(Rows(categories, numbers))
        if prior.sigmoid:
            share = np.clip(logits[:, prior.positions], EDGE, 1 - EDGE)
            logits[:, prior.positions] = np.log(share / (1 - share))
        variables: Array = (logits - prior.centre) / prior.spread
        return variables

    return draw


def initial_variables(
    seed: int, update: ObservedUpdate, shape: tuple[int, int], restarts: range, draw: Draw = uniform
) -> Array:
    """Variables (size, R·rows) of `shape` (rows, size) each, that depend on victim, round and restart, not on what runs
    beside.
    """
    rngs = (np.random.default_rng([restart, seed, update.round, *update.victim.encode()]) for restart in restarts)
    return np.concatenate([draw(rng, shape) for rng in rngs]).T
