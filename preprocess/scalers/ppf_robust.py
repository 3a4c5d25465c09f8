"""`ppf-robust`: (x - median) / (third quartile - first) by the quartiles of all rows, searched with encrypted counts.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", section V-C, algorithms 2 and 3. The
search is that of `federated-robust` (`quantile_search` has the readings); counts of rows, and of values below and above
each midpoint, go to the server as ciphertexts whose sum all clients decrypt together. It begins at global extremes,
found as `ppf-minmax` finds them (line 19): within what these are off by, or at the declared ranges.

Reading: what is decrypted collectively is heard by everyone, as the paper says of mean and variance; of the counts it
says neither that nor the opposite. With `counts_to = "server"` clients hear midpoints only, from which all but one of
them have a bound of the last one's counts at each, not the counts. The server decrypts them in either case: with all
clients but one it has those of the last one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import GlobalExtremes
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import Matrix, ScalerFit, shared_fit
from leakledger.preprocess.scalers.encrypted import Counting, EncryptedScaler
from leakledger.preprocess.scalers.encrypted_extremes import compared, rows_within, search, total_rows
from leakledger.preprocess.scalers.federated_robust import as_public, begun, declared_ends


@dataclass(frozen=True)
class PpfRobust(EncryptedScaler):
    search_from: Literal["extremes", "declared"] = option(
        "extremes", help="where the search begins: at global extremes, compared as ciphertexts, or at declared ranges"
    )
    search_precision: float = option(1e-4, above=0, help="the epsilon of the search, in raw units")
    at_points: Literal["counted", "left-out"] = option(
        "counted",
        help="values equal to a midpoint count as below, as printed; or as neither: exact searches end",
    )
    counts_to: Literal["everyone", "server"] = option(
        "everyone", help="who hears the decrypted counts at midpoints; clients hear the midpoints in any case"
    )

    name = "ppf-robust"
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, section V-C, algorithms 2 and 3"
    by_quartiles = True
    said_to_share = "global rows, extremes, counts at midpoints and quartiles, with everyone (ours: section V-C)"

    @property
    def searched_to(self) -> float:
        return self.search_precision

    @property
    def multiplying(self) -> tuple[float, float]:
        return super().multiplying if self.search_from == "extremes" else (0.0, 0.0)

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Raises ValueError, naming the party, for a value outside its declared range and for too many rows."""
        columns = self.checked(fed, columns)
        return self.fit_with(self.keys(fed) if self.search_from == "extremes" else None, columns, fed)

    def fit_with(self, run: Collective | None, columns: Mapping[str, At[Matrix]], fed: Federation) -> ScalerFit:
        """The protocol with keys for comparisons at hand, where it takes any; columns within their ranges."""
        counting, ranges = Counting.begin(fed, self.hiding_bits), self.declared()
        total = total_rows(counting, columns)
        ends: Public[GlobalExtremes] = fed.public(declared_ends, ranges)
        if run is not None:
            told = compared(run, columns, ranges)
            ends = fed.public(partial(widened, ranges, rows_within(len(columns))), told)
        state = fed.local(fed.server, begun, total, ends)
        strict, aloud = self.at_points == "left-out", self.counts_to == "everyone"
        points = search(counting, columns, state, strict, self.search_precision, aloud)
        return shared_fit(fed, columns, fed.public(as_public, points, ends))


def widened(ranges: Ranges, within: float, ends: GlobalExtremes) -> GlobalExtremes:
    """As far as rows may lie beyond them: a search that begins inside misses the values outside."""
    slack = within * ranges.half
    return GlobalExtremes(np.maximum(ends.minimum - slack, ranges.low), np.minimum(ends.maximum + slack, ranges.high))
