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
which is taken to be complete.

The law of a Poisson-binomial is computed by its recurrence over `BLOCK` values, for all blocks of all features and all
N at once; the blocks of a feature are then convolved by FFT. Beyond `EXACT` values it is a normal law.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import gammaincinv, ndtr
from scipy.stats import binom

Floats = NDArray[np.float64]

PRIOR_COUNT, OUTSIDE = 0.5, 0.02
NODES, WORLDS = np.linspace(-2.5, 2.5, 17), 5
REACH = 3  # how many times beyond the number of candidates a size may lie
BLOCK, EXACT = 16, 512


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
    absent = _absent(known, parties, spread)  # F arrays (nodes, values)
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


def _absent(known: Sequence[Known], parties: int, spread: float) -> list[Floats]:
    """For each feature (nodes, values): the chance that another party lacks each candidate, at each number of rows."""
    rows = [max(k.rows, 1.0) for k in known]
    counts = [np.concatenate([np.zeros(_unseen(k)), np.sort(k.counts)]) for k in known]
    common = np.split(_typical(counts), np.cumsum([len(c) for c in counts])[:-1])
    pi = [
        rates / n if k.probabilities is None else k.probabilities
        for k, rates, n in zip(known, common, rows, strict=True)
    ]
    expected = np.concatenate([p * (n / max(parties, 1)) for p, n in zip(pi, rows, strict=True)])
    absent = np.exp(-np.exp(spread * NODES)[:, None] * expected)
    return np.split(absent, np.cumsum([len(p) for p in pi])[:-1], axis=1)


def _unseen(known: Known) -> int:
    """How many candidates the adversary takes to exist beside those in its own rows."""
    if known.candidates is None:
        return unseen_values(known.counts) + 1
    return max(known.candidates - len(known.counts), 0)


def _typical(counts: Sequence[Floats]) -> Floats:
    """(all values,) of each feature, whose counts are sorted, the quantiles of Gamma(c + a, 1), as many as values have
    the count c: a typical draw of all of them.
    """
    together = np.concatenate([*counts, np.zeros(0)])
    first = np.cumsum([0, *(len(c) for c in counts)])[:-1]
    begins = np.diff(together, prepend=-1) != 0
    begins[first[first < len(together)]] = True
    starts = np.flatnonzero(begins)
    times = np.diff(starts, append=len(together))
    rank = np.arange(len(together)) - np.repeat(starts, times)
    rates: Floats = gammaincinv(together + PRIOR_COUNT, (rank + 0.5) / np.repeat(times, times))
    return rates


def _laws(absent: Sequence[Floats]) -> list[Floats]:
    """F arrays (nodes, values + 1): exact for features of few values, else the normal law."""
    few = [a if a.shape[1] <= EXACT else a[:, :0] for a in absent]
    blocks = [_in_blocks(a) for a in few]
    parts = poisson_binomial(np.concatenate(blocks, axis=1))  # (nodes, all blocks, BLOCK + 1)
    ends = np.cumsum([0, *(b.shape[1] for b in blocks)])
    return [
        _normal(a) if a.shape[1] > EXACT else _sum_law(parts[:, i:j], a.shape[1] + 1)
        for a, i, j in zip(absent, ends, ends[1:], strict=False)
    ]


def _in_blocks(absent: Floats) -> Floats:
    """(nodes, blocks, BLOCK) with values that nobody holds at the end."""
    nodes, values = absent.shape
    padded = np.ones((nodes, -(-max(values, 1) // BLOCK) * BLOCK))
    padded[:, :values] = absent
    return padded.reshape(nodes, -1, BLOCK)


def _sum_law(parts: Floats, length: int) -> Floats:
    """(nodes, length) the law of the sum of independent numbers with laws (nodes, numbers, k); it ends at `length`."""
    if parts.shape[1] == 1:
        return parts[:, 0, :length]
    size = next_fast_len(length, real=True)
    law: Floats = np.maximum(irfft(rfft(parts, size).prod(axis=1), size)[:, :length], 0.0)
    return law


def poisson_binomial(absent: Floats) -> Floats:
    """(..., v + 1) the law of the number of values held, each lacking with its own chance (..., v)."""
    lacking = np.moveaxis(absent, -1, 0)
    law = np.zeros((len(lacking) + 1, *lacking.shape[1:]))  # numbers first: slices of it are one piece of memory
    law[0] = 1.0
    for k, missing in enumerate(lacking):
        held = law[: k + 1] * (1 - missing)
        law[: k + 1] -= held
        law[1 : k + 2] += held
    return np.moveaxis(law, 0, -1)


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
