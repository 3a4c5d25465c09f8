"""Whether an attack gets more than the prior: one p-value per hypothesis, one-sided, and their family over an audit.

Two tests. Over clusters: Student-t of the gains, less what the floor allows, with one cluster more that gained nothing.
That cluster keeps a few equal gains from proving anything with certainty: of n equal ones, t is n. In one cluster: the
attack's score beside the scores that prior-only adversaries drew against the same rows; it needs no second cluster, and
finds the one batch in ten that leaks.

A family of hypotheses about one cell of the verdict table (attacks, adversaries of the kind, metrics, parties, columns,
single clusters) is corrected by Bonferroni, the cells of an audit by Holm (1979): to pick the worst is selection.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from leakledger.audit.clusters import units

FEWEST = 5  # units: below, no statement about a mean

Floats = NDArray[np.float64]


def over_clusters(gains: Floats, seeds: Sequence[int]) -> float | None:
    """The p-value of gains (n,) with mean at most 0; None below five units, since those cannot say."""
    found = units(gains, seeds)
    if len(found) < FEWEST:
        return None
    with_none = np.append(found.values, 0.0)
    error = float(np.std(with_none, ddof=1) * np.sqrt(found.inflation / len(with_none)))
    if error == 0:
        return 1.0
    return float(stdtr(len(found) - 1, -with_none.mean() / error))


def in_one_cluster(gain: float, spread: float, draws: int) -> float:
    """The p-value of a gain over the mean of `draws` scores of the prior, which scatter by `spread` (Student-t of one
    new draw); 1 where they do not scatter, or are too few to say how much.
    """
    if draws < FEWEST or spread <= 0:
        return 1.0
    return float(stdtr(draws - 1, -gain / (spread * np.sqrt(1 + 1 / draws))))


def of_any(values: Sequence[float]) -> float:
    """The p-value of the smallest of several (Bonferroni); 1 of none."""
    return min([1.0, *(len(values) * p for p in values)])


def holm(values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number (Holm 1979): what is below alpha is a family with at most that error."""
    adjusted, running = [1.0] * len(values), 0.0
    for rank, k in enumerate(sorted(range(len(values)), key=lambda k: values[k])):
        running = max(running, min(1.0, (len(values) - rank) * values[k]))
        adjusted[k] = running
    return adjusted
