"""Seals a message for one recipient: libsodium boxes (X25519, XSalsa20-Poly1305), so that a relay holds ciphertext.

The nonce is the message's sequence number. That is safe because an identity lives for one federation and every message
of a federation has its own number, so no pair of keys meets a nonce twice. The relay is honest but curious in every
threat model of the project: public keys travel through it unauthenticated.
"""

from dataclasses import dataclass, field
from secrets import token_bytes

import numpy as np
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey


@dataclass(frozen=True)
class Identity:
    """One party's key pair for one federation. The secret half is never a payload and never printed."""

    secret: bytes = field(repr=False)

    def public_bytes(self) -> bytes:
        return bytes(PrivateKey(self.secret).public_key)


def new_identity(coins: np.random.Generator, reproducible: bool) -> Identity:
    """A key pair: from the party's own coins in a reproducible run, else from the operating system."""
    return Identity(coins.bytes(PrivateKey.SIZE) if reproducible else token_bytes(PrivateKey.SIZE))


def seal_box(identity: Identity, recipient_key: bytes, sequence: int, content: bytes) -> bytes:
    """Ciphertext of `content` for the holder of `recipient_key`; 16 bytes longer than the content."""
    box = Box(PrivateKey(identity.secret), PublicKey(recipient_key))
    return box.encrypt(content, _nonce(sequence)).ciphertext


def open_box(identity: Identity, sender_key: bytes, sequence: int, body: bytes) -> bytes:
    """The content of a sealed body. Raises ValueError when a bit was changed, lost or added."""
    try:
        return Box(PrivateKey(identity.secret), PublicKey(sender_key)).decrypt(body, _nonce(sequence))
    except CryptoError:
        raise ValueError("the seal is broken") from None


def _nonce(sequence: int) -> bytes:
    return sequence.to_bytes(Box.NONCE_SIZE, "big")
