"""What the prior alone knows of a party's statistics: those that the best way to guess has right.

The ways: the federation's own value (the pooled statistic, the mean row count, the size of the joint dictionary), or of
the other parties' values the mean, the median, or the one that is right for most of them. Whole numbers are guessed
whole. Which way is taken for a kind of statistic: `other_parties`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.scoring.other_parties import best_way

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """One kind of statistic, of which a party has n: `actual` of every party (n,), NaN where it has none, the `pooled`
    ones (n,), how far off a right guess may be (n,), and whether it is a `whole` number.
    """

    actual: dict[str, Floats]
    pooled: Floats
    tolerance: Floats
    whole: bool


Guess = Callable[[Known, Sequence[str]], Floats]


def known_by_prior(of: Known, victim: str, wanted: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(k,) which of a party's statistics in the places `wanted` (k,) the prior alone knows."""
    parties = list(of.actual)
    way = best_way(parties, victim, WAYS, partial(_share_right, of))
    right = _right(of, WAYS[way], victim, [p for p in parties if p != victim])
    known: NDArray[np.bool_] = right[wanted]
    return known


def _share_right(of: Known, way: Guess, victim: str, known: Sequence[str]) -> float:
    has = ~np.isnan(of.actual[victim])
    return float(_right(of, way, victim, known)[has].mean()) if has.any() else 0.0


def _right(of: Known, way: Guess, victim: str, known: Sequence[str]) -> NDArray[np.bool_]:
    """(n,) what a way to guess has right."""
    right: NDArray[np.bool_] = np.abs(way(of, known) - of.actual[victim]) <= of.tolerance
    return right


def _pooled(of: Known, known: Sequence[str]) -> Floats:
    return of.pooled


def _of_others(summary: Callable[[Floats, Known], Floats]) -> Guess:
    """A guess from the others' values; the pooled one where no other party has the statistic."""

    def guess(of: Known, known: Sequence[str]) -> Floats:
        if not known:
            return of.pooled
        values = np.stack([of.actual[p] for p in known])
        somewhere: NDArray[np.bool_] = np.asarray(~np.isnan(values).all(0))
        found = of.pooled.copy()
        found[somewhere] = summary(values[:, somewhere], _at(of, somewhere))
        return np.round(found) if of.whole else found

    return guess


def _at(of: Known, places: NDArray[np.bool_]) -> Known:
    return Known({}, of.pooled[places], of.tolerance[places], of.whole)


def _mean(values: Floats, of: Known) -> Floats:
    means: Floats = np.nanmean(values, axis=0)
    return means


def _median(values: Floats, of: Known) -> Floats:
    medians: Floats = np.nanmedian(values, axis=0)
    return medians


def _mode(values: Floats, of: Known) -> Floats:
    """(n,) of the values (others, n), the one that is right for most of the others."""
    near = (np.abs(values[:, None] - values[None]) <= of.tolerance).sum(1)  # a NaN is near nothing
    modes: Floats = np.take_along_axis(values, near.argmax(0)[None], axis=0)[0]
    return modes


WAYS: dict[str, Guess] = {
    "pooled": _pooled,
    "mean": _of_others(_mean),
    "median": _of_others(_median),
    "mode": _of_others(_mode),
}
