"""`ppf-minmax`: min-max scaling by the extremes of all rows, found on ciphertexts.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", section V-B. How extremes are found,
and what each way costs, is in `encrypted_extremes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalExtremes
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, ScalerFit, Vector, nonzero, shared_fit
from leakledger.preprocess.scalers.encrypted import Counting, EncryptedScaler
from leakledger.preprocess.scalers.encrypted_extremes import compared, compared_within, counted, rows_within


@dataclass(frozen=True)
class PpfMinMax(EncryptedScaler):
    extremes: Literal["comparisons", "counts"] = option(
        "comparisons", help="how extremes are found: by comparing ciphertexts, or by a search with encrypted counts"
    )
    search_precision: float = option(1e-4, above=0, help="the epsilon of a search by counts, in raw units")

    name = "ppf-minmax"
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, section V-B"
    said_to_share = 'global extremes, with everyone ("reveals only" these, section V-B)'

    def narrowest(self, clients: int) -> float:
        return compared_within(clients) if self.extremes == "comparisons" else 0.0

    @property
    def searched_to(self) -> float:
        return self.search_precision if self.extremes == "counts" else 0.0

    @property
    def multiplying(self) -> tuple[float, float]:
        return super().multiplying if self.extremes == "comparisons" else (0.0, 0.0)

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Raises ValueError, naming party and feature, for a value outside its declared range."""
        columns, ranges = self.checked(fed, columns), self.declared()
        if self.extremes == "comparisons":
            return self.fit_with(self.keys(fed), columns)
        counting = Counting.begin(fed, self.hiding_bits)
        ends = counted(counting, columns, ranges, self.search_precision)
        return shared_fit(fed, columns, fed.public(partial(by_ends, ranges, self.search_precision), ends))

    def fit_with(self, run: Collective, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """By comparisons with keys at hand; columns within their ranges."""
        ranges, fed = self.declared(), run.fed
        ends = compared(run, columns, ranges)
        within = rows_within(len(columns)) * ranges.half
        return shared_fit(fed, columns, fed.public(partial(by_ends, ranges, within), ends))


def by_ends(ranges: Ranges, within: float | Vector, ends: GlobalExtremes) -> PublicScaling:
    """Rows may lie beyond the ends by `within`."""
    low, high = ends.minimum, ends.maximum
    least, most = np.maximum(low - within, ranges.low), np.minimum(high + within, ranges.high)
    return PublicScaling(shift=low, scale=nonzero(high - low), low=least, high=most, unit="range")
