"""What a key holder reads in columns that were exchanged under encryption.

The server makes the keys of each loop from its own coins, so the server, and any coalition with it, opens what is
encrypted under them: the result that is meant for it, and a column that it or its companion was sent. A device without
the server opens nothing. Parameters are public: CKKS at degree 8192, primes of 60, 60, 58 and 40 bits.

What is opened is off by noise, whose size is public too. So nothing tells a zero from what is that near to it, and
such numbers are taken for zeros: else equations of products would make large numbers of their ratios.
"""

from collections.abc import Mapping

import numpy as np

from leakledger.attacks.seal import DIGEST_BYTES, Opener
from leakledger.attacks.transcript.feature_exchange.equations import Column
from leakledger.preprocess.messages import ExchangeKey
from leakledger.preprocess.secret import KeyStream
from leakledger.preprocess.views import Message, View

PRIME_BITS, SEED_BYTES = (60, 60, 58, 40), 32
# Deviations of results, which whoever makes one floods, and of a column that is sent to the server.
NOISE = {"sum": 2.0**-16, "difference": 2.0**-16, "product": 2.0**-16, "quotient": 2.0**-33}
NOISE_OF_COLUMN = 2.0e-8
NEAR = 8.0  # deviations from 0


def openers(view: View) -> dict[int, Opener]:
    """Loop -> what opens its ciphertexts, where the server is among the observers."""
    server = view.public.server
    if server not in view.observers or (secret := view.coins.get(server)) is None:
        return {}
    stream, found = KeyStream(secret), dict[int, Opener]()
    told = {m.round: m.payload.public for m in view.readable(ExchangeKey)}
    for loop in sorted(told):
        opener = Opener(stream.bytes(SEED_BYTES), b"ckks public: secret key", PRIME_BITS)
        if opener.public_key(b"ckks public: public key") != told[loop][DIGEST_BYTES:]:
            break  # the coins went another way than the protocol's
        found[loop] = opener
    return found


def opened(message: Message, by: Mapping[int, Opener], records: int, noise: float = 0.0) -> Column | None:
    """The numbers (n,) of a message that the observers have a key to, within a deviation of `noise`, and 0 where that
    is all there may be; None without a key.
    """
    opener = by.get(message.round)
    if opener is None:
        return None
    numbers = np.asarray(opener.vector(message.payload.ciphertexts.value)[:records], np.float64)
    return np.where(np.abs(numbers) < NEAR * noise, 0.0, numbers)
