"""`local`: every client scales by its own statistics; nothing is exchanged and nothing is public.

Source: "Privacy-preserving tabular data transformation", section 5.1: the same raw value becomes different numbers at
different clients, which costs model quality. Robust scaling and the Yeo-Johnson transformation: "Bridging Local and
Federated Data Normalization in Federated Learning", section III-A.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Scaler, ScalerFit, as_scaling
from leakledger.preprocess.scalers.one_party import BY, UNITS, By, check_columns
from leakledger.preprocess.views import Unit


@dataclass(frozen=True)
class Local(Scaler):
    """`by` "zscore" uses the client's mean and deviation, "minmax" its extremes, "robust" its median and quartiles,
    "yeo-johnson" its likeliest power, then mean and deviation.
    """

    by: By = option("zscore", help='mean and deviation, extremes, quartiles ("robust"), or those of a power')

    name = "local"
    reference = "Privacy-preserving tabular data transformation, section 5.1, eq. 3 and 4"
    said_to_share = "nothing (section 5.1)"

    def __post_init__(self) -> None:
        check_columns(self.by, self.columns)

    @property
    def unprotected(self) -> str:
        return "local scales a client's rows by their own statistics, so one record changes how all others look"

    @property
    def by_own_rows(self) -> bool:
        return True

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        own = {c: fed.local(c, BY[self.by], x) for c, x in columns.items()}
        scalings = {c: fed.local(c, as_scaling, s) for c, s in own.items()}
        return ScalerFit(scalings, fed.public(nothing_but_the_unit, UNITS[self.by]))


def nothing_but_the_unit(unit: Unit) -> PublicScaling:
    return PublicScaling(unit=unit)
