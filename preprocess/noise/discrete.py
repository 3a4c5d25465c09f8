"""Exact samples of discrete Laplace and discrete Gaussian noise: whole numbers in, whole numbers out, no float between.

Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, algorithms 1 to 3,
for many samples at a time. Every probability is a comparison of whole numbers below 2^62, so what is drawn has exactly
the stated distribution if `below` is uniform.

    discrete Laplace of scale t      P(x) proportional to exp(-|x| / t)
    discrete Gaussian of scale s     P(x) proportional to exp(-x^2 / (2 s^2))

How long a draw takes depends on what is drawn, not on what the noise is added to.
"""

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.noise.integers import Below, Whole

LARGEST_SCALE = 4096  # of a Gaussian: the largest comparison is one of 2^61
BEYOND = 2**19  # steps of the Gaussian's proposal: at least 128 of its scales, a chance of 1e-55


def bernoulli_exp(above: Whole, under: Whole, below: Below) -> NDArray[np.bool_]:
    """(k,) whether coins fell that fall with chance exp(-above/under), for whole above >= 0 and under > 0."""
    whole, rest = np.divmod(above, under)
    fell = np.ones(len(whole), np.bool_)
    while (open_ := np.flatnonzero(fell & (whole > 0))).size:  # exp(-1), as often as there are wholes
        one = np.ones(len(open_), np.int64)
        fell[open_] = _fraction(one, one, below)
        whole[open_] -= 1
    at = np.flatnonzero(fell)
    fell[at] = _fraction(rest[at], under[at], below)
    return fell


def _fraction(above: Whole, under: Whole, below: Below) -> NDArray[np.bool_]:
    """Algorithm 1 for above <= under: the first failure of coins with chance above / (under K), K = 1, 2, ..., is at
    an odd K with chance exp(-above/under).
    """
    odd, left, k = np.ones(len(above), np.bool_), np.arange(len(above)), 1
    while len(left):
        left = left[below(under[left] * k) < above[left]]
        odd[left] ^= True
        k += 1
    return odd


def discrete_laplace(scale: int, count: int, below: Below) -> Whole:
    """(count,) samples, algorithm 2 with s = 1. Raises ValueError for a scale below 1."""
    if scale < 1:
        raise ValueError(f"the scale of discrete Laplace noise is {scale} steps; it must be at least 1")
    drawn, left = np.zeros(count, np.int64), np.arange(count)
    while len(left):
        bounds = np.full(len(left), scale, np.int64)
        inner = below(bounds)
        accepted = bernoulli_exp(inner, bounds, below)
        size = inner + scale * _runs(len(left), below)
        negative = below(np.full(len(left), 2, np.int64)) == 1
        accepted &= ~(negative & (size == 0))
        drawn[left[accepted]] = np.where(negative, -size, size)[accepted]
        left = left[~accepted]
    return drawn


def _runs(count: int, below: Below) -> Whole:
    """(count,) how often in a row a coin of chance exp(-1) falls."""
    length, left = np.zeros(count, np.int64), np.arange(count)
    while len(left):
        one = np.ones(len(left), np.int64)
        left = left[_fraction(one, one, below)]
        length[left] += 1
    return length


def discrete_gaussian(scale: int, count: int, below: Below) -> Whole:
    """(count,) samples, algorithm 3: discrete Laplace of scale s + 1, kept with chance
    exp(-(|y| - s^2/(s + 1))^2 / (2 s^2)). Raises ValueError for a scale that is not from 1 to `LARGEST_SCALE`.
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise ValueError(f"the scale of discrete Gaussian noise is {scale} steps; it must be 1 to {LARGEST_SCALE}")
    drawn, left, wide = np.zeros(count, np.int64), np.arange(count), scale + 1
    while len(left):
        proposed = discrete_laplace(wide, len(left), below)
        size = np.minimum(np.abs(proposed), BEYOND)
        above, under = (size * wide - scale * scale) ** 2, np.full(len(left), 2 * (scale * wide) ** 2, np.int64)
        kept = bernoulli_exp(above, under, below) & (np.abs(proposed) < BEYOND)
        drawn[left[kept]] = proposed[kept]
        left = left[~kept]
    return drawn
