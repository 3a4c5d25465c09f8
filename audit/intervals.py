"""Student-t intervals of a mean over clusters; the only place where audits take quantiles."""

from collections.abc import Sequence

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
