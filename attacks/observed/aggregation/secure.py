"""What a view gives of updates under secure aggregation: their sums, and single ones where a coalition has the shares.

Source: Bonawitz et al., CCS 2017, figure 4, read from the other side. The server of each round has the masked vectors
and shares of the secrets that take the masks off their sum. One client's vector has its own mask, whose seed the server
puts together, and a mask with each other client that shared, which either of the two secret keys of the pair gives. A
coalition has a key where it holds t shares of it: it is a colluder's own, shared out by itself, or t colluders were
told shares of it. That t shares are enough shows by the public key, so no threshold is looked up.

An observer's own key and seed it has drawn from its coins. They are looked for there, within `REACH` bytes of what was
found before them, and not found where encoders drew more in between. With them an observer has its own vector, which
subtracts from a sum; and where only one client of a round is outside no shares are needed, since each mask of it is one
with a colluder.

Nothing here is the protocol's own code; what both agree on is its documented form.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import CryptoError
from nacl.utils import randombytes_deterministic
from numpy.typing import NDArray

from leakledger.attacks.observed.aggregation.vectors import Vector
from leakledger.preprocess.messages import (
    MaskedUpdate,
    MaskKey,
    MaskKeys,
    RevealedShares,
    SecretShares,
    Sharers,
    Survivors,
)
from leakledger.preprocess.secret import KeyStream, hkdf
from leakledger.preprocess.views import View

P = 2**61 - 1  # the field of the shares
KEY_BYTES = 32
PART_BITS = 52  # of a secret in each of its five numbers
REACH = 2**16  # bytes of coins that are looked through for a key
STRIDE = 8  # bytes from one place where it can begin to the next: all draws are words
Words = NDArray[Any]
Held = dict[int, list[int]]  # at which point -> the five numbers of a share


@dataclass
class Round:
    """The messages of one round that the observers can read, clients by number."""

    keys: dict[int, bytes] = field(default_factory=dict)
    commitments: dict[int, bytes] = field(default_factory=dict)
    sharers: list[int] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)
    masked: dict[int, Words] = field(default_factory=dict)
    key_shares: dict[int, Held] = field(default_factory=lambda: defaultdict(dict))
    seed_shares: dict[int, Held] = field(default_factory=lambda: defaultdict(dict))
    last: int = 0


def sums(view: View) -> Iterator[Vector]:
    """The sum of each round that the server finished, if it is an observer."""
    for number, one in _rounds(view).items():
        seeds, keys = _seeds(one), _keys(one)
        dropped = [v for v in one.sharers if v not in one.survivors]
        known = one.survivors and all(v in one.masked and v in seeds for v in one.survivors)
        if not known or any(v not in keys for v in dropped):
            continue
        total = np.sum([one.masked[v] for v in one.survivors], axis=0, dtype=_dtype(view))
        for v in one.survivors:
            total -= _mask(seeds[v], total)
        for v in dropped:
            total += _pair_masks(number, one, v, one.survivors, {v: keys[v]}, total)
        yield Vector(number, _names(view, one.survivors), _numbers(view, total), one.last)


def single(view: View) -> Iterator[Vector]:
    """Each vector that the observers can take all masks off, their own ones too."""
    rounds = _rounds(view)
    drawn = _drawn(view, rounds)
    for number, one in rounds.items():
        own_keys = {v: key for v, (key, _) in drawn[number].items()}
        own_seeds = {v: seed for v, (_, seed) in drawn[number].items()}
        seeds, keys = _seeds(one) | own_seeds, _keys(one) | own_keys
        for v, masked in one.masked.items():
            (name,) = _names(view, [v])
            others = [u for u in one.sharers if u != v]
            if v not in seeds or not all(v in keys or u in keys for u in others):
                continue
            own = masked - _mask(seeds[v], masked) - _pair_masks(number, one, v, others, keys, masked)
            yield Vector(number, (name,), _numbers(view, own), one.last)


def _rounds(view: View) -> dict[int, Round]:
    """Round -> what was read of it."""
    rounds: dict[int, Round] = defaultdict(Round)
    number = {client: n for n, client in enumerate(view.public.clients)}
    for m in view.readable(MaskKey):
        rounds[m.round].keys[number[m.sender]] = m.payload.key
        rounds[m.round].commitments[number[m.sender]] = m.payload.commitment
    for m in view.readable(MaskKeys):
        rounds[m.round].keys.update(zip(m.payload.clients, m.payload.keys, strict=False))
    for m in view.readable(SecretShares):
        key, seed = m.payload.shares.value.tolist()
        rounds[m.round].key_shares[number[m.sender]][number[m.recipient] + 1] = key
        rounds[m.round].seed_shares[number[m.sender]][number[m.recipient] + 1] = seed
    for m in view.readable(Sharers):
        rounds[m.round].sharers = m.payload.clients
    for m in view.readable(MaskedUpdate):
        rounds[m.round].masked[number[m.sender]] = m.payload.masked.value
        rounds[m.round].last = max(rounds[m.round].last, m.sequence)
    for m in view.readable(Survivors):
        rounds[m.round].survivors = m.payload.clients
    for m in view.readable(RevealedShares):
        one, point = rounds[m.round], number[m.sender] + 1
        one.last = max(one.last, m.sequence)
        for v, share in zip(one.survivors, m.payload.seeds.value.tolist(), strict=False):
            one.seed_shares[v][point] = share
        dropped = [v for v in one.sharers if v not in one.survivors]
        for v, share in zip(dropped, m.payload.keys.value.tolist(), strict=False):
            one.key_shares[v][point] = share
    return rounds


def _seeds(one: Round) -> dict[int, bytes]:
    """The seeds of own masks that the shares give, as the commitments show."""
    found = {v: _secret(held) for v, held in one.seed_shares.items()}
    return {
        v: seed
        for v, seed in found.items()
        if seed and sha256(b"secure aggregation: seed" + seed).digest() == one.commitments.get(v)
    }


def _keys(one: Round) -> dict[int, bytes]:
    """The secret keys that the shares give, as the public ones show."""
    found = {v: _secret(held) for v, held in one.key_shares.items()}
    return {v: key for v, key in found.items() if key and crypto_scalarmult_base(key) == one.keys.get(v)}


def _drawn(view: View, rounds: Mapping[int, Round]) -> dict[int, dict[int, tuple[bytes, bytes]]]:
    """Round -> observer -> its secret key and the seed of its own mask, from its own coins."""
    found: dict[int, dict[int, tuple[bytes, bytes]]] = {r: {} for r in rounds}
    for n, client in enumerate(view.public.clients):
        if client not in view.observers or (secret := view.coins.get(client)) is None:
            continue
        stream, data, at = KeyStream(secret), b"", 0
        for r in sorted(r for r, one in rounds.items() if n in one.keys and one.masked):
            data += stream.bytes(at + REACH - len(data))
            places = range(at, len(data) - 64, STRIDE)
            place = next((p for p in places if crypto_scalarmult_base(data[p : p + 32]) == rounds[r].keys[n]), None)
            if place is None:
                break
            at = place + 64  # the seed comes behind the key
            found[r][n] = data[place : place + 32], data[place + 32 : at]
    return found


def _secret(held: Held) -> bytes | None:
    """The 32 bytes that all shares together stand for, by Lagrange's formula at zero; None where that is no secret."""
    weights = {x: _weight(x, list(held)) for x in held}
    parts = [sum(weights[x] * share[k] for x, share in held.items()) % P for k in range(5)]
    number = sum(part << (PART_BITS * k) for k, part in enumerate(parts))
    return None if number >> 256 else number.to_bytes(32, "big")


def _weight(x: int, points: Sequence[int]) -> int:
    above = below = 1
    for y in points:
        if y != x:
            above, below = above * y % P, below * (y - x) % P
    return above * pow(below, -1, P) % P


def _pair_masks(
    number: int, one: Round, v: int, others: Sequence[int], keys: Mapping[int, bytes], like: Words
) -> Words:
    """The sum of the masks that `v` puts on for `others`: plus for larger numbers, minus for smaller ones."""
    total = np.zeros_like(like)
    for u in others:
        secret, other = (keys[v], one.keys[u]) if v in keys else (keys[u], one.keys[v])
        both = b"".join(sorted([one.keys[u], one.keys[v]]))
        seed = hkdf(_agreed(secret, other), b"secure aggregation" + number.to_bytes(8, "big") + both, 32)
        total = total + _mask(seed, like) if v < u else total - _mask(seed, like)
    return total


def _agreed(secret: bytes, other: bytes) -> bytes:
    """The secret of two X25519 keys. Raises ValueError for a public one that is none, as a foreign transcript may have:
    the binding reads 32 bytes whatever it is given, and of a point of low order libsodium makes no secret.
    """
    if len(other) == KEY_BYTES:
        with suppress(CryptoError):
            return bytes(crypto_scalarmult(secret, other))
    raise ValueError("a public key for masks is no point of X25519 that a secret can be agreed with")


def _mask(seed: bytes, like: Words) -> Words:
    return np.frombuffer(randombytes_deterministic(like.nbytes, seed), like.dtype)


def _dtype(view: View) -> str:
    return f"<u{view.public.aggregation.options['ring_bits'] // 8}"


def _numbers(view: View, words: Words) -> NDArray[np.float64]:
    signed = words.view(_dtype(view).replace("u", "i"))
    places: int = view.public.aggregation.options["fraction_bits"]
    return np.ldexp(signed.astype(np.float64), -places)


def _names(view: View, numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(view.public.clients[n] for n in numbers)
