"""Which values there are and how likely each is in a row: several populations, weighed by the observers' own rows.

A population has K values, those seen in the own rows and `unseen` others. Its rates, in units of their mean, are all
alike, Gamma (a symmetric Dirichlet), or in proportion to rank^-e (Zipf 1949). Each shape is held as atoms: rates r_q,
of which a share w_q of the values has each. Given n own rows in which value v occurs c_v times,

    P(c | population) ~ K! / unseen! prod_v sum_q w_q Poisson(c_v; n r_q / K) / P(sum_v c_v = n),

and of the values that occur c times w_q Poisson(c; n r_q / K) / sum have the rate r_q: the own rows say not only which
population is likely, but in each of them how likely the values are that they lack. A value that occurs often has the
rate that it shows. (One shape alone, Gamma(1/2), takes the rarest values for far rarer than they are in a Zipf or a
uniform population: large parties then seem to hold fewer values than they do. With a granted dictionary and parties of
log-sd 2 about 80 % of 90 % intervals held.) How many are unseen is spread evenly over orders of magnitude around Chao's
(1984) lower estimate f1 (f1 - 1) / (2 (f2 + 1)), f_i being the number of values that occur i times; where a dictionary
is granted it is all that the dictionary has beyond them, or a part, since one party need not draw on the whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln

Floats = NDArray[np.float64]

PRIOR_COUNT, FEW_COUNT = 0.5, 0.15  # of Gamma: the second has rates of all orders of magnitude
EXPONENTS = (0.5, 1.0, 1.5)  # of Zipf's law
ATOMS = 24  # of each shape
OFTEN = 16  # occurrences from which a value has the rate that it shows
MULTIPLES = np.concatenate([2 ** np.linspace(-2, 2, 9), 3.0 ** np.arange(2, 7)])  # of Chao's estimate
PARTS, PART_CHANCES = (1.0, 0.5, 0.25, 0.125, 0.05, 0.0), (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)  # of a granted dictionary
LARGER = 30.0  # so many times the own rows: populations are told apart by how many values are among these
PLACES = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.999])  # quantiles of that number that are kept


@dataclass(frozen=True)
class Population:
    """`chances` (classes,) of a value in a row, `times` (classes,) how many values have each (an expectation, not
    whole); `weight`, of all populations together 1. `chances @ times` is 1.
    """

    chances: Floats = field(repr=False)
    times: Floats = field(repr=False)
    weight: float


def populations(counts: NDArray[np.int64], candidates: int | None = None) -> list[Population]:
    """The likely populations of an adversary whose own rows have these counts (k,) of values, none of them 0.

    `candidates`: how many values the granted dictionary has.
    """
    held, many = np.unique(counts, return_counts=True)
    found = []
    for unseen, prior in _unseen(counts, candidates).items():
        values = len(counts) + unseen
        for rates, shares in _shapes(values) if values else ():
            chances, times, fit = _given(held, many, rates, shares, unseen)
            found.append((chances, times, fit + np.log(prior)))
    if not found:
        return [Population(np.zeros(0), np.zeros(0), 1.0)]
    fits = np.array([fit for *_, fit in found])
    weights = np.exp(fits - fits.max())
    rows = LARGER * (counts.sum() + 1)
    order = np.argsort([(1 - np.exp(-rows * chances)) @ times for chances, times, _ in found], kind="stable")
    upto = weights[order].cumsum() / weights.sum()
    kept = order[np.minimum(upto.searchsorted(PLACES), len(order) - 1)]
    shares = np.diff([0.0, *(PLACES[1:] + PLACES[:-1]) / 2, 1.0])
    return [Population(found[i][0], found[i][1], float(shares[kept == i].sum())) for i in dict.fromkeys(kept.tolist())]


def unseen_values(counts: NDArray[np.int64]) -> int:
    """Chao's estimate of how many values the population has beside those counted."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return -(-once * (once - 1) // (2 * (twice + 1)))


def _unseen(counts: NDArray[np.int64], candidates: int | None) -> dict[int, float]:
    """Numbers of values that the own rows lack, and the chance of each."""
    found: dict[int, float] = {}
    if candidates is None:
        numbers = np.append(0, np.round(MULTIPLES * (unseen_values(counts) + 1)))
        chances = np.append(1.0, np.gradient(np.log(MULTIPLES)))
    else:
        numbers, chances = np.round(np.array(PARTS) * max(candidates - len(counts), 0)), np.array(PART_CHANCES)
    for unseen, chance in zip(numbers.astype(int).tolist(), chances.tolist(), strict=True):
        found[unseen] = found.get(unseen, 0.0) + chance
    return found


def _shapes(values: int) -> Iterator[tuple[Floats, Floats]]:
    """The rates (atoms,) of each shape, of mean 1, and the share of the values that has each."""
    yield np.ones(1), np.ones(1)
    for count in (PRIOR_COUNT, FEW_COUNT):
        quantiles = gammaincinv(count, (np.arange(ATOMS) + 0.5) / ATOMS)
        yield quantiles / quantiles.mean(), np.full(ATOMS, 1 / ATOMS)
    ends = np.unique(np.round(np.geomspace(1, values + 1, ATOMS + 1)))
    shares = np.diff(ends) / values
    for exponent in EXPONENTS:
        below = np.log(ends - 0.5) if exponent == 1 else (ends - 0.5) ** (1 - exponent) / (1 - exponent)
        rates = np.diff(below) / shares
        yield rates / (rates @ shares), shares


def _given(
    held: NDArray[np.int64], many: NDArray[np.int64], rates: Floats, shares: Floats, unseen: int
) -> tuple[Floats, Floats, float]:
    """The classes of a population given that `many` values occur `held` times each, and the logarithm of the chance."""
    rows, values = float(held @ many), int(many.sum()) + unseen
    occurs, of_each = np.append(held, 0), np.append(many, unseen)
    expected = rows * rates / values  # (atoms,) occurrences
    logs = occurs[:, None] * np.log(expected + 1e-300) - expected - gammaln(occurs + 1)[:, None] + np.log(shares)
    highest = logs.max(axis=1, keepdims=True)  # scipy's logsumexp takes four times as long for arrays of this size
    terms = np.exp(logs - highest)
    totals = terms.sum(axis=1, keepdims=True)
    each = (highest + np.log(totals))[:, 0]
    uneven = rows**2 * float(shares @ (rates - 1) ** 2) / values  # variance of the rows that the iid rates add up to
    fit = float(of_each @ each) + gammaln(values + 1) - gammaln(unseen + 1) + 0.5 * np.log(rows + uneven + 1)
    few = occurs < OFTEN
    times = of_each[few] @ (terms / totals)[few]
    chances = np.concatenate([rates / values, occurs[~few] / max(rows, 1.0)])
    times = np.concatenate([times, of_each[~few].astype(np.float64)])
    return chances / (chances @ times), times, fit
