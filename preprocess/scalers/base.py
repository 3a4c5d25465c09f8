"""What every scaler is: a protocol over matrices of columns that leaves a shift and a scale at each party.

Scalers see the encoded table: numeric features first, then the encoded categorical columns. By default they scale the
numeric ones only; `columns="all"` scales one-hot columns too, as the pipeline published with TabLeak does. That option
changes what is observed: statistics of a one-hot column are the frequencies of its values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.options import option

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """One party's fitted scaling: scaled = (x - shift_) / scale_, column by column."""

    shift_: Vector
    scale_: Vector

    def transform(self, columns: Matrix) -> Matrix:
        """(rows, columns) scaled."""
        scaled: Matrix = (columns - self.shift_) / self.scale_
        return scaled


@dataclass(frozen=True)
class PublicScaling:
    """What is public of a scaling; None where nothing is."""

    shift: Vector | None = None
    scale: Vector | None = None
    low: Vector | None = None
    high: Vector | None = None


@dataclass(frozen=True)
class ScalerFit:
    scalings: Mapping[str, At[Scaling]]
    public: Public[PublicScaling]


@dataclass(frozen=True)
class Scaler(ABC):
    """A method for numeric features."""

    columns: Literal["numeric", "all"] = option("numeric", help='"all" scales the encoded columns too')

    name: ClassVar[str]
    reference: ClassVar[str]
    said_to_share: ClassVar[str] = ""  # what others learn by its own account, and whose account; empty: none
    federated: ClassVar[bool] = True

    @abstractmethod
    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Runs the protocol over the (rows, columns) matrices of all clients."""


ROUNDING = 2.0**-40  # of a mean: what float64 sums of many rows may leave of a constant column


def beyond_rounding(std: Vector, mean: Vector) -> Vector:
    """The deviations, 0 where they are within the rounding of their mean: such a column is constant."""
    real: Vector = np.where(std > ROUNDING * np.abs(mean), std, 0.0)
    return real


def nonzero(spread: Vector) -> Vector:
    """A column without spread is shifted only: its scale becomes 1."""
    result: Vector = np.where(spread > 0, spread, 1.0)
    return result


def shared_fit(fed: Federation, clients: Mapping[str, object], public: Public[PublicScaling]) -> ScalerFit:
    """Every client scales by the same public numbers."""
    return ScalerFit({c: fed.local(c, as_scaling, public) for c in clients}, public)


def as_scaling(public: PublicScaling) -> Scaling:
    if public.shift is None or public.scale is None:
        raise ValueError("this scaling is not public")
    return Scaling(public.shift, public.scale)
