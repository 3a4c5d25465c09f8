"""How many distinct values a party holds of whom only the population is known: an occupancy model.

Each candidate value v has a chance pi_v in every row, so that of a party with N rows the number of distinct values has

    mean D(N) = sum_v (1 - e^(-N pi_v))          variance  sum_v e^(-N pi_v) (1 - e^(-N pi_v)) - N D'(N)^2,

the second term since the rows are N, not Poisson (Karlin 1967). What the adversary knows of pi:

* granted marginals: pi_v itself;
* its own rows, n of them, with c_v occurrences of v. Values that it has not seen have the chance f1 / n together (Good
  1953), f1 being the number of values that occur once; so a column of identifiers goes on as it began. The others have
  what is left, in proportion to the quantiles of Gamma(c_v + a) (a = `PRIOR_COUNT`), as have unseen ones with c = 0.
  How many are unseen follows from a granted dictionary, else it is Chao's (1984) lower estimate
  f1 (f1 - 1) / (2 (f2 + 1)) and one, or several times as many: one of `TAILS`, of which sums say which is likelier.

N is unknown (`worlds`). The law of the size at each node of N is binomial with the mean and variance above, which comes
close to the exact one (Ehm 1991), or normal where the step to the next node is wider than the law. A share `OUTSIDE` of
each law is spread over all sizes r as 1 / (r + 1), for parties whose population is another one; up to the number of
candidates only where a dictionary is granted, which is taken to be complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, ndtr
from scipy.stats import binom

from leakledger.attacks.transcript.ring_size.worlds import STEP, Worlds

Floats = NDArray[np.float64]

PRIOR_COUNT, OUTSIDE = 0.5, 0.02
TAILS, TAIL_CHANCES = (1.0, 4.0, 16.0), np.array([0.5, 0.3, 0.2])
QUANTILES = 16  # of values that occur equally often
EXACT, FINE = 512, 0.9  # most trials of a law that is binomial; most variance between nodes, in units of the mean
WIDEST = 1e6  # sizes beyond are left out of the share outside


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
    of numbers of rows times `tails`, those of unseen values.
    """

    sizes: Floats = field(repr=False)
    weights: Floats
    tails: int = 1
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
        weights = np.outer(self.worlds.weights, self._tail_chances)
        laws = np.stack([self.worlds.mixtures @ self._at_nodes(k, length, step) for k in range(weights.shape[1])], 1)
        laws = (1 - OUTSIDE) * laws + OUTSIDE * _anywhere(length, step, self._most)
        return Laws(laws.reshape(-1, length), weights.ravel(), weights.shape[1], step)

    @cached_property
    def _classes(self) -> list[tuple[Floats, Floats]]:
        """For each tail the chances of values, and how many values have each."""
        known = self.known
        if known.probabilities is not None:
            return [(known.probabilities, np.ones(len(known.probabilities)))]
        if known.candidates is not None:
            return [chances_of(known.counts, max(known.candidates - len(known.counts), 0))]
        least = unseen_values(known.counts) + 1
        return [chances_of(known.counts, round(tail * least)) for tail in TAILS]

    @property
    def _tail_chances(self) -> Floats:
        return TAIL_CHANCES if len(self._classes) == len(TAILS) else np.ones(1)

    @property
    def _most(self) -> float:
        return WIDEST if self.known.candidates is None else float(max(self.known.candidates, len(self.known.counts)))

    def _at_nodes(self, tail: int, length: int, step: int) -> Floats:
        """(nodes, length)."""
        chances, times = self._classes[tail]
        rows = self.worlds.rows
        mean, variance, between = moments(rows, chances, times)
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


def chances_of(counts: NDArray[np.int64], unseen: int) -> tuple[Floats, Floats]:
    """The chance of each class of values, and how many values it has; all chances add up to 1."""
    rows, once = float(counts.sum()), float((counts == 1).sum())
    beyond = (once + PRIOR_COUNT) / (rows + 1) if unseen else 0.0
    seen = [_quantiles(float(c), int(n)) for c, n in zip(*np.unique(counts, return_counts=True), strict=True)]
    parts = [(seen, 1 - beyond), ([_quantiles(0.0, unseen)] if unseen else [], beyond if seen else 1.0)]
    chances, times = [], []
    for classes, share in parts:
        if classes:
            rates, many = (np.concatenate(x) for x in zip(*classes, strict=True))
            chances.append(share * rates / (rates @ many))
            times.append(many)
    return np.concatenate([*chances, np.zeros(0)]), np.concatenate([*times, np.zeros(0)])


def _quantiles(count: float, values: int) -> tuple[Floats, Floats]:
    """Rates of values that occur equally often: even quantiles of Gamma(c + a), and how many values have each."""
    cells = min(values, QUANTILES)
    rates: Floats = gammaincinv(count + PRIOR_COUNT, (np.arange(cells) + 0.5) / cells)
    return rates, np.full(cells, values / cells)


def unseen_values(counts: NDArray[np.int64]) -> int:
    """Chao's estimate of how many values the population has beside those counted."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return -(-once * (once - 1) // (2 * (twice + 1)))


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
    """(length,) 1 / (r + 1) over sizes up to `most`, on cells."""
    edges = np.log(np.minimum(np.arange(length + 1) * step + 1.0, most + 1))
    law: Floats = np.diff(edges) / np.log(most + 1)
    return law


def equal_parties(candidates: int, chance: float, longest: int) -> Floats:
    """(longest,) the size of a party that holds each of some candidates with one chance: binomial."""
    law: Floats = binom.pmf(np.arange(longest), candidates, chance)
    return law


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
