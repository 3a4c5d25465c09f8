"""`max-abs`: every column divided by the largest absolute value that any client reports. An example."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Scaler, ScalerFit, nonzero, shared_fit
from leakledger_tally.messages import GlobalLargest, LocalLargest


@dataclass(frozen=True)
class MaxAbs(Scaler):
    name = "max-abs"
    reference = "an example"
    said_to_share = "each client's largest absolute values, with the server; the global ones, with everyone (ours)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        largest = {c: fed.local(c, local_largest, x) for c, x in columns.items()}  # x: (rows, columns)
        received = fed.gather(largest, to=fed.server)
        told = fed.broadcast(fed.local(fed.server, global_largest, *received))
        return shared_fit(fed, columns, fed.public(by_largest, told))  # scaled = (x - shift) / scale


def local_largest(columns: Matrix) -> LocalLargest:
    return LocalLargest(np.abs(columns).max(axis=0))


def global_largest(*parts: LocalLargest) -> GlobalLargest:
    return GlobalLargest(np.max([p.largest for p in parts], axis=0))


def by_largest(told: GlobalLargest) -> PublicScaling:
    return PublicScaling(shift=np.zeros_like(told.largest), scale=nonzero(told.largest))
