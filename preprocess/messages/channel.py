"""Messages that set up sealed channels."""

from dataclasses import dataclass

from leakledger.preprocess.messages.base import About, Disclosure, Payload


@dataclass(frozen=True)
class PublicKey(Payload):
    """The sender's public key (X25519, 32 bytes) for one federation."""

    topic = "channel.public-key"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    key: bytes
