"""`federated-minmax`: the server takes the clients' extremes, received in the clear, and publishes the global ones.

Source: "Privacy-preserving tabular data transformation", eq. 3 and section 5.2.

With `scaler_epsilon` each client sends a value near its least and one near its greatest in rank, drawn by the
exponential mechanism on the declared range (`noise.ranks`). With `quantile` these are places near that quantile and its
mirror, which hundreds of rows tell far better than their ends: most numbers are then between 0 and 1, some beyond.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalExtremes, LocalExtremes, NoisedExtremes, NoisedGlobalExtremes
from leakledger.preprocess.noise.columns import Ranges, at_places, describe_extremes, noised_extremes
from leakledger.preprocess.noise.ranks import as_level
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    NoisedScaler,
    PublicScaling,
    ScalerFit,
    nonzero,
    shared_fit,
)
from leakledger.preprocess.views import Mechanism


@dataclass(frozen=True)
class FederatedMinMax(NoisedScaler):
    quantile: float | None = option(
        None, above=0, below=0.5, help="under noise: this quantile and its mirror in place of the extremes"
    )

    name = "federated-minmax"
    reference = "Privacy-preserving tabular data transformation, section 5.2, eq. 3"
    said_to_share = "each client's extremes, with the server; the global ones, with everyone (section 5.2)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quantile is not None and self.scaler_epsilon is None:
            raise ValueError(
                f"quantile is {self.quantile:g} without scaler_epsilon: without noise federated-minmax sends extremes "
                "alone; set scaler_epsilon, or leave quantile out"
            )
        _ = self.level

    @property
    def level(self) -> Fraction | None:
        return None if self.quantile is None else as_level(self.quantile)

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        if self.scaler_epsilon is not None:
            return self._fit_noised(fed, columns, self.declared(), self.scaler_epsilon)
        extremes = {c: fed.local(c, local_extremes, x) for c, x in columns.items()}
        received = fed.gather(extremes, to=fed.server)
        bounds = fed.broadcast(fed.local(fed.server, global_extremes, *received))
        return shared_fit(fed, columns, fed.public(by_range, bounds))

    def _fit_noised(
        self, fed: Federation, columns: Mapping[str, At[Matrix]], ranges: Ranges, epsilon: float
    ) -> ScalerFit:
        told = {
            c: fed.local(c, noised_extremes, x, ranges, epsilon, self.level, fed.key_stream(c))
            for c, x in columns.items()
        }
        received = fed.gather(told, to=fed.server, kind=NoisedExtremes)
        bounds = fed.broadcast(fed.local(fed.server, outermost, *received))
        return shared_fit(fed, columns, fed.public(partial(by_places, ranges), bounds))

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        if self.scaler_epsilon is None:
            return ()
        ranges = self.under(schema).declared()
        return describe_extremes(ranges, self.scaler_epsilon, self.level, NoisedExtremes.topic)


def local_extremes(columns: Matrix) -> LocalExtremes:
    return LocalExtremes(columns.min(axis=0), columns.max(axis=0))


def global_extremes(*parts: LocalExtremes) -> GlobalExtremes:
    low, high = parts[0].minimum, parts[0].maximum
    for p in parts[1:]:
        low, high = p.minimum.clip(max=low), p.maximum.clip(min=high)
    return GlobalExtremes(low, high)


def by_range(bounds: GlobalExtremes) -> PublicScaling:
    low, high = bounds.minimum, bounds.maximum
    return PublicScaling(shift=low, scale=nonzero(high - low), low=low, high=high, unit="range")


def outermost(*parts: NoisedExtremes) -> NoisedGlobalExtremes:
    least, greatest = (np.array([getattr(p, name) for p in parts]) for name in ("minimum", "maximum"))
    return NoisedGlobalExtremes(least.min(axis=0), greatest.max(axis=0))


def by_places(ranges: Ranges, told: NoisedGlobalExtremes) -> PublicScaling:
    """Noise may draw the least above the greatest, or places that are the same number where the range has fewer numbers
    than places: then the whole declared range counts. Rows lie within that, and not always between the places.
    """
    low, high = at_places(told.minimum, ranges), at_places(told.maximum, ranges)
    crossed = low >= high
    least, greatest = ranges.middle - ranges.half, ranges.middle + ranges.half
    low, high = np.where(crossed, least, low), np.where(crossed, greatest, high)
    return PublicScaling(shift=low, scale=high - low, low=least, high=greatest, unit="range")
