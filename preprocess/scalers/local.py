"""`local`: every client scales by its own statistics; nothing is exchanged and nothing is public.

Source: "Privacy-preserving tabular data transformation", section 5.1: the same raw value becomes different numbers at
different clients, which costs model quality.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    Scaling,
    beyond_rounding,
    nonzero,
)


@dataclass(frozen=True)
class Local(Scaler):
    """`by` "zscore" uses the client's mean and deviation, "minmax" its extremes."""

    by: Literal["zscore", "minmax"] = option("zscore", help="mean and deviation, or the extremes")

    name = "local"
    reference = "Privacy-preserving tabular data transformation, section 5.1, eq. 3 and 4"
    said_to_share = "nothing (section 5.1)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        own = own_zscore if self.by == "zscore" else own_range
        return ScalerFit({c: fed.local(c, own, x) for c, x in columns.items()}, fed.public(PublicScaling))


def own_zscore(columns: Matrix) -> Scaling:
    mean = columns.mean(axis=0)
    return Scaling(mean, nonzero(beyond_rounding(columns.std(axis=0), mean)))


def own_range(columns: Matrix) -> Scaling:
    low, high = columns.min(axis=0), columns.max(axis=0)
    return Scaling(low, nonzero(high - low))
