"""What an attack gets of what the prior leaves, cluster by cluster: the numbers that two runs are compared by.

In a cluster the prior leaves a *room* to the perfect value. The attack *gains* part of it, nothing where it does worse,
since an adversary can always guess, and *lacks* the rest. The level of a cluster, L, is a share of the mean room of
both runs. How much the prior leaves depends on the rows that a seed draws, by luck nothing, and that luck is no growth.
So L is measured from the end that the baseline is nearer to, and scatters by that luck as little as can be:

    L = gain / mean room              where the baseline gains up to half of what there is,
    L = (mean room - lack) / mean room       where it gains more: all that there is to know is 1 in every cluster.

Both have the same mean where the prior has the same chances, and differ by the same in pairs of one seed. Either is a
plain mean of clusters: to divide each run's gain by its own room would make false alarms (of ten seeds, 9 % for 5 %).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.gate.snapshot import Measure
from leakledger.audit.scoring.metrics import PERFECT

ROOM = 0.1  # of a metric's scale: where the prior leaves less, single cells of it do not count tenfold
HALF = 0.5

Levels = Mapping[tuple[int, str, int], float]
"""L by seed, victim and round; nothing of a side that made no claim."""


@dataclass(frozen=True)
class _Parts:
    """Of each cluster, (n,)."""

    rooms: NDArray[np.float64]
    gains: NDArray[np.float64]


def levels(now: Measure | None, before: Measure | None) -> tuple[Levels, Levels]:
    """L of both runs' clusters."""
    a, b = _parts(now), _parts(before)
    mean = float(np.mean(np.concatenate([a.rooms, b.rooms]))) if now or before else 0.0
    full = float(b.gains.sum()) > HALF * float(b.rooms.sum())
    share = _from_the_top(mean) if full else _from_the_prior(mean)
    return _by_cluster(now, share(a)), _by_cluster(before, share(b))


def mean_share(measure: Measure | None) -> float:
    """What the attack gains in all clusters together of what the prior leaves there: from 0 to 1, for a reader."""
    parts = _parts(measure)
    return float(parts.gains.mean()) / max(float(parts.rooms.mean()), ROOM) if measure else 0.0


def _from_the_prior(mean: float) -> Callable[[_Parts], NDArray[np.float64]]:
    return lambda of: of.gains / max(mean, ROOM)


def _from_the_top(mean: float) -> Callable[[_Parts], NDArray[np.float64]]:
    return lambda of: (mean - (of.rooms - of.gains)) / max(mean, ROOM)


def _parts(measure: Measure | None) -> _Parts:
    if measure is None:
        return _Parts(np.zeros(0), np.zeros(0))
    perfect = 1.0 if measure.column else PERFECT[measure.metric]  # of a column it is a share of cells, or a correlation
    rooms = np.array([abs(perfect - c.prior) for c in measure.clusters])
    return _Parts(rooms, np.maximum(0.0, rooms - np.array([abs(perfect - c.value) for c in measure.clusters])))


def _by_cluster(measure: Measure | None, values: NDArray[np.float64]) -> Levels:
    clusters = measure.clusters if measure else ()
    return {(c.seed, c.victim, c.round): float(x) for c, x in zip(clusters, values, strict=True)}
