"""Messages of protocols that add up updates without showing them: secure aggregation and homomorphic encryption.

Clients are told by their number in the federation's list. Vectors have one entry per parameter, rows times the update,
and a last one for the rows themselves.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Ciphertext, Disclosure, OpenedBy, Payload, Share
from leakledger.preprocess.messages.shapes import shaped


@dataclass(frozen=True)
class MaskKey(Payload):
    """The sender's public key (X25519, 32 bytes) for pairwise masks of one round, and the SHA-256 of the seed of its
    own mask, by which the server knows a wrong share when it puts the seed together.
    """

    topic = "secure-aggregation.key"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    key: bytes
    commitment: bytes


@dataclass(frozen=True)
class MaskKeys(Payload):
    """The public keys of all clients that told theirs, in the order of `clients`."""

    topic = "secure-aggregation.keys"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    clients: list[int] = field(metadata=shaped("clients", least=None))
    keys: list[bytes] = field(metadata=shaped("clients"))


@dataclass(frozen=True)
class SecretShares(Payload):
    """For one other client, sealed: (2, 5) shares of the sender's secret mask key and of the seed of its own mask."""

    topic = "secure-aggregation.shares"
    discloses = Disclosure.SHARE
    about = About.NOBODY
    bare = True

    shares: Share = field(metadata=shaped(2, 5), repr=False)


@dataclass(frozen=True)
class Sharers(Payload):
    """The clients whose shares every other one has: their masks are in what follows."""

    topic = "secure-aggregation.sharers"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    clients: list[int] = field(metadata=shaped("clients", least=None))


@dataclass(frozen=True)
class MaskedUpdate(Payload):
    """(d + 1,) numbers of a ring: the sender's vector in fixed point under its own mask and one with each other one."""

    topic = "secure-aggregation.masked"
    discloses = Disclosure.CIPHERTEXT
    about = About.SENDER
    bare = True

    masked: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class Survivors(Payload):
    """The clients whose masked updates have arrived: what they sum to is what the server may learn."""

    topic = "secure-aggregation.survivors"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    clients: list[int] = field(metadata=shaped("clients", least=None))


@dataclass(frozen=True)
class RevealedShares(Payload):
    """The sender's shares (k, 5) of the seed of each survivor's own mask, and (l, 5) of the secret key of each client
    that shared and did not survive; of no client both.
    """

    topic = "secure-aggregation.revealed"
    discloses = Disclosure.SHARE
    about = About.NOBODY

    seeds: Share = field(metadata=shaped("survivors", 5), repr=False)
    keys: Share = field(metadata=shaped("lost", 5), repr=False)


@dataclass(frozen=True)
class SharedKey(Payload):
    """32 bytes that the clients' secret key follows from. Always sealed: the server passes on ciphertext."""

    topic = "he-aggregation.key"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    key: bytes = field(repr=False)


@dataclass(frozen=True)
class EncryptedUpdate(Payload):
    """The name of the context, then the sender's vector encrypted, 4096 entries to a ciphertext."""

    topic = "he-aggregation.update"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.CLIENTS
    about = About.SENDER
    bare = True

    ciphertexts: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class EncryptedSum(Payload):
    """The name of the context, then the sum of the clients' vectors, still encrypted."""

    topic = "he-aggregation.sum"
    discloses = Disclosure.CIPHERTEXT
    opened_by = OpenedBy.CLIENTS
    about = About.EVERYONE
    bare = True

    ciphertexts: Ciphertext = field(repr=False)


@dataclass(frozen=True)
class SummedUpdate(Payload):
    """The mean over `rows` rows of the updates of `clients` together. Nobody sends it: it stands in a view for what its
    observers worked out of hidden updates (`attacks.observed.aggregation`), as theirs to read as a message would be.
    """

    topic = "train.sum"
    discloses = Disclosure.UPDATE
    about = About.SEVERAL

    clients: list[int] = field(metadata=shaped("clients", least=None))
    rows: int = field(metadata=shaped())
    mean: dict[str, NDArray[np.floating[Any]]] = field(repr=False)
