"""Messages of private set intersections: blinded points, ciphertexts, shares, and the positions that they lead to.

Lengths say how many elements a party has, whatever is blinded; attacks read them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Ciphertext, Disclosure, OpenedBy, Payload, Share
from leakledger.preprocess.messages.shapes import shaped


@dataclass(frozen=True)
class DhRequest(Payload):
    """The receiver's elements, blinded: one group element of 32 bytes each."""

    topic = "dh-psi.request"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    points: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class DhAnswer(Payload):
    """The request's points under the sender's key as well, and the sender's own table of tags and sealed labels."""

    topic = "dh-psi.answer"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.RECIPIENT
    about = About.SENDER

    evaluated: Ciphertext = field(repr=False)
    table: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class ApsiRequest(Payload):
    """The receiver's elements, blinded: one group element of 32 bytes each."""

    topic = "apsi.oprf-request"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    points: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class ApsiEvaluation(Payload):
    """The request's points under the sender's key as well."""

    topic = "apsi.oprf-answer"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    points: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class ApsiQuery(Payload):
    """[row of bins][power] the receiver's bins, encrypted under its own key."""

    topic = "apsi.query"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    powers: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class ApsiAnswer(Payload):
    """[row of bins][bundle] the sender's polynomials evaluated on the query, under the receiver's key."""

    topic = "apsi.answer"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.RECIPIENT
    about = About.SENDER
    bare = True

    evaluations: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class OtmpRoles(Payload):
    """Who holds the key, who reconstructs, and the shape of the bins: derived from the ring and its public sizes."""

    topic = "otmp.roles"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    key_holder: str
    reconstructor: str
    bins: int = field(metadata=shaped())
    capacity: int = field(metadata=shaped())


@dataclass(frozen=True)
class OtmpRequest(Payload):
    """The sender's elements, blinded: one group element of 32 bytes each."""

    topic = "otmp.request"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    points: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class OtmpAnswer(Payload):
    """The request's points under the key holder's key as well."""

    topic = "otmp.answer"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    points: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class OtmpShares(Payload):
    """(bins, capacity) shares modulo 2^61 - 1, free places filled with random ones."""

    topic = "otmp.shares"
    discloses = Disclosure.SHARE
    about = About.SENDER
    bare = True

    shares: Share = field(metadata=shaped("bins", "capacity"), repr=False)


@dataclass(frozen=True)
class OtmpMatches(Payload):
    """(found, 4) the recipient's bin and slot, the other party's place in the ring and its slot."""

    topic = "otmp.matches"
    discloses = Disclosure.IDENTIFIER
    about = About.SEVERAL
    bare = True

    positions: NDArray[np.int64] = field(metadata=shaped("found", 4))


@dataclass(frozen=True)
class OtmpPositions(Payload):
    """(wanted, 2) bins and slots at which the sender asks for the recipient's numbers."""

    topic = "otmp.positions"
    discloses = Disclosure.IDENTIFIER
    about = About.SEVERAL
    bare = True

    positions: NDArray[np.int64] = field(metadata=shaped("wanted", 2))


@dataclass(frozen=True)
class OtmpNumbers(Payload):
    """(wanted,) the sender's numbers at the positions asked for."""

    topic = "otmp.numbers"
    discloses = Disclosure.IDENTIFIER
    about = About.SEVERAL
    bare = True

    numbers: NDArray[np.int64] = field(metadata=shaped("wanted"))
