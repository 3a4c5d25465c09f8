"""How many distinct values a party holds of whom only the population is known: an occupancy model.

Each candidate value v occurs in the rows of a party with N rows Poisson(N pi_v) times, so the party holds v with chance
1 - exp(-N pi_v), and its number of distinct values is Poisson-binomial. What the adversary knows of pi:

* granted marginals: pi_v itself;
* its own rows, n of them, with c_v occurrences of v: pi_v has a Gamma(c_v + a, n) posterior (a = `PRIOR_COUNT`). All
  parties share pi, so it is not averaged over for each party by itself: values of one count take the quantiles of their
  posterior. A value that the adversary has not seen counts c_v = 0. How many of those there are follows from a granted
  dictionary, else it is one more than Chao's (1984) lower estimate f1 (f1 - 1) / (2 (f2 + 1)), with f1 and f2 the
  numbers of values that occur once and twice.

N is unknown: log-normal with standard deviation `spread` of the logarithm of the ratio of a party's rows to the mean of
k observers. Of this variance a part 1 / (k + 1) is the observers' own deviation, which all other parties have in
common: it makes *worlds*, within which parties are independent. A share `OUTSIDE` of each law is spread evenly over all
sizes, for parties whose population is another one; beyond the number of candidates too, unless a dictionary is granted,
which is taken to be complete. The law of a
Poisson-binomial is computed by its recurrence over values, for several features and all N at once; beyond `EXACT`
values by a normal law.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr
from scipy.stats import binom

Floats = NDArray[np.float64]

PRIOR_COUNT, OUTSIDE = 0.5, 0.02
NODES, WORLDS = np.linspace(-2.5, 2.5, 17), 5
REACH = 3  # how many times beyond the number of candidates a size may lie
TOGETHER = 8  # features whose laws are computed in one go, of similar numbers of values
EXACT = 512


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
    """`sizes` (worlds, length): in each world, the chance of each size of a party. `weights` (worlds,) add up to 1.

    Within a world parties are independent; what they have in common is which world it is.
    """

    sizes: Floats = field(repr=False)
    weights: Floats

    @property
    def overall(self) -> Floats:
        """(length,) the law of one party alone."""
        law: Floats = self.weights @ self.sizes
        return law


def size_priors(known: Sequence[Known], parties: int, spread: float) -> list[Laws]:
    """For each feature the law of another party's size; `parties` hold the own rows together."""
    absent = [_absent(k, parties, spread) for k in known]  # F arrays (nodes, values)
    common = spread / np.sqrt(parties + 1)  # of the adversary's mean level, seen from the level of the population
    own = spread * np.sqrt(parties / (parties + 1))
    worlds = spread * NODES[:: len(NODES) // (WORLDS - 1)]
    weights = _normal_weights(worlds[None], common)[0]
    mixtures = _normal_weights(spread * NODES[None] - worlds[:, None], own)  # (worlds, nodes)
    return [
        Laws(_with_outside(mixtures @ law, k.candidates is not None), weights)
        for k, law in zip(known, _laws(absent), strict=True)
    ]


def _normal_weights(distances: Floats, deviation: float) -> Floats:
    """Rows of normal densities that add up to 1."""
    exponent = -((distances / max(deviation, 1e-9)) ** 2) / 2
    density = np.exp(exponent - exponent.max(-1, keepdims=True))
    normal: Floats = density / density.sum(-1, keepdims=True)
    return normal


def _with_outside(laws: Floats, complete: bool) -> Floats:
    """(worlds, longer) the laws with a share spread evenly, beyond their end unless the candidates are `complete`."""
    length = laws.shape[1] if complete else REACH * laws.shape[1] + 20
    found = np.full((len(laws), length), OUTSIDE / length)
    found[:, : laws.shape[1]] += (1 - OUTSIDE) * laws
    return found


def unseen_values(counts: NDArray[np.int64]) -> int:
    """Chao's estimate of how many values the population has beside those counted."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return -(-once * (once - 1) // (2 * (twice + 1)))


def equal_parties(candidates: int, chance: float, longest: int) -> Floats:
    """(longest,) the size of a party that holds each of some candidates with one chance: binomial."""
    law: Floats = binom.pmf(np.arange(longest), candidates, chance)
    return law


def _absent(known: Known, parties: int, spread: float) -> Floats:
    """(nodes, values) the chance that another party lacks each candidate, at each assumed number of its rows."""
    rows = max(known.rows, 1.0)
    others = rows / max(parties, 1) * np.exp(spread * NODES)[:, None]
    if known.probabilities is not None:
        return np.exp(-others * known.probabilities)
    counts = known.counts
    unseen = unseen_values(counts) + 1 if known.candidates is None else max(known.candidates - len(counts), 0)
    return np.exp(-others * _typical(np.concatenate([np.zeros(unseen), np.sort(counts)])) / rows)


def _typical(counts: Floats) -> Floats:
    """(values,) quantiles of Gamma(c + a, 1), as many as values have the count c: a typical draw of all of them."""
    _, first, inverse, times = np.unique(counts, return_index=True, return_inverse=True, return_counts=True)
    rank = np.arange(len(counts)) - first[inverse]  # counts are sorted
    rates: Floats = gammaincinv(counts + PRIOR_COUNT, (rank + 0.5) / times[inverse])
    return rates


def _laws(absent: Sequence[Floats]) -> list[Floats]:
    """F arrays (nodes, values + 1): by the recurrence for features of few values, some at once, else the normal law."""
    laws = [_normal(a) if a.shape[1] > EXACT else np.empty(0) for a in absent]
    few = sorted((i for i, a in enumerate(absent) if a.shape[1] <= EXACT), key=lambda i: absent[i].shape[1])
    for group in (few[k : k + TOGETHER] for k in range(0, len(few), TOGETHER)):
        padded = np.ones((len(group), len(NODES), absent[group[-1]].shape[1]))
        for row, i in enumerate(group):
            padded[row, :, : absent[i].shape[1]] = absent[i]
        exact = poisson_binomial(padded)
        for row, i in enumerate(group):
            laws[i] = exact[row, :, : absent[i].shape[1] + 1]
    return laws


def poisson_binomial(absent: Floats) -> Floats:
    """(..., v + 1) the law of the number of values held, each lacking with its own chance (..., v)."""
    law = np.zeros((*absent.shape[:-1], absent.shape[-1] + 1))
    law[..., 0] = 1.0
    for k in range(absent.shape[-1]):
        held = law[..., : k + 1] * (1 - absent[..., k, None])
        law[..., : k + 1] -= held
        law[..., 1 : k + 2] += held
    return law


def _normal(absent: Floats) -> Floats:
    mean, deviation = (1 - absent).sum(1), np.sqrt(np.maximum((absent * (1 - absent)).sum(1), 1e-6))
    edges = (np.arange(absent.shape[1] + 2) - 0.5 - mean[:, None]) / deviation[:, None]
    law: Floats = np.diff(ndtr(edges), axis=1)
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
