"""`server-minmax`: the server takes the clients' extremes, received in the clear, and publishes the global ones.

Source: "Privacy-preserving tabular data transformation", eq. 3 and section 5.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalExtremes, LocalExtremes
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Scaler, ScalerFit, nonzero, shared_fit


@dataclass(frozen=True)
class ServerMinMax(Scaler):
    name = "server-minmax"
    reference = "Privacy-preserving tabular data transformation, section 5.2, eq. 3"
    said_to_share = "each client's extremes, with the server; the global ones, with everyone (section 5.2)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        extremes = {c: fed.local(c, local_extremes, x) for c, x in columns.items()}
        received = fed.gather(extremes, to=fed.server)
        bounds = fed.broadcast(fed.local(fed.server, global_extremes, *received))
        return shared_fit(fed, columns, fed.public(by_range, bounds))


def local_extremes(columns: Matrix) -> LocalExtremes:
    return LocalExtremes(columns.min(axis=0), columns.max(axis=0))


def global_extremes(*parts: LocalExtremes) -> GlobalExtremes:
    low, high = parts[0].minimum, parts[0].maximum
    for p in parts[1:]:
        low, high = p.minimum.clip(max=low), p.maximum.clip(min=high)
    return GlobalExtremes(low, high)


def by_range(bounds: GlobalExtremes) -> PublicScaling:
    low, high = bounds.minimum, bounds.maximum
    return PublicScaling(shift=low, scale=nonzero(high - low), low=low, high=high)
