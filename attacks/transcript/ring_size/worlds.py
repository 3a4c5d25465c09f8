"""How unlike in size parties are: not known, hence a mixture of worlds that own rows and sums weigh.

In a world the parties' numbers of rows N are independent, and log N is Student's t with `FREEDOM` degrees of freedom,
so that one outlying party does not speak for all of them. Worlds differ in scale, one of `SPREADS` unless the option
`spread` says which, and in centre, on a grid of `SHIFTS` scales around the mean of the observers' log N. Given the
scale the prior of the centre is flat, so that the weight of a world is the chance of its scale times the density of the
observers' own numbers of rows. Of one observer they say nothing about the scale; of several they do.

Scales are even in their logarithm up to `BEND`, and from there as likely as they are large, which is even in the scale
itself. With the first alone (the right Haar prior of a scale) intervals hold alike at every spread as long as sums are
near the sum of logarithms, that is where parties are alike; where they are not, two sums that happen to agree
speak too loudly for a small scale. The second alone (Gelman 2006) says too little where parties are alike. Scales end
well above those that parties have, since a federation of a spread near the end would else be taken for a narrower one.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FREEDOM = 4.0
SPREADS = np.geomspace(0.05, 6.4, 9)
BEND = 0.7
CHANCES = np.maximum(SPREADS, BEND) / np.maximum(SPREADS, BEND).sum()
SHIFTS = np.linspace(-2.5, 2.5, 9)
REACH, STEP = 12.0, 0.125  # of log N around the centre of the own ones


@dataclass(frozen=True)
class Worlds:
    """`rows` (nodes,): numbers of rows on an even grid of their logarithm. `mixtures` (worlds, nodes): how likely each
    is for a party of each world. `weights` (worlds,) add up to 1.
    """

    rows: Floats = field(repr=False)
    mixtures: Floats = field(repr=False)
    weights: Floats = field(repr=False)


def scales_of(spread: float) -> tuple[Floats, Floats]:
    """The scales that come into question, and their chances; `spread` alone unless it is 0."""
    return (np.array([spread]), np.ones(1)) if spread else (SPREADS, CHANCES)


def worlds(own_rows: Floats, spread: float) -> Worlds:
    """The worlds of an adversary whose parties have so many rows each, (k,), none of them 0. `spread` 0: not known."""
    spreads, chances = scales_of(spread)
    logs = np.log(own_rows)
    centre = logs.mean()
    nodes = centre + np.arange(-REACH, REACH + STEP, STEP)
    nodes = nodes[nodes >= 0]  # a party has a row
    scales = np.repeat(spreads, len(SHIFTS))
    centres = centre + scales * np.tile(SHIFTS, len(spreads))
    density = _density(nodes, centres, scales)
    weights = np.repeat(chances, len(SHIFTS)) * scales * _density(logs, centres, scales).prod(axis=1)
    return Worlds(np.exp(nodes), density / density.sum(axis=1, keepdims=True), weights / weights.sum())


def _density(logs: Floats, centres: Floats, scales: Floats) -> Floats:
    """(worlds, points) of Student's t, up to a factor that all worlds share."""
    off = (logs - centres[:, None]) / scales[:, None]
    density: Floats = (1 + off**2 / FREEDOM) ** (-(FREEDOM + 1) / 2) / scales[:, None]
    return density
