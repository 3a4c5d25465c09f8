"""`zscore-sac`: z-score by global mean and deviation from three secure sums; no party sends its own as they are.

Source: "Privacy-preserving tabular data transformation", section 6, eq. 4 to 6. Counts, sums and sums of squared
deviations are added up by secure average computation (`crypto.secure_sum`, `crypto.secure_moments`); every client ends
with the same mean and deviation and scales by itself. Needs three clients. All features share a message.

With `sharing="ring"` rows are rounded to 2^-120 and then added exactly, so that totals are the same however rows are
divided among clients (`crypto.grid_sums`); each client's must be below 2^135 over the number of clients. The result is
the pooled z-score to a relative 1e-9 (the mean: of the largest magnitude) as long as the deviation is above 1e-12 and
above 1e-6 of the largest magnitude, in one pass too. With `sharing="proportional"`, the paper's, adding up costs a
relative 2 (n + 2) 2^-53 more, and each part tells its holder something: see `crypto.sharing`; in one pass a column of
which that leaves no deviation is refused (`crypto.secure_moments`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from leakledger.preprocess.crypto.grid_sums import grid_squares, grid_sum
from leakledger.preprocess.crypto.secure_moments import Moments, SacOptions, Summaries, announce, secure_moments
from leakledger.preprocess.crypto.sharing import Number
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import ZScoreAnnounced
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    Scaling,
    nonzero,
    shared_fit,
)


@dataclass(frozen=True)
class ZScoreSac(SacOptions, Scaler):
    """`ddof` 0 divides by the total count (eq. 5), 1 by one less. The other options are those of `SacOptions`."""

    ddof: Literal[0, 1] = option(0, help="a variance divides by the count less this")

    name = "zscore-sac"
    reference = "Privacy-preserving tabular data transformation, section 6, eq. 4 to 6"
    said_to_share = "pooled sums, mean and deviation, with everyone; no local value (section 8.4)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Raises ValueError for fewer than three clients or sums out of range."""
        moments = secure_moments(fed, columns, self, self.scheme(), SUMMARIES[self.sharing], self.name)
        statistics = {c: fed.local(c, partial(Moments.zscore, ddof=self.ddof), m) for c, m in moments.items()}
        if self.publish == "everyone":
            return shared_fit(fed, columns, fed.public(as_public, announce(fed, statistics, ZScoreAnnounced)))
        return ScalerFit({c: fed.local(c, as_own, s) for c, s in statistics.items()}, fed.public(PublicScaling))


def column_sums(columns: Matrix) -> list[Number]:
    """Pairwise sums, which lose fewer digits than running ones."""
    return [*_sums(columns)]


def column_squares(columns: Matrix, centres: list[Fraction]) -> list[Number]:
    """Sums of squares around each centre, by float64 around the column's own mean and from there by fractions: what
    lies between the two is most of it in one pass, and is subtracted again.
    """
    rows, sums = len(columns), _sums(columns)
    own = np.array(sums, np.float64) / max(rows, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when it is shared
        around = _sums((columns - own) ** 2)
    return [_moved(rows, *of) for of in zip(sums, own.tolist(), around, centres, strict=True)]


def _moved(rows: int, total: float, old: float, squares: float, new: Fraction) -> Number:
    """Squares around `old` as squares around `new`."""
    if not np.isfinite([total, squares]).all():
        return float("inf")
    away = Fraction(old) - new
    return Fraction(squares) + 2 * away * (Fraction(total) - rows * Fraction(old)) + rows * away**2


def _sums(columns: Matrix) -> list[float]:
    with np.errstate(over="ignore"):
        return [float(s) for s in np.ascontiguousarray(columns.T).sum(axis=1)]


def ring_sums(columns: Matrix) -> list[Number]:
    """Sums that add up to the same for every division of the rows."""
    return [grid_sum(x) for x in columns.T]


def ring_squares(columns: Matrix, centres: list[Fraction]) -> list[Number]:
    """Sums of squares around each centre, likewise."""
    return [grid_squares(x, c) for x, c in zip(columns.T, centres, strict=True)]


SUMMARIES = {
    "proportional": Summaries(len, column_sums, column_squares),
    "ring": Summaries(len, ring_sums, ring_squares),
}


def as_public(statistics: Mapping[str, Any]) -> PublicScaling:
    return PublicScaling(statistics["mean"], nonzero(statistics["std"]), unit="deviation")


def as_own(statistics: Mapping[str, Any]) -> Scaling:
    return Scaling(statistics["mean"], nonzero(statistics["std"]))
