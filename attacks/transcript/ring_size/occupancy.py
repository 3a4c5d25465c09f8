"""How many distinct values a party holds of whom only the population is known: an occupancy model.

Each candidate value v has a chance pi_v in every row, so that of a party with N rows the number of distinct values has

    mean D(N) = sum_v (1 - e^(-N pi_v))          variance  sum_v e^(-N pi_v) (1 - e^(-N pi_v)) - N D'(N)^2,

the second term since the rows are N, not Poisson (Karlin 1967). Of pi the adversary knows granted marginals, pi_v
itself; else what its own rows, and a granted dictionary, leave possible: several populations (`population`), of which
the sums say which is likelier.

N is unknown (`worlds`). The law of the size at each node of N is binomial with the mean and variance above, which comes
close to the exact one (Ehm 1991), or normal where the step to the next node is wider than the law. A share `OUTSIDE` of
each law is spread over all sizes r from 1 on as 1 / r, for parties whose population is another one; up to the number of
candidates only where a dictionary is granted, which is taken to be complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, stdtr

from leakledger.attacks.transcript.ring_size.population import Population, populations
from leakledger.attacks.transcript.ring_size.worlds import FREEDOM, STEP, Worlds, scales_of

Floats = NDArray[np.float64]

OUTSIDE = 0.02
EXACT, FINE = 512, 0.9  # most trials of a law that is binomial; most variance between nodes, in units of the mean
WIDEST = 1e6  # sizes beyond are left out of the share outside
CENTRES = np.linspace(-4, 1.5, 12)  # in spreads from the logarithm of the mean, which the largest party has most of


@dataclass(frozen=True)
class Known:
    """What the adversary knows of one feature: own rows, the counts (k,) of own values in them, how many candidates the
    granted dictionary has (None: none granted), and granted probabilities (v,).
    """

    rows: float
    counts: NDArray[np.int64] = field(repr=False)
    candidates: int | None = None
    probabilities: Floats | None = None


@dataclass(frozen=True)
class Laws:
    """`sizes` (worlds, length): in each world the chance of each cell of `step` sizes. `weights` (worlds,) add to 1.

    Within a world parties are independent; what they have in common is which world it is. The first axis has the worlds
    of numbers of rows times `populations`, those of values.
    """

    sizes: Floats = field(repr=False)
    weights: Floats
    populations: int = 1
    step: int = 1

    @property
    def overall(self) -> Floats:
        """(length,) the law of one party alone."""
        law: Floats = self.weights @ self.sizes
        return law


class Occupancy:
    """The law of a party's number of distinct values of one feature."""

    def __init__(self, known: Known, worlds: Worlds) -> None:
        self.known, self.worlds = known, worlds

    def laws(self, length: int, step: int = 1) -> Laws:
        """Of the first `length` cells of so many sizes each. What lies beyond is left out, not added to them."""
        weights = np.outer(self.worlds.weights, [p.weight for p in self.populations])
        laws = np.stack([self.worlds.mixtures @ self._at_nodes(p, length, step) for p in self.populations], 1)
        laws = (1 - OUTSIDE) * laws + OUTSIDE * _anywhere(length, step, self._most)
        return Laws(laws.reshape(-1, length), weights.ravel(), weights.shape[1], step)

    @cached_property
    def populations(self) -> list[Population]:
        """What the own rows, a dictionary and marginals leave possible."""
        known = self.known
        if known.probabilities is not None:
            return [Population(known.probabilities, np.ones(len(known.probabilities)), 1.0)]
        return populations(known.counts, known.candidates)

    @property
    def _most(self) -> float:
        return WIDEST if self.known.candidates is None else float(max(self.known.candidates, len(self.known.counts)))

    def _at_nodes(self, population: Population, length: int, step: int) -> Floats:
        """(nodes, length)."""
        rows = self.worlds.rows
        mean, variance, between = moments(rows, population.chances, population.times)
        variance = variance + between
        law = normal_laws(mean, variance, length, step)
        trials = mean / np.maximum(1 - variance / mean, 1e-9)
        few = (between < FINE * mean) & (trials <= EXACT)
        if step == 1 and few.any():
            law[few] = binomial_laws(mean[few], variance[few], length)
        return law


def moments(rows: Floats, chances: Floats, times: Floats) -> tuple[Floats, Floats, Floats]:
    """(nodes,) mean and variance of the number of distinct values, and the variance of its mean between nodes."""
    absent = np.exp(-rows[:, None] * chances)  # (nodes, classes)
    mean = (1 - absent) @ times
    growth = absent @ (chances * times)  # of the mean, per row
    variance = (absent * (1 - absent)) @ times - rows * growth**2
    return mean, np.maximum(variance, 1e-4), (STEP * rows * growth) ** 2 / 12


def normal_laws(mean: Floats, variance: Floats, length: int, step: int) -> Floats:
    """(nodes, length) the chances of cells of `step` sizes under normal laws, given at least one value."""
    edges = np.maximum(np.arange(length + 1) * step - 0.5, 0.5)
    below = ndtr((edges - mean[:, None]) / np.sqrt(variance)[:, None])
    law: Floats = np.diff(below, axis=1) / (1 - below[:, :1] + 1e-300)
    return law


def binomial_laws(mean: Floats, variance: Floats, length: int) -> Floats:
    """(nodes, length) binomial laws of these means and variances, given at least one value; the number of trials need
    not be whole.
    """
    chance = np.clip(1 - variance / mean, 1e-9, 1 - 1e-9)[:, None]
    trials = mean[:, None] / chance
    sizes = np.arange(1, int(np.ceil(trials.max())) + 1)
    left = trials - sizes
    possible = left > -1
    left = np.where(possible, left, 0.0)
    log = gammaln(trials + 1) - gammaln(sizes + 1) - gammaln(left + 1)
    log = log + sizes * np.log(chance) + left * np.log1p(-chance)
    held = np.exp(np.where(possible, log, -np.inf))
    law = np.zeros((len(mean), length))
    cut = min(len(sizes), max(length - 1, 0))
    law[:, 1 : cut + 1] = (held / held.sum(axis=1, keepdims=True))[:, :cut]
    return law


def _anywhere(length: int, step: int, most: float) -> Floats:
    """(length,) about 1 / r over sizes from 1 up to `most`, on cells: who has rows has a value."""
    edges = np.log(np.clip(np.arange(length + 1) * float(step), 1.0, most + 1))
    law: Floats = np.diff(edges) / np.log(most + 1)
    return law


def unlike_parties(mean: float, padded: float, spread: float, length: int, step: int, most: float) -> Laws:
    """Sizes of which nothing is known but that ranges are `mean` numbers on average, of which `padded` are padding: for
    each spread (`worlds`) a law (length,) on cells of `step` sizes around each of several centres ("populations").

    In place of numbers of rows it is sizes that are log-t; none is above `most`.
    """
    spreads, chances = scales_of(spread)
    centre = max(mean - padded, 1.0)
    reach = np.maximum(spreads, np.log(max(mean, 1.0) / centre))
    centres = (np.log(centre) + reach[:, None] * CENTRES).ravel()
    edges = np.log(np.maximum(np.arange(length + 1) * step - 0.5, 0.5))
    below = stdtr(FREEDOM, (edges - centres[:, None]) / np.repeat(spreads, len(CENTRES))[:, None])
    laws = (1 - OUTSIDE) * np.diff(below, axis=1) + OUTSIDE * _anywhere(length, step, most)
    laws[:, np.arange(length) * step > most] = 0.0
    return Laws(laws, chances, len(CENTRES), step)


def known_of(
    counts: Mapping[str, NDArray[np.int64]],
    candidates: Mapping[str, int],
    probabilities: Mapping[str, Floats],
    features: Sequence[str],
) -> list[Known]:
    """One `Known` per feature."""
    none = np.zeros(0, np.int64)
    return [
        Known(float(own.sum()), own, candidates.get(f), probabilities.get(f))
        for f in features
        for own in [counts.get(f, none)]
    ]
