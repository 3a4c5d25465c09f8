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
from leakledger.preprocess.messages import PooledColumns, PooledStatistics
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


@dataclass(frozen=True)
class Pooled(Scaler):
    ddof: Literal[0, 1] = option(0, help="a variance divides by the count less this")

    name = "pooled"
    reference = "centralised preprocessing (no federation)"
    said_to_share = "every row, with the server (ours: no federation)"
    federated = False

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        tables = {c: fed.local(c, PooledColumns, x) for c, x in columns.items()}
        received = fed.gather(tables, to=fed.server)
        statistics = fed.broadcast(fed.local(fed.server, partial(table_statistics, self.ddof), *received))
        return shared_fit(fed, columns, fed.public(as_public, statistics))


def table_statistics(ddof: int, *parts: PooledColumns) -> PooledStatistics:
    table = np.vstack([p.rows for p in parts])
    mean = table.mean(axis=0)
    std = beyond_rounding(table.std(axis=0, ddof=ddof if len(table) > ddof else 0), mean)
    return PooledStatistics(mean, std, table.min(axis=0), table.max(axis=0))


def as_public(told: PooledStatistics) -> PublicScaling:
    return PublicScaling(told.mean, nonzero(told.std), told.minimum, told.maximum)
