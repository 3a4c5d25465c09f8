"""`pooled`: the yardstick. Every client hands its columns to the server, which scales as if there were one table.

No federation: it is here to measure against. With `columns="all"` and `ddof=1` it is the pipeline published with
TabLeak: every column standardised, one-hot columns included, with the bounds of the numeric features known to the
adversary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalPowers, PooledColumns, PooledQuantiles, PooledStatistics
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    beyond_rounding,
    nonzero,
    shared_fit,
)
from leakledger.preprocess.scalers.one_party import By, check_columns, likeliest_power, of_powers, of_quartiles
from leakledger.preprocess.scalers.quantile_search import LEVELS


@dataclass(frozen=True)
class Pooled(Scaler):
    """`by`: as of `local`, over the rows of all parties. The server tells everyone what it scales by."""

    by: By = option("zscore", help='mean and deviation, extremes, quartiles ("robust"), or those of a power')
    ddof: Literal[0, 1] = option(0, help="a variance divides by the count less this")

    name = "pooled"
    reference = "centralised preprocessing (no federation)"
    said_to_share = "every row, with the server (ours: no federation)"
    federated = False

    def __post_init__(self) -> None:
        check_columns(self.by, self.columns)

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        tables = {c: fed.local(c, PooledColumns, x) for c, x in columns.items()}
        received = fed.gather(tables, to=fed.server)
        if self.by == "robust":
            quartiles = fed.broadcast(fed.local(fed.server, table_quartiles, *received))
            return shared_fit(fed, columns, fed.public(by_quartiles_told, quartiles))
        if self.by == "yeo-johnson":
            likeliest = fed.broadcast(fed.local(fed.server, powers, *received))
            return shared_fit(fed, columns, fed.public(of_powers, likeliest))
        statistics = fed.broadcast(fed.local(fed.server, partial(table_statistics, self.ddof), *received))
        return shared_fit(fed, columns, fed.public(as_public if self.by == "zscore" else by_range_told, statistics))


def table_statistics(ddof: int, *parts: PooledColumns) -> PooledStatistics:
    table = np.vstack([p.rows for p in parts])
    mean = table.mean(axis=0)
    std = beyond_rounding(table.std(axis=0, ddof=ddof if len(table) > ddof else 0), mean)
    return PooledStatistics(mean, std, table.min(axis=0), table.max(axis=0))


def table_quartiles(*parts: PooledColumns) -> PooledQuantiles:
    return PooledQuantiles(np.quantile(np.vstack([p.rows for p in parts]), LEVELS, axis=0))


def powers(*parts: PooledColumns) -> GlobalPowers:
    return likeliest_power(np.vstack([p.rows for p in parts]))


def by_quartiles_told(told: PooledQuantiles) -> PublicScaling:
    return of_quartiles(told.value)


def by_range_told(told: PooledStatistics) -> PublicScaling:
    return PublicScaling(told.minimum, nonzero(told.maximum - told.minimum), told.minimum, told.maximum, unit="range")


def as_public(told: PooledStatistics) -> PublicScaling:
    return PublicScaling(told.mean, nonzero(told.std), told.minimum, told.maximum, unit="deviation")
