"""Population annealing: many chains come down from louder noise together, and the better ones are copied on the way.

At each noise the whole population moves by Gibbs sampling, one row and, at every other noise, two rows at a time, and
chains exchange rows (`crossover`). Before the next, lower one every chain is weighed by how much likelier its batch
becomes under that, and where the weights are uneven the population is drawn anew by them (Hukushima and Iba 2003; the
sampler of Del Moral, Doucet and Jasra 2006, section 3.1). So modes keep shares by their mass, not by their depth alone,
as far as the number of chains allows, and those that chains are caught in by chance die out.
"""

from collections.abc import Sequence

import numpy as np
import torch

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior
from leakledger.attacks.gradient.posterior.crossover import aligned, crossed
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.pairs import sweep_pairs
from leakledger.attacks.gradient.posterior.resampling import drawn_anew

PAIRED = 2  # noises, of one of which pairs of rows are visited, which costs as much again
CROSSED = 4  # exchanges of rows between chains at each noise: each costs one to three hundredths of a sweep


def annealed(
    network: RowGradients,
    cells: Sequence[Cell],
    evidence: Evidence,
    population: int,
    levels: int,
    coins: torch.Generator,
) -> Chains:
    """So many chains at the true noise, from rows of the prior under loud noise, by as many `levels`."""
    labels = None if evidence.labels is None else evidence.labels.repeat(population)
    start = from_prior(cells, population * evidence.rows, coins, str(evidence.total[0].device), labels)
    found = Chains(network, cells, evidence, start.view(population, evidence.rows, len(cells)), coins)
    descend(found, evidence.loudest, levels)
    return found


def descend(found: Chains, loudest: float, levels: int) -> None:
    """Brings chains from where they are, under noise that is the `loudest`, to the true noise by so many `levels`."""
    noises = np.geomspace(loudest, found.evidence.noise, levels).tolist()
    for number, (noise, following) in enumerate(zip(noises, [*noises[1:], noises[-1]], strict=True)):
        found.sweep(noise)
        if number % PAIRED == 0:
            sweep_pairs(found, noise)
        aligned(found)
        crossed(found, noise, CROSSED)
        _select(found, noise, following)


def _select(found: Chains, noise: float, following: float) -> None:
    """Draws the population anew by the weights that it has under the `following` noise, where they are uneven."""
    square = found.energy() * 2 * found.evidence.noise**2
    followers = drawn_anew(square * (1 / noise**2 - 1 / following**2) / 2, found.coins)
    if followers is not None:
        found.reorder(followers)
