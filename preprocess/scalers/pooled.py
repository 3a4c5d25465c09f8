"""`pooled`: the yardstick. Every client hands its columns to the server, which scales as if there were one table.

No federation: it is here to measure against. With `columns="all"` and `ddof=1` it is the pipeline published with
TabLeak: every column standardised, one-hot columns included, with the bounds of the numeric features known to the
adversary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from preprocess.federation import At, Federation
from preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    Vector,
    beyond_rounding,
    nonzero,
    shared_fit,
)


@dataclass(frozen=True)
class Pooled(Scaler):
    ddof: int = 0

    name = "pooled"
    reference = "centralised preprocessing (no federation)"
    said_to_share = "every row, with the server (ours: no federation)"
    federated = False

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        received = fed.gather(columns, to=fed.server, topic="pooled.columns")
        statistics = fed.broadcast(
            fed.local(fed.server, partial(table_statistics, self.ddof), *received), topic="pooled.statistics"
        )
        return shared_fit(fed, columns, fed.public(as_public, statistics))


def table_statistics(ddof: int, *parts: Matrix) -> dict[str, Vector]:
    table = np.vstack(parts)
    mean = table.mean(axis=0)
    std = beyond_rounding(table.std(axis=0, ddof=ddof if len(table) > ddof else 0), mean)
    return {"mean": mean, "std": std, "minimum": table.min(axis=0), "maximum": table.max(axis=0)}


def as_public(statistics: Mapping[str, Vector]) -> PublicScaling:
    return PublicScaling(statistics["mean"], nonzero(statistics["std"]), statistics["minimum"], statistics["maximum"])
