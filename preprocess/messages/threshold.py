"""Messages of multiparty CKKS: shares of keys, ciphertexts, shares of refreshes and decryptions, and what is decrypted.

Objects are bytes in the form of `crypto.threshold_ckks.packing`, of at most 100 MiB each. Shares of keys are drawn from
their sender's secrets alone and say nothing about rows.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Ciphertext, Disclosure, OpenedBy, Payload, Share
from leakledger.preprocess.messages.shapes import shaped


@dataclass(frozen=True)
class CkksContribution(Payload):
    """The sender's 32 bytes to the joint seed of the common reference polynomials."""

    topic = "threshold-ckks.seed"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    contribution: bytes


@dataclass(frozen=True)
class CkksPublicShare(Payload):
    """The sender's share of the collective public key."""

    topic = "threshold-ckks.public-share"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    share: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksPublicKey(Payload):
    """The sum of the shares of the collective public key."""

    topic = "threshold-ckks.public-key"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    total: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksFirstShare(Payload):
    """The sender's shares of the first round of the relinearisation key."""

    topic = "threshold-ckks.relinearisation-1"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    zero: bytes = field(repr=False)
    one: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksFirstSum(Payload):
    """The sums of the first round of the relinearisation key."""

    topic = "threshold-ckks.relinearisation-sum"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    zero: bytes = field(repr=False)
    one: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksSecondShare(Payload):
    """The sender's share of the second round of the relinearisation key."""

    topic = "threshold-ckks.relinearisation-2"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    share: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksRotationShare(Payload):
    """The sender's share of the key of one rotation."""

    topic = "threshold-ckks.rotation-share"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    share: bytes = field(repr=False)


@dataclass(frozen=True)
class CkksInput(Payload):
    """The sender's numbers under the collective key."""

    topic = "threshold-ckks.input"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    ciphertext: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class CkksToRefresh(Payload):
    """A ciphertext that the parties are to refresh."""

    topic = "threshold-ckks.to-refresh"
    discloses = Disclosure.CIPHERTEXT
    about = About.EVERYONE
    bare = True

    ciphertext: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class CkksRefreshShare(Payload):
    """The sender's shares of a refresh: from the ciphertext to its mask, and from its mask back."""

    topic = "threshold-ckks.refresh-share"
    discloses = Disclosure.SHARE
    about = About.NOBODY

    down: Share = field(repr=False)
    up: Share = field(repr=False)


@dataclass(frozen=True)
class CkksToDecrypt(Payload):
    """A ciphertext that the parties are to decrypt."""

    topic = "threshold-ckks.to-decrypt"
    discloses = Disclosure.CIPHERTEXT
    about = About.EVERYONE
    bare = True

    ciphertext: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class CkksDecryptionShare(Payload):
    """The sender's share of a decryption, under its smudging noise."""

    topic = "threshold-ckks.decryption-share"
    discloses = Disclosure.SHARE
    about = About.EVERYONE
    bare = True

    share: Share = field(repr=False)


@dataclass(frozen=True)
class CkksPrivateDecryptionShare(CkksDecryptionShare):
    """The same of a decryption whose outcome its recipient, who gets all shares, tells nobody."""

    topic = "threshold-ckks.private-decryption-share"
    opened_by = OpenedBy.RECIPIENT


@dataclass(frozen=True)
class CkksDecrypted(Payload):
    """(k,) the numbers that all shares of a decryption give: what the protocol reveals, with its noise."""

    topic = "threshold-ckks.decrypted"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    numbers: NDArray[np.float64] = field(metadata=shaped("numbers"))
