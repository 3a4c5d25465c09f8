"""Messages about statistics with noise (`preprocess.noise`): whole numbers of steps, noise included.

What a step is, and how the noise is distributed, is public (`PublicFacts.statistics`). Each kind has a twin with the
totals that the server tells everyone.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload
from leakledger.preprocess.messages.shapes import shaped

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Moments(Payload):
    """A number of rows, and of each column (F,) in [-1, 1] the sum and the sum of squares."""

    discloses = Disclosure.NOISED

    count: int = field(metadata=shaped(least=None))
    sums: Whole = field(metadata=shaped("columns", least=None))
    squares: Whole = field(metadata=shaped("columns", least=None))


@dataclass(frozen=True)
class NoisedMoments(Moments):
    """The sender's."""

    topic = "zscore.noised"
    about = About.SENDER


@dataclass(frozen=True)
class NoisedMomentTotals(Moments):
    """All clients'."""

    topic = "zscore.noised-total"
    about = About.EVERYONE


@dataclass(frozen=True)
class Extremes(Payload):
    """Places (F,) on the grids of the declared ranges, near the least and the greatest value in rank, or near a low
    quantile and its mirror: public facts say which.
    """

    discloses = Disclosure.NOISED

    minimum: Whole = field(metadata=shaped("columns", least=None))
    maximum: Whole = field(metadata=shaped("columns", least=None))


@dataclass(frozen=True)
class NoisedExtremes(Extremes):
    """Of the sender's rows."""

    topic = "minmax.noised"
    about = About.SENDER


@dataclass(frozen=True)
class NoisedGlobalExtremes(Extremes):
    """The least and the greatest of all clients' places."""

    topic = "minmax.noised-global"
    about = About.EVERYONE


@dataclass(frozen=True)
class Counts(Payload):
    """Feature -> a count (k,) for each declared value; of tallies (k, classes), by the class of the rows too."""

    discloses = Disclosure.NOISED
    bare = True

    counts: dict[str, Whole] = field(repr=False)


@dataclass(frozen=True)
class NoisedCounts(Counts):
    """Of the sender's rows."""

    topic = "dictionary.noised"
    about = About.SENDER


@dataclass(frozen=True)
class NoisedCountTotals(Counts):
    """Of all clients' rows."""

    topic = "dictionary.noised-total"
    about = About.EVERYONE


@dataclass(frozen=True)
class NoisedTallies(Counts):
    """Of the sender's rows."""

    topic = "target.noised"
    about = About.SENDER


@dataclass(frozen=True)
class NoisedTallyTotals(Counts):
    """Of all clients' rows."""

    topic = "target.noised-total"
    about = About.EVERYONE
