"""Messages about categorical features: dictionaries, their sizes, identifiers around a ring, target statistics."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload
from leakledger.preprocess.messages.shapes import shaped


@dataclass(frozen=True)
class LocalDictionary(Payload):
    """Feature -> the distinct values that the sender holds."""

    topic = "dictionary.local"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    values: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class GlobalDictionary(Payload):
    """Feature -> the distinct values of all clients, in the order of their numbers."""

    topic = "dictionary.global"
    discloses = Disclosure.VALUE
    about = About.EVERYONE
    bare = True

    values: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class PooledCategories(Payload):
    """Feature -> the value of each of the sender's rows: the whole categorical table."""

    topic = "pooled.categorical"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    values: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class PooledDictionary(Payload):
    """Feature -> the distinct values of the pooled table."""

    topic = "pooled.dictionary"
    discloses = Disclosure.VALUE
    about = About.EVERYONE
    bare = True

    values: dict[str, list[str]] = field(repr=False)


@dataclass(frozen=True)
class LocalSizes(Payload):
    """Feature -> how many distinct values the sender holds."""

    topic = "local.sizes"
    discloses = Disclosure.SIZE
    about = About.SENDER
    bare = True

    sizes: dict[str, int] = field(metadata=shaped())


@dataclass(frozen=True)
class PaddedSizes(Payload):
    """Feature -> the largest dictionary of any client."""

    topic = "local.padding"
    discloses = Disclosure.SIZE
    about = About.EVERYONE
    bare = True

    sizes: dict[str, int] = field(metadata=shaped())


@dataclass(frozen=True)
class RingHighest(Payload):
    """Feature -> the highest number that the sender and those before it in the ring have given out; -1 for none."""

    topic = "ring.highest"
    discloses = Disclosure.SIZE
    about = About.SEVERAL
    bare = True

    highest: dict[str, int] = field(metadata=shaped(least=-1))


@dataclass(frozen=True)
class RingMaximum(Payload):
    """Feature -> the highest number that anybody has given out; -1 for none."""

    topic = "ring.maximum"
    discloses = Disclosure.SIZE
    about = About.EVERYONE
    bare = True

    highest: dict[str, int] = field(metadata=shaped(least=-1))


@dataclass(frozen=True)
class UnusedIds(Payload):
    """Feature -> the numbers allotted to the sender that nobody uses."""

    topic = "ids.unused"
    discloses = Disclosure.IDENTIFIER
    about = About.SENDER
    bare = True

    numbers: dict[str, NDArray[np.int64]] = field(metadata=shaped("unused"))


@dataclass(frozen=True)
class AllUnusedIds(Payload):
    """Feature -> the numbers that nobody uses."""

    topic = "ids.unused-all"
    discloses = Disclosure.IDENTIFIER
    about = About.EVERYONE
    bare = True

    numbers: dict[str, NDArray[np.int64]] = field(metadata=shaped("unused"))


@dataclass(frozen=True)
class ValueTally:
    """Of each of k values of one feature: in how many rows it occurs (k,), and their target sums (k, T)."""

    values: list[str] = field(metadata=shaped("values"), repr=False)
    counts: NDArray[np.int64] = field(metadata=shaped("values"), repr=False)
    sums: NDArray[np.float64] = field(metadata=shaped("values", "targets"), repr=False)


@dataclass(frozen=True)
class TargetTally(Payload):
    """How many rows the sender has, their target sums (T,), and a tally per feature."""

    topic = "target.local"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    rows: int = field(metadata=shaped())
    sums: NDArray[np.float64] = field(metadata=shaped("targets"))
    features: dict[str, ValueTally] = field(repr=False)


@dataclass(frozen=True)
class TargetTotals(Payload):
    """The same over all clients."""

    topic = "target.global"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    rows: int = field(metadata=shaped())
    sums: NDArray[np.float64] = field(metadata=shaped("targets"))
    features: dict[str, ValueTally] = field(repr=False)
