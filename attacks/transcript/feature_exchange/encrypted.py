"""What a key holder reads in columns that were exchanged under encryption.

The server makes the keys of each loop from its own coins, so the server, and any coalition with it, opens what is
encrypted under them: the result that is meant for it, and a column that it or its companion was sent. A device without
the server opens nothing. Parameters are public: CKKS at degree 8192, three primes of 60 bits.
"""

from collections.abc import Mapping

import numpy as np

from leakledger.attacks.seal import DIGEST_BYTES, Opener
from leakledger.attacks.transcript.feature_exchange.equations import Column
from leakledger.preprocess.messages import ExchangeKey
from leakledger.preprocess.secret import KeyStream
from leakledger.preprocess.views import Message, View

PRIME_BITS, SEED_BYTES = (60, 60, 60), 32


def openers(view: View) -> dict[int, Opener]:
    """Loop -> what opens its ciphertexts, where the server is among the observers."""
    server = view.public.server
    if server not in view.observers or (secret := view.coins.get(server)) is None:
        return {}
    stream, found = KeyStream(secret), dict[int, Opener]()
    told = {m.round: m.payload.public for m in view.readable(ExchangeKey)}
    for loop in sorted(told):
        opener = Opener(stream.bytes(SEED_BYTES), b"ckks: key pair", PRIME_BITS)
        if opener.public_key() != told[loop][DIGEST_BYTES:]:
            break  # the coins went another way than the protocol's
        found[loop] = opener
    return found


def opened(message: Message, by: Mapping[int, Opener], records: int) -> Column | None:
    """The numbers (n,) of a message that the observers have a key to; None without one."""
    opener = by.get(message.round)
    parts = message.payload.ciphertexts.value
    return None if opener is None else np.asarray(opener.vector(parts)[:records], np.float64)
