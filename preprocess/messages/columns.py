"""Messages about numeric columns: what scalers exchange. Columns are in the order of the scaler's matrix."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload
from leakledger.preprocess.messages.shapes import shaped

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LocalMeans(Payload):
    """The sender's row count, and the mean (columns,) of each column in raw units."""

    topic = "zscore.mean"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    count: int = field(metadata=shaped(least=1))
    mean: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class GlobalMeans(Payload):
    """The mean (columns,) over all clients' rows."""

    topic = "zscore.global-mean"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    mean: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class LocalSquares(Payload):
    """The sum (columns,) of the sender's squared deviations from the global mean."""

    topic = "zscore.variance"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER
    bare = True

    squares: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class GlobalDeviations(Payload):
    """The standard deviation (columns,) over all clients' rows."""

    topic = "zscore.global-std"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    std: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class LocalExtremes(Payload):
    """The least and the greatest value (columns,) that the sender holds in each column."""

    topic = "minmax.local"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    minimum: Floats = field(metadata=shaped("columns"))
    maximum: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class GlobalExtremes(Payload):
    """The least and the greatest value (columns,) that anybody holds."""

    topic = "minmax.global"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    minimum: Floats = field(metadata=shaped("columns"))
    maximum: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class PooledColumns(Payload):
    """The sender's rows (rows, columns) themselves, before scaling."""

    topic = "pooled.columns"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    rows: Floats = field(metadata=shaped("rows", "columns"), repr=False)


@dataclass(frozen=True)
class PooledStatistics(Payload):
    """Mean, standard deviation and extremes (columns,) of the pooled table."""

    topic = "pooled.statistics"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    mean: Floats = field(metadata=shaped("columns"))
    std: Floats = field(metadata=shaped("columns"))
    minimum: Floats = field(metadata=shaped("columns"))
    maximum: Floats = field(metadata=shaped("columns"))
