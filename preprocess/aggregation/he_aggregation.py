"""Aggregation under homomorphic encryption: clients share a key that the server lacks; it adds up ciphertexts.

Source: Zhang et al., "BatchCrypt", USENIX ATC 2020 (one key among the clients, an aggregator without it), on CKKS
(`crypto.ckks`) in place of Paillier.

1. The key holder, the first client, draws a key and sends it to each other client through the server, sealed.
2. The server sends every client the first model (`train.model`). It is the last one that it holds.
3. Each round, each participant encrypts its vector (`base.to_vector`); the server adds up what it got and sends the
   sum to every client. Each decrypts it and takes the algorithm's step by itself: the model lives at the clients.
4. Losses and counts for early stopping and evaluation are computed by clients on the model that they have.

Who learns what. The server alone: who took part, and how large the model is. Every client: the mean of every round, and
with it the models, as in plain training. **A client that colludes with the server breaks it for all**: one key opens
every client's ciphertexts, and the server passes all of them on (`attacks.observed.aggregation`). Secure aggregation
takes as many colluding clients as its threshold.

Ciphertexts are malleable and nothing shows that the server added up what it says: honest-but-curious parties. Updates
under keys of different contexts are an error (a context has a name, a hash of the key). All clients of the federation
hear the sum, so that a client that does not take part in a round has the model of the next one.

Precision: an entry of a sum over n clients is off by 290 sqrt(n) 2^-scale_bits (one standard deviation), the mean by
that over the rows: at 36 bits 4.2e-9 sqrt(n) / rows. No |rows times an entry| may reach 2^(58 - scale_bits) / n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakledger.preprocess.aggregation.base import (
    Aggregation,
    Arrays,
    Located,
    Update,
    Weights,
    mean_of_sum,
    to_vector,
)
from leakledger.preprocess.crypto.ckks import SecretKey, add, decrypt, encrypt, key_from
from leakledger.preprocess.crypto.randomness import Randomness, randomness
from leakledger.preprocess.crypto.refusal import MessageError, accept
from leakledger.preprocess.federation import Federation
from leakledger.preprocess.messages import Ciphertext, EncryptedSum, EncryptedUpdate, SharedKey
from leakledger.preprocess.options import option

KEY_BYTES = 32


@dataclass(frozen=True)
class HEAggregation(Aggregation):
    """CKKS under one key of the clients."""

    scale_bits: int = option(
        36, at_least=20, at_most=50, help="binary places of rows times an entry; more leave less room above them"
    )

    name = "he-aggregation"
    reference = "Zhang et al. 2020; Cheon et al. 2017 (CKKS)"
    at_clients = True
    extra = "he"

    def begin(self, fed: Federation) -> Located:
        """The key at every client."""
        with fed.scope("he-aggregation: key"):
            holder, *others = fed.clients
            told = fed.local(holder, new_key, randomness(fed, holder))
            sent = {c: fed.send(told, to=c, via=fed.server, sealed=True) for c in others}
            return {
                c: accept(fed, c, holder, opened_key, self.scale_bits, k) for c, k in {holder: told, **sent}.items()
            }

    def mean(self, fed: Federation, kept: Located, offered: Located, weights: Located) -> Located:
        """Raises FederationError for updates under keys of different contexts, and for what is no ciphertext."""
        with fed.scope("he-aggregation"):
            encrypted = [
                fed.send(fed.local(c, encrypted_update, kept[c], c, len(offered), u, randomness(fed, c)), to=fed.server)
                for c, u in offered.items()
            ]
            names = tuple(offered)
            total = accept(fed, fed.server, "the clients", encrypted_sum, names, *encrypted)
            sums = {c: fed.send(total, to=c) for c in fed.clients}
            return {c: accept(fed, c, fed.server, decrypted_mean, kept[c], sums[c], weights[c]) for c in fed.clients}


def new_key(source: Randomness) -> SharedKey:
    return SharedKey(source.bytes(KEY_BYTES))


def opened_key(scale_bits: int, told: SharedKey) -> SecretKey:
    if len(told.key) != KEY_BYTES:
        raise MessageError(f"a key is {KEY_BYTES} bytes, not {len(told.key)}")
    return key_from(told.key, scale_bits)


def encrypted_update(key: SecretKey, client: str, clients: int, update: Update, source: Randomness) -> EncryptedUpdate:
    """The client's vector. Raises ValueError, naming the client and no number, where it does not fit."""
    try:
        parts = encrypt(key, to_vector(update), clients, source)
    except ValueError as error:
        raise ValueError(
            f"the update of {client} cannot be encrypted: rows times an entry, {error}; lower scale_bits, clip "
            "updates, or lower training.learning_rate"
        ) from None
    return EncryptedUpdate(Ciphertext([key.name, *parts]))


def encrypted_sum(clients: Sequence[str], *told: EncryptedUpdate) -> EncryptedSum:
    """What the server makes of the updates; it has no key and needs none."""
    lists = [_parts(t.ciphertexts) for t in told]
    first, *others = (name for name, *_ in lists)
    for client, name in zip(clients[1:], others, strict=True):
        if name != first:
            raise MessageError(f"{client} encrypts under another key or scale than {clients[0]}: their contexts differ")
    return EncryptedSum(Ciphertext([first, *add([parts for _, *parts in lists])]))


def decrypted_mean(key: SecretKey, told: EncryptedSum, weights: Arrays) -> Weights:
    name, *parts = _parts(told.ciphertexts)
    if name != key.name:
        raise MessageError("a sum is encrypted under another key or scale than the recipient's: their contexts differ")
    total = decrypt(key, parts, 1 + sum(w.size for w in weights.values()))
    if np.rint(total[-1]) < 1:
        raise MessageError("a sum is over no rows")
    return mean_of_sum(total, weights)


def _parts(told: Ciphertext) -> list[bytes]:
    if not isinstance(told.value, list) or len(told.value) < 2 or not all(isinstance(p, bytes) for p in told.value):
        raise MessageError("it is no context's name and ciphertexts")
    return told.value
