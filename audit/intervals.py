"""Student-t intervals of a mean over clusters, and bounds as texts; the only place where audits take quantiles."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95


def quantile(clusters: int, confidence: float = CONFIDENCE) -> float:
    """Half the width, in standard errors, of the interval over so many clusters: two or more."""
    return float(stdtrit(clusters - 1, 0.5 + confidence / 2))


def interval(
    values: Sequence[float] | NDArray[np.float64], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Student-t interval of the mean; None below two values. Equal values give an interval of no width."""
    if len(values) < 2:
        return None
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / np.sqrt(len(values))
    half = quantile(len(values), confidence) * error
    return float(mean - half), float(mean + half)


def no_less(bound: float, digits: int) -> str:
    """An upper bound in so many digits after the point, rounded up: a text must not promise more than was found."""
    return _rounded(bound, digits, ROUND_CEILING)


def no_more(bound: float, digits: int) -> str:
    """A lower bound in so many digits after the point, rounded down."""
    return _rounded(bound, digits, ROUND_FLOOR)


def beside(low: float | None, high: float | None, digits: int) -> str:
    """An interval to stand behind its estimate, rounded outwards; nothing where either end is missing."""
    return "" if low is None or high is None else f" [{no_more(low, digits)}, {no_less(high, digits)}]"


def _rounded(bound: float, digits: int, way: str) -> str:
    if not np.isfinite(bound):
        return f"{bound}"
    return f"{Decimal(repr(float(bound))).quantize(Decimal(1).scaleb(-digits), way):z}"
