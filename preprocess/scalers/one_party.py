"""What a scaler takes of rows that are in one place: the four things that `pooled` and `local` can scale by."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from leakledger.preprocess.messages import GlobalPowers
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Vector, beyond_rounding, nonzero
from leakledger.preprocess.scalers.power_search import local_logs, local_moments, narrowed, rounds, start, tried
from leakledger.preprocess.scalers.quantile_search import LEVELS
from leakledger.preprocess.views import Unit

By = Literal["zscore", "minmax", "robust", "yeo-johnson"]
ONLY_NUMBERS = ("robust", "yeo-johnson")
REACH, PRECISION, POWERS = 3.0, 1e-6, 9  # of the search for a power


def check_columns(by: By, columns: str) -> None:
    """Raises ValueError where encoded columns would be scaled by what only numbers have."""
    if by in ONLY_NUMBERS and columns == "all":
        raise ValueError(
            f'by is {by} and columns all: one-hot columns have no quartiles and no shape; set columns = "numeric"'
        )


def by_deviation(columns: Matrix) -> PublicScaling:
    """By mean and deviation. The mean of equal decimals is off by rounding, and they would be no zeros: they are it."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    mean = np.where(low == high, low, columns.mean(axis=0))
    return PublicScaling(mean, nonzero(beyond_rounding(columns.std(axis=0), mean)), unit="deviation")


def by_range(columns: Matrix) -> PublicScaling:
    low, high = columns.min(axis=0), columns.max(axis=0)
    return PublicScaling(low, nonzero(high - low), unit="range")


def by_quartiles(columns: Matrix) -> PublicScaling:
    return of_quartiles(np.quantile(columns, LEVELS, axis=0))


def of_quartiles(quartiles: Matrix, low: Vector | None = None, high: Vector | None = None) -> PublicScaling:
    """Scaled = (x - median) / (third quartile - first), by quartiles (3, columns)."""
    first, median, third = quartiles
    return PublicScaling(median, nonzero(third - first), low, high, unit="quartiles")


def by_power(columns: Matrix) -> PublicScaling:
    return of_powers(likeliest_power(columns))


def of_powers(told: GlobalPowers) -> PublicScaling:
    """Bent by the power, then scaled to mean 0 and deviation 1."""
    return PublicScaling(told.mean, nonzero(told.std), power=told.power, unit="deviation")


def likeliest_power(columns: Matrix) -> GlobalPowers:
    """The search of the federation, for one party."""
    logs, search = local_logs(columns), start(columns.shape[1], REACH)
    for _ in range(rounds(REACH, PRECISION, POWERS)):
        powers = tried(search, POWERS)
        search = narrowed(search, powers, [logs], local_moments(columns, powers))
    return search.result()


BY: Final[Mapping[By, Callable[[Matrix], PublicScaling]]] = MappingProxyType(
    {"zscore": by_deviation, "minmax": by_range, "robust": by_quartiles, "yeo-johnson": by_power}
)
UNITS: Final[Mapping[By, Unit]] = MappingProxyType(
    {"zscore": "deviation", "minmax": "range", "robust": "quartiles", "yeo-johnson": "deviation"}
)
