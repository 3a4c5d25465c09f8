"""What one party computes in each step of secure aggregation: functions of its own values and of what it was told.

A function that reads a message raises MessageError for what the protocol's next message cannot be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.aggregation.base import Arrays, Update, to_vector
from leakledger.preprocess.crypto.field import Elements, P
from leakledger.preprocess.crypto.masking import (
    PARTS,
    SECRET_BYTES,
    Ring,
    Words,
    apply_masks,
    commitment,
    pair_seed,
    public_key,
    restore,
    to_parts,
)
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.shamir import shares
from leakledger.preprocess.messages import (
    Ciphertext,
    MaskedUpdate,
    MaskKey,
    MaskKeys,
    RevealedShares,
    SecretShares,
    Share,
    Sharers,
    Survivors,
)


class TooFewClients(ValueError):
    """Fewer clients than the threshold are left: the round has no sum, and the run ends."""


@dataclass(frozen=True)
class Secrets:
    """What a client draws for one round: the secret key for masks with others, the seed of its own mask."""

    key: bytes = field(repr=False)
    seed: bytes = field(repr=False)


# Round 0, AdvertiseKeys ----------------------------------------------------------------------------------------------


def new_secrets(source: Randomness) -> Secrets:
    return Secrets(source.bytes(SECRET_BYTES), source.bytes(SECRET_BYTES))


def advertised(own: Secrets) -> MaskKey:
    return MaskKey(public_key(own.key), commitment(own.seed))


def all_keys(clients: Sequence[int], *told: MaskKey) -> MaskKeys:
    return MaskKeys(list(clients), [t.key for t in told])


def check_keys(keys: MaskKeys, own: Secrets, number: int, threshold: int) -> MaskKeys:
    """The keys, if there are enough, all of them different, and the recipient's own is among them; every client has a
    number at whose successor there can be a share.
    """
    fit = len(keys.keys) == len(keys.clients) == len(set(keys.clients)) == len(set(keys.keys)) >= threshold
    fit = fit and all(0 <= client < P - 1 for client in keys.clients)
    if not fit or any(len(k) != SECRET_BYTES for k in keys.keys):
        raise MessageError(f"it is no list of at least {threshold} different keys, one for each client")
    if dict(zip(keys.clients, keys.keys, strict=True)).get(number) != public_key(own.key):
        raise MessageError("the list of keys has another one under the recipient's own number")
    return keys


def enough(step: str, left: int, clients: int, threshold: int) -> None:
    """Raises TooFewClients where fewer than the threshold have answered."""
    if left < threshold:
        raise TooFewClients(
            f"{left} of {clients} clients are left in {step}, fewer than the threshold {threshold}: the round has no "
            "sum and the model stays as it was; lower threshold, or have more clients"
        )


# Round 1, ShareKeys --------------------------------------------------------------------------------------------------


def split_secrets(own: Secrets, keys: MaskKeys, threshold: int, source: Randomness) -> Elements:
    """(n, 2, 5): for each client of `keys` the shares of the secret key and of the seed."""
    secrets = np.stack([to_parts(own.key), to_parts(own.seed)])
    coefficients = source.below(P, (threshold - 1) * secrets.size).reshape(threshold - 1, *secrets.shape)
    return shares(secrets, coefficients, np.array(keys.clients, np.uint64) + np.uint64(1))


def share_of(parts: Elements, place: int) -> SecretShares:
    return SecretShares(Share(parts[place]))


def check_shares(told: SecretShares) -> Elements:
    return _elements(told.shares.value, (2, PARTS))


# Round 2, MaskedInputCollection --------------------------------------------------------------------------------------


def fixed_point(ring: Ring, client: str, clients: int, update: Update) -> Words:
    """The client's vector in the ring. Raises ValueError, naming the client and no number, where it does not fit."""
    try:
        return ring.encode(to_vector(update), clients)
    except ValueError as error:
        raise ValueError(
            f"the update of {client} cannot be masked: rows times an entry, {error}; lower fraction_bits, clip "
            "updates, or lower training.learning_rate"
        ) from None


def masked_update(
    ring: Ring,
    number: int,
    round: int,
    threshold: int,
    fixed: Words,
    own: Secrets,
    keys: MaskKeys,
    sharers: Sharers,
) -> MaskedUpdate:
    """The vector under the client's own mask and one with each other client that has shared."""
    key_of = dict(zip(keys.clients, keys.keys, strict=True))
    if not _subset(sharers.clients, keys.clients, threshold) or number not in sharers.clients:
        raise MessageError(f"it is no list of at least {threshold} clients with keys, the recipient among them")
    try:
        others = [(v, pair_seed(own.key, key_of[v], round)) for v in sharers.clients if v != number]
    except ValueError as error:
        raise MessageError(str(error)) from None
    masked = apply_masks(fixed, ring, number, others) + ring.mask(own.seed, len(fixed))
    return MaskedUpdate(Ciphertext(masked))


def check_masked(ring: Ring, weights: Arrays, told: MaskedUpdate) -> Words:
    size, masked = 1 + sum(w.size for w in weights.values()), told.masked.value
    if not isinstance(masked, np.ndarray) or masked.shape != (size,) or masked.dtype != ring.dtype:
        raise MessageError(f"it is no vector of {size} numbers of {ring.bits} bits")
    return masked


# Round 4, Unmasking --------------------------------------------------------------------------------------------------


def revealed_shares(threshold: int, sharers: Sharers, survivors: Survivors, *held: Elements) -> RevealedShares:
    """The shares of survivors' seeds and of the other sharers' keys; `held` in the order of the sharers."""
    if not _subset(survivors.clients, sharers.clients, threshold):
        raise MessageError(f"it is no list of at least {threshold} clients that have shared")
    parts = dict(zip(sharers.clients, held, strict=True))
    seeds = [parts[v][1] for v in survivors.clients]
    keys = [parts[v][0] for v in gone(sharers, survivors)]
    return RevealedShares(Share(np.stack(seeds)), Share(np.array(keys, np.uint64).reshape(-1, PARTS)))


def gone(sharers: Sharers, survivors: Survivors) -> list[int]:
    """The clients that have shared and sent no vector: their masks with survivors do not cancel by themselves."""
    return [v for v in sharers.clients if v not in survivors.clients]


def collected(*values: Any) -> tuple[Any, ...]:
    return values


def unmasked(
    ring: Ring,
    names: Sequence[str],
    round: int,
    points: Sequence[int],
    keys: MaskKeys,
    sharers: Sharers,
    survivors: Survivors,
    told: Sequence[MaskKey],
    revealed: Sequence[RevealedShares],
    masked: Sequence[Words],
) -> NDArray[np.float64]:
    """The sum of the survivors' vectors. Raises MessageError where what shares give is not what was advertised."""
    dropped = gone(sharers, survivors)
    commitments = {v: t.commitment for v, t in zip(keys.clients, told, strict=True)}
    key_of = dict(zip(keys.clients, keys.keys, strict=True))
    seeds = _restored(points, [_elements(r.seeds.value, (len(survivors.clients), PARTS)) for r in revealed])
    secret = _restored(points, [_elements(r.keys.value, (len(dropped), PARTS)) for r in revealed])
    for v, seed in zip(survivors.clients, seeds, strict=True):
        if commitment(seed) != commitments[v]:
            raise MessageError(f"the revealed shares of the seed of {names[v]} give another seed than it committed to")
    for v, key in zip(dropped, secret, strict=True):
        if public_key(key) != key_of[v]:
            raise MessageError(f"the revealed shares of the key of {names[v]} give another key than it advertised")
    total = np.sum(masked, axis=0, dtype=ring.dtype)
    for seed in seeds:
        total -= ring.mask(seed, len(total))
    for v, key in zip(dropped, secret, strict=True):  # the masks that it would have put on cancel those of the others
        total = apply_masks(total, ring, v, [(u, pair_seed(key, key_of[u], round)) for u in survivors.clients])
    return ring.decode(total)


def _restored(points: Sequence[int], held: Sequence[Elements]) -> list[bytes]:
    try:
        return restore(points, held)
    except ValueError as error:
        raise MessageError(f"the revealed {error}") from None


def _elements(value: Any, shape: tuple[int, ...]) -> Elements:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint64 or value.shape != shape or (value >= P).any():
        raise MessageError(f"it is no share of {' x '.join(map(str, shape))} numbers of the field")
    return value


def _subset(some: Sequence[int], of: Sequence[int], least: int) -> bool:
    return len(some) == len(set(some)) >= least and set(some) <= set(of)
