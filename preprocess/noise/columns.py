"""What a party releases of numeric columns: a count, sums and sums of squares with noise; extremes and quantiles.

Each number is clipped to its declared range, taken to [-1, 1] and rounded to 2^-32; sums of these are exact. One record
that is there or not moves the count by 1, each sum by at most 1 and each sum of squares by at most 1: the sensitivity
of every one of the 1 + 2F numbers, each of which has its part of the budget (`calibration`). Extremes, or a quantile
and its mirror in their place, are 2F draws of the exponential mechanism (`ranks`). Unit: one record of one party;
relation: add-remove.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isinf

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages import NoisedExtremes, NoisedMoments, NoisedMomentTotals
from leakledger.preprocess.noise.calibration import Noise, check_budget, noise_for
from leakledger.preprocess.noise.integers import Below, ByteStream, Whole, from_stream
from leakledger.preprocess.noise.ranks import (
    GRID,
    Target,
    draw_place,
    extreme_rank,
    extreme_target,
    in_steps,
    on_grid,
    quantile_target,
)
from leakledger.preprocess.views import Mechanism

Floats = NDArray[np.float64]
Bounds = tuple[float, float]
FINE = 2**32  # steps of a half range before sums
UNIFORM = 1 / 3  # the variance of a uniform column on [-1, 1], where the noise leaves none


@dataclass(frozen=True)
class Ranges:
    """Declared (low, high) of F columns, and their names."""

    features: tuple[str, ...]
    bounds: tuple[Bounds, ...]

    @property
    def low(self) -> Floats:
        return np.array([low for low, _ in self.bounds])

    @property
    def high(self) -> Floats:
        return np.array([high for _, high in self.bounds])

    @property
    def middle(self) -> Floats:
        return np.array([(low + high) / 2 for low, high in self.bounds])

    @property
    def half(self) -> Floats:
        return np.array([(high - low) / 2 for low, high in self.bounds])

    def unit(self, columns: Floats) -> Floats:
        """(n, F) columns with their ranges brought to [-1, 1]; what is beyond an end, by rounding too, is at it."""
        return np.clip((columns - self.middle) / self.half, -1.0, 1.0)


def declared_ranges(features: Sequence[str], ranges: dict[str, Bounds], who: str, what: str = "noise") -> Ranges:
    """The ranges of the columns, which `what` needs. Raises ValueError where one is missing, has no width, or one that
    float64 cannot halve.
    """
    for f in features:
        if f not in ranges:
            raise ValueError(
                f"{who}: {what} needs the range of {f!r}, and bounds are never taken from rows; declare it: "
                f"ranges = {{ {f} = [low, high] }} under [data], or in the schema"
            )
        low, high = ranges[f]
        if not low < high:
            raise ValueError(f"{who}: the declared range of {f!r} is {list(ranges[f])}, which has no width; widen it")
        if not low < (low + high) / 2 < high or isinf(high - low):
            raise ValueError(
                f"{who}: the declared range of {f!r} is {list(ranges[f])}, whose half is no float64; declare another, "
                "or take another unit"
            )
    return Ranges(tuple(features), tuple((float(ranges[f][0]), float(ranges[f][1])) for f in features))


def moments_noise(ranges: Ranges, epsilon: float, delta: float) -> Noise:
    """The noise on each of the 1 + 2F numbers of `noised_moments`, for a budget over all of them."""
    return noise_for(epsilon, delta, 1 + 2 * len(ranges.features))


def noised_moments(columns: Floats, ranges: Ranges, noise: Noise, stream: ByteStream) -> NoisedMoments:
    """Count, sums and sums of squares of (n, F) columns in [-1, 1], in steps of 1/`noise.sensitivity`."""
    count, sums, squares = released_moments(columns, ranges, noise, from_stream(stream))
    return NoisedMoments(int(count), sums, squares)


def released_moments(columns: Floats, ranges: Ranges, noise: Noise, below: Below) -> tuple[int, Whole, Whole]:
    """The same for any source of whole numbers."""
    told, features = noised_numbers(exact_moments(columns, ranges), noise, below), len(ranges.features)
    return int(told[0]), told[1 : 1 + features], told[1 + features :]


def exact_moments(columns: Floats, ranges: Ranges) -> Whole:
    """(1 + 2F,) count, sums and sums of squares in steps of 1/`FINE`."""
    if not np.isfinite(columns).all():
        raise ValueError("a column holds numbers that are not finite; remove or impute them first")
    unit = ranges.unit(columns)
    fine = [np.rint(x * FINE).astype(np.int64).sum(axis=0) for x in (unit, unit**2)]
    return np.concatenate([[len(columns) * FINE], *fine]).astype(np.int64)


def noised_numbers(fine: Whole, noise: Noise, below: Below) -> Whole:
    """(k,) exact numbers in steps of 1/`FINE`, each under noise of its own, in steps of the noise."""
    told: Whole = rounded(fine, noise) + noise.draw(len(fine), below)
    return told


def rounded(fine: Whole, noise: Noise) -> Whole:
    """Exact sums in fine steps to steps of the noise: two sums that are FINE apart stay `sensitivity` apart at most."""
    width = FINE // noise.sensitivity
    steps: Whole = (fine + width // 2) // width
    return steps


def total_moments(*parts: NoisedMoments) -> NoisedMomentTotals:
    return NoisedMomentTotals(
        sum(p.count for p in parts),
        np.sum([p.sums for p in parts], axis=0, dtype=np.int64),
        np.sum([p.squares for p in parts], axis=0, dtype=np.int64),
    )


def mean_and_std(told: NoisedMomentTotals, ranges: Ranges, noise: Noise, ddof: int = 0) -> tuple[Floats, Floats]:
    """(F,) mean and deviation in raw units, within the declared ranges; of noised sums, so nothing more is told.

    Where noise leaves a column no variance, it is taken for a uniform one.
    """
    rows = max(told.count / noise.sensitivity, 1.0)
    mean = np.clip(told.sums / noise.sensitivity / rows, -1.0, 1.0)
    variance = np.minimum(told.squares / noise.sensitivity / rows - mean**2, 1.0) * rows / max(rows - ddof, 1.0)
    std = np.sqrt(np.where(variance > 0, variance, UNIFORM))
    return ranges.middle + ranges.half * mean, ranges.half * std


def describe_moments(ranges: Ranges, noise: Noise, topic: str) -> tuple[Mechanism, ...]:
    """What everyone knows of `noised_moments`: one mechanism for each number."""

    def of(statistic: str, feature: str, low: float, high: float) -> Mechanism:
        known = {"topic": topic, "statistic": statistic, "feature": feature, "low": low, "high": high}
        return Mechanism(noise.kind, {**known, "sensitivity": noise.sensitivity, "scale": noise.scale})

    each = list(zip(ranges.features, ranges.bounds, strict=True))
    sums = [of(statistic, f, *b) for statistic in ("sum", "square") for f, b in each]
    return (of("count", "", 0.0, 1.0), *sums)


def noised_extremes(
    columns: Floats, ranges: Ranges, epsilon: float, level: Fraction | None, stream: ByteStream
) -> NoisedExtremes:
    """Places (F,) of the least and the greatest value of (n, F) columns on the grid of the declared ranges, or of the
    quantiles `level` and 1 - `level`; `epsilon` for all 2F of them.
    """
    below, each = from_stream(stream), rank_epsilon(ranges, epsilon)
    least, greatest = np.empty((2, len(ranges.bounds)), np.int64)
    for i, bounds in enumerate(ranges.bounds):
        places = on_grid(columns[:, i], *bounds)
        least[i], greatest[i] = both_ends(places, end_target(each, level), each, below)[:, 0]
    return NoisedExtremes(least, greatest)


def both_ends(places: Whole, target: Target, epsilon: float, below: Below, count: int = 1, grid: int = GRID) -> Whole:
    """(2, count) places drawn from the low end of rows at `places` (n,), and as many from the high end, mirrored;
    `epsilon` for each.
    """
    low = draw_place(places, target, epsilon, below, count, grid)
    return np.stack([low, grid - draw_place(grid - places, target, epsilon, below, count, grid)])


def end_target(epsilon: float, level: Fraction | None) -> Target:
    """The rank, from its end, of an extreme or of a quantile."""
    return extreme_target(epsilon) if level is None else quantile_target(level)


def rank_epsilon(ranges: Ranges, epsilon: float) -> float:
    """The budget of one extreme."""
    check_budget(epsilon, 0.0)
    each = epsilon / max(2 * len(ranges.features), 1)
    in_steps(each)  # refuses what is below a step
    return each


def at_places(places: Whole, ranges: Ranges) -> Floats:
    """(F,) raw values of places on the grid."""
    values: Floats = ranges.middle + ranges.half * (2 * places / GRID - 1)
    return values


def describe_extremes(ranges: Ranges, epsilon: float, level: Fraction | None, topic: str) -> tuple[Mechanism, ...]:
    """What everyone knows of `noised_extremes`: one mechanism for each place, with the rank from its end, or the level
    of a quantile.
    """
    each = rank_epsilon(ranges, epsilon)
    known = {"topic": topic, "epsilon": each, "grid": GRID}
    ends = [float(level), float(1 - level)] if level is not None else [extreme_rank(each)] * 2
    aim = "rank" if level is None else "level"
    return tuple(
        Mechanism("exponential", {**known, aim: end, "statistic": statistic, "feature": f, "low": low, "high": high})
        for statistic, end in zip(("minimum", "maximum"), ends, strict=True)
        for f, (low, high) in zip(ranges.features, ranges.bounds, strict=True)
    )
