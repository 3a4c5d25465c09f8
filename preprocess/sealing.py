"""Seals a message for one recipient: libsodium boxes (X25519, XSalsa20-Poly1305), so that a relay holds ciphertext.

The nonce is the message's sequence number. That is safe because an identity lives for one federation, whose secret is
derived from everything in force, and every message of a federation has its own number: no pair of keys meets a nonce
twice. A seal hides what a message holds, not how long it is; filled up to a fixed size (ISO/IEC 7816-4, libsodium's
padding), all messages look alike to the relay.

The relay is honest but curious in every threat model of the project: public keys travel through it unauthenticated.
"""

from dataclasses import dataclass, field

from nacl.bindings import sodium_pad, sodium_unpad
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from leakledger.preprocess.secret import derive


class SealError(ValueError):
    """A sealed message that was changed, or that is for another party, sender or number."""


@dataclass(frozen=True)
class Identity:
    """One party's key pair for one federation. The secret half is never a payload and never printed."""

    secret: bytes = field(repr=False)

    def public_bytes(self) -> bytes:
        return bytes(PrivateKey(self.secret).public_key)


def new_identity(secret: bytes) -> Identity:
    """The key pair of the party with this secret."""
    return Identity(derive(secret, "identity"))


def checked_key(key: bytes) -> bytes:
    """A public key as it arrived. Raises SealError for one that no secret can be agreed with: of another length than 32
    bytes, or of low order (RFC 7748, section 6.1), which gives everybody's secret the same one.
    """
    try:
        Box(PrivateKey(bytes(PrivateKey.SIZE)), PublicKey(key))
    except CryptoError:
        raise SealError("no secret can be agreed with it") from None
    return key


def seal_box(identity: Identity, recipient_key: bytes, sequence: int, content: bytes) -> bytes:
    """Ciphertext of `content` for the holder of `recipient_key`; 16 bytes longer than the content."""
    box = Box(PrivateKey(identity.secret), PublicKey(recipient_key))
    return box.encrypt(content, _nonce(sequence)).ciphertext


def open_box(identity: Identity, sender_key: bytes, sequence: int, body: bytes) -> bytes:
    """The content of a sealed body. Raises SealError when a bit was changed, lost or added."""
    try:
        return Box(PrivateKey(identity.secret), PublicKey(sender_key)).decrypt(body, _nonce(sequence))
    except CryptoError:
        raise SealError("the seal is broken") from None


def filled(content: bytes, size: int) -> bytes:
    """`content` filled up to `size` bytes. Raises ValueError where it is as long or longer."""
    if len(content) >= size:
        raise ValueError(f"a message of {len(content)} bytes does not fit into sealed messages of {size}")
    return bytes(sodium_pad(content, size))


def unfilled(content: bytes, size: int) -> bytes:
    """What `filled` was given. Raises SealError for anything else."""
    try:
        if len(content) == size:
            return bytes(sodium_unpad(content, size))
    except (CryptoError, ValueError):
        pass
    raise SealError("it is not filled up as agreed")


def _nonce(sequence: int) -> bytes:
    return sequence.to_bytes(Box.NONCE_SIZE, "big")
