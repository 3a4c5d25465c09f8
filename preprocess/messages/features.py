"""Messages of federated feature engineering: sketches, judgements, masked columns. Columns are (records,) in the order
that all parties share; who and what a message of a loop is about, the loop's `FeatureTask` says.

Masked columns disclose values: a bounded additive mask leaves mean and scale, a multiplicative one zeros and signs, and
under one mask twice nothing of it may be left. Encrypted ones disclose theirs to who has the loop's key.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Ciphertext, Disclosure, OpenedBy, Payload
from leakledger.preprocess.messages.shapes import shaped

Column = NDArray[np.float64]
Arrays = NDArray[np.float32]


@dataclass(frozen=True)
class RecordOrder(Payload):
    """How many records the sender holds, and a digest of their ids in order; who knows the ids can test it."""

    topic = "flfe.records"
    discloses = Disclosure.IDENTIFIER
    about = About.SENDER

    records: int = field(metadata=shaped())
    digest: bytes


@dataclass(frozen=True)
class ClassLabels(Payload):
    """The class of each record, by number."""

    topic = "flfe.labels"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    labels: NDArray[np.int64] = field(metadata=shaped("records"), repr=False)


@dataclass(frozen=True)
class FeatureTask(Payload):
    """What a loop tries: a transformation, and the devices and features that it takes, in order."""

    topic = "flfe.task"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    transformation: str
    devices: list[str] = field(metadata=shaped("operands"))
    features: list[str] = field(metadata=shaped("operands"))


@dataclass(frozen=True)
class BinNumbers(Payload):
    """The bin (records,) of each record in one of the sender's columns: its place between least and greatest value."""

    topic = "flfe.bins"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    numbers: NDArray[np.int64] = field(metadata=shaped("records"), repr=False)


@dataclass(frozen=True)
class FeatureSketch(Payload):
    """One column's counts by class and bin (problems, 2, bins), or these scaled."""

    topic = "flfe.sketch"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER
    bare = True

    arrays: Arrays = field(metadata=shaped("problems", 2, "bins"), repr=False)


@dataclass(frozen=True)
class SketchPair(Payload):
    """The sketches of two columns of two devices, (2, problems, 2, bins)."""

    topic = "flfe.sketch-pair"
    discloses = Disclosure.AGGREGATE
    about = About.SEVERAL
    bare = True

    arrays: Arrays = field(metadata=shaped(2, "problems", 2, "bins"), repr=False)


@dataclass(frozen=True)
class Judgement(Payload):
    """Whether the transformation of a loop is judged useful: a bit that follows from its sketches."""

    topic = "flfe.judgement"
    discloses = Disclosure.AGGREGATE
    about = About.SEVERAL
    bare = True

    useful: bool


@dataclass(frozen=True)
class MaskedColumn(Payload):
    """A column of the sender under its mask."""

    topic = "flfe.masked"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    values: Column = field(metadata=shaped("records", finite=False), repr=False)


@dataclass(frozen=True)
class MaskedResult(Payload):
    """The transformation of a masked column of another device and of one of the sender's."""

    topic = "flfe.masked-result"
    discloses = Disclosure.VALUE
    about = About.SEVERAL
    bare = True

    values: Column = field(metadata=shaped("records", finite=False), repr=False)


@dataclass(frozen=True)
class MaskVector(Payload):
    """A mask, drawn from the sender's coins; with what it masks, it discloses that."""

    topic = "flfe.mask"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    values: Column = field(metadata=shaped("records", finite=False), repr=False)


@dataclass(frozen=True)
class ExchangeKey(Payload):
    """The sender's public key (CKKS) for the exchange of one loop."""

    topic = "flfe.key"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    public: bytes


@dataclass(frozen=True)
class EncryptedColumn(Payload):
    """A column of the sender, 4096 records to a ciphertext under the loop's key."""

    topic = "flfe.encrypted"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.RECIPIENT  # where it has the loop's key, as a server may
    about = About.SENDER
    bare = True

    ciphertexts: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class EncryptedResult(Payload):
    """The transformation of an encrypted column of another device and of one of the sender's, under the same key."""

    topic = "flfe.encrypted-result"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.RECIPIENT
    about = About.SEVERAL
    bare = True

    ciphertexts: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class NewColumn(Payload):
    """The transformation of one of the sender's columns."""

    topic = "flfe.column"
    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    values: Column = field(metadata=shaped("records", finite=False), repr=False)
