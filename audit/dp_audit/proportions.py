"""Exact one-sided bounds of a proportion, Clopper and Pearson 1934."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]


def at_least(hits: ArrayLike, trials: int, error: float) -> Floats:
    """What the proportion is not below, but with a chance of at most `error`; `hits` of `trials`, any shape."""
    hits = np.asarray(hits, float)
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error))


def at_most(hits: ArrayLike, trials: int, error: float) -> Floats:
    """What the proportion is not above, but with a chance of at most `error`."""
    return 1 - at_least(trials - np.asarray(hits, float), trials, error)
