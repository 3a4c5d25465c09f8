"""Messages of searches that scalers run over several rounds: for quantiles, and for the powers of a transformation.

Columns are in the order of the scaler's matrix. A search runs for all columns at once, and for several quantiles or
powers of each: arrays are (quantiles or powers, columns).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload
from leakledger.preprocess.messages.shapes import shaped

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LocalRows(Payload):
    """How many rows the sender has."""

    topic = "quantiles.local-rows"
    discloses = Disclosure.SIZE
    about = About.SENDER
    bare = True

    count: int = field(metadata=shaped())


@dataclass(frozen=True)
class TotalRows(Payload):
    """How many rows all clients have together."""

    topic = "quantiles.rows"
    discloses = Disclosure.SIZE
    about = About.EVERYONE
    bare = True

    count: int = field(metadata=shaped())


@dataclass(frozen=True)
class SearchPoints(Payload):
    """The middle (quantiles, columns) of what is left of each search; where it is `found`, the quantile itself."""

    topic = "quantiles.points"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    point: Floats = field(metadata=shaped("quantiles", "columns"))
    found: Flags = field(metadata=shaped("quantiles", "columns"))


@dataclass(frozen=True)
class LocalRanks(Payload):
    """How many of the sender's values are below, and how many are above, the points (quantiles, columns) of the round.

    Whether a value that is the point counts as below is an option of the search.
    """

    topic = "quantiles.local"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    below: Whole = field(metadata=shaped("quantiles", "columns"))
    above: Whole = field(metadata=shaped("quantiles", "columns"))


@dataclass(frozen=True)
class GlobalRanks(Payload):
    """The same over all clients' values."""

    topic = "quantiles.global"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    below: Whole = field(metadata=shaped("quantiles", "columns"))
    above: Whole = field(metadata=shaped("quantiles", "columns"))


@dataclass(frozen=True)
class PooledQuantiles(Payload):
    """Quantiles (quantiles, columns) of the pooled table."""

    topic = "pooled.quantiles"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    value: Floats = field(metadata=shaped("quantiles", "columns"))


@dataclass(frozen=True)
class LocalLogs(Payload):
    """The sender's row count, and the sum (columns,) over its values x of sign(x) log(1 + |x|)."""

    topic = "yeo-johnson.local-logs"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    count: int = field(metadata=shaped())
    total: Floats = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class TriedPowers(Payload):
    """The powers (powers, columns) of the round, evenly spaced about the likeliest of the round before."""

    topic = "yeo-johnson.powers"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    power: Floats = field(metadata=shaped("powers", "columns"))


@dataclass(frozen=True)
class LocalPowerMoments(Payload):
    """Mean and sum of squared deviations from it (powers, columns) of the sender's values under each power; not finite
    under one whose images float64 does not have, as of numbers of 10^100 under the power 4.
    """

    topic = "yeo-johnson.local"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    mean: Floats = field(metadata=shaped("powers", "columns", finite=False))
    squares: Floats = field(metadata=shaped("powers", "columns", finite=False))


@dataclass(frozen=True)
class GlobalPowers(Payload):
    """The likeliest power (columns,) over all clients' rows, mean and standard deviation under it; how many rows. Not
    finite of a column of which float64 has no squares under any power, as of numbers of 10^160.
    """

    topic = "yeo-johnson.global"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    count: int = field(metadata=shaped())
    power: Floats = field(metadata=shaped("columns"))
    mean: Floats = field(metadata=shaped("columns", finite=False))
    std: Floats = field(metadata=shaped("columns", finite=False))
