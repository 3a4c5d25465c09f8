"""Messages of `tally`: what the ledger, the report and attacks know of them is stated here."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload


@dataclass(frozen=True)
class TallyCounts(Payload):
    """Feature -> value -> how many of the sender's rows hold it."""

    topic = "leakledger-tally.counts"
    discloses = Disclosure.VALUE
    about = About.SENDER

    counts: dict[str, dict[str, int]] = field(repr=False)


@dataclass(frozen=True)
class TallyOrder(Payload):
    """Feature -> the values of all clients, most frequent ones first."""

    topic = "leakledger-tally.order"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    values: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class LocalLargest(Payload):
    """The largest absolute value of each of the sender's columns: that of one of its rows."""

    topic = "leakledger-tally.local_largest"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    largest: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class GlobalLargest(Payload):
    """The largest absolute value of each column over all clients."""

    topic = "leakledger-tally.global_largest"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    largest: NDArray[np.float64] = field(repr=False)
