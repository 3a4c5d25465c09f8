"""What every scaler is: a protocol over matrices of columns that leaves a shift and a scale at each party, and a curve
before them where it bends columns.

Scalers see the encoded table: numeric features first, then the encoded categorical columns. By default they scale the
numeric ones only; `columns="all"` scales one-hot columns too, as the pipeline published with TabLeak does. That option
changes what is observed: statistics of a one-hot column are the frequencies of its values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.noise.columns import Ranges, declared_ranges
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.power import yeo_johnson
from leakledger.preprocess.views import Mechanism, Unit

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """One party's fitted scaling: scaled = (curve(x) - shift_) / scale_, column by column.

    The curve is that of Yeo and Johnson with power_; None: there is none.
    """

    shift_: Vector
    scale_: Vector
    power_: Vector | None = None

    def transform(self, columns: Matrix) -> Matrix:
        """(rows, columns) scaled."""
        bent = columns if self.power_ is None else yeo_johnson(columns, self.power_)
        scaled: Matrix = (bent - self.shift_) / self.scale_
        return scaled


@dataclass(frozen=True)
class PublicScaling:
    """What is public of a scaling; None where nothing is.

    `unit` is what every party scales by, published or not. Leave it "" for anything else: a number counts as exact to a
    thousandth of a deviation, and a scale that is taken for one and is not gives certificates to wrong rows.
    """

    shift: Vector | None = None
    scale: Vector | None = None
    low: Vector | None = None
    high: Vector | None = None
    power: Vector | None = None
    unit: Unit = ""


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
    by_quartiles: ClassVar[bool] = False  # whether these are what is searched for, whose distance scales a column
    extra: ClassVar[str] = ""  # of the installation, with the library that ciphertexts need; empty: none

    @abstractmethod
    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Runs the protocol over the (rows, columns) matrices of all clients, whose numbers are finite (`prepare`)."""

    def under(self, schema: Schema) -> Self:
        """This scaler with what it needs to know of the declared columns. Raises ValueError for what is missing."""
        return self

    @property
    def needs_ranges(self) -> bool:
        """Whether numeric columns must have declared ranges."""
        return False

    def rehearsal(self) -> "Scaler":
        """What refuses the same tables, without work that would take long."""
        return self

    @property
    def effort(self) -> tuple[float, float]:
        """Seconds and bytes that each client adds to a run, roughly, where they are worth a word beforehand."""
        return 0.0, 0.0

    def faintest(self, clients: int) -> float:
        """The deviation below which a column of so many clients counts as constant though its rows differ, as a share
        of the width of its declared range.
        """
        return 0.0

    def narrowest(self, clients: int) -> float:
        """The distance of its extremes up to which such a column counts as constant, as a share of that width."""
        return 0.0

    @property
    def searched_to(self) -> float:
        """How far from the truth, in raw units, what is searched for may be found; 0: nothing is searched for."""
        return 0.0

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        """The noise on everything that one client sends. Raises ValueError for a declaration that is missing."""
        return ()

    @property
    def unprotected(self) -> str:
        """In words, what of the rows is sent, or put into other rows, without noise; empty: nothing."""
        return f"{self.name} adds no noise to what it takes from the rows ({self.said_to_share or 'no account'})"

    @property
    def by_own_rows(self) -> bool:
        """Whether a row is scaled by what its client knows of its other rows and tells nobody: then one record changes
        how the others look, whatever others are told.
        """
        return False


@dataclass(frozen=True)
class NoisedScaler(Scaler):
    """A scaler that can add noise to what clients send. `ranges` are set by `under`."""

    scaler_epsilon: float | None = option(
        None, above=0, help="budget of a client's statistics of columns: each is sent with noise; none: as it is"
    )
    ranges: Ranges | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.scaler_epsilon is not None and self.columns == "all":
            raise ValueError(
                f"scaler_epsilon is {self.scaler_epsilon:g} and columns all: encoded columns have no declared ranges "
                'for the noise; set columns = "numeric"'
            )

    def under(self, schema: Schema) -> Self:
        if not self.needs_ranges:
            return self
        return replace(self, ranges=declared_ranges(schema.numeric, dict(schema.ranges), self.name))

    @property
    def needs_ranges(self) -> bool:
        return self.scaler_epsilon is not None

    def declared(self) -> Ranges:
        """The ranges. Raises ValueError where `under` was not asked."""
        if self.ranges is None:
            raise ValueError(f"{self.name} was not told the declared ranges of its columns: call under(schema) first")
        return self.ranges

    @property
    def unprotected(self) -> str:
        return "" if self.scaler_epsilon is not None else super().unprotected


def check_ranges(columns: Matrix, ranges: Ranges, party: str, who: str) -> Matrix:
    """The columns. Raises ValueError, naming party and feature, for a value outside its declared range."""
    for feature, (low, high), values in zip(ranges.features, ranges.bounds, columns.T, strict=True):
        if not ((values >= low) & (values <= high)).all():
            raise ValueError(
                f"{who}: {party} has a value of {feature!r} outside the declared range [{low:g}, {high:g}]; "
                "widen the range under [data], or in the schema"
            )
    return columns


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
    return Scaling(public.shift, public.scale, public.power)
