"""Over-threshold multi-party set intersection: which elements do at least t parties hold, and where do they keep them?

Source: Mahdavi et al., "Practical over-threshold multi-party private set intersection" (ACSAC 2020), the scheme with
secret 0. A key holder evaluates an oblivious pseudorandom function for everyone; its value at an element gives the
element a bin and the coefficients of a polynomial with secret 0. Party i's share is the polynomial at i. Each party
fills its bins up with random numbers, so that all are equally full, and hands them to the reconstructor, who tries in
each bin all ways to take one share of each of t parties: they reconstruct to 0 where they belong to one element, and by
chance once in 2^61 tries.

The reconstructor sees positions (bin, slot), which depend on the key and on each party's coins, and which of them
belong together; not the elements. The key holder could tell elements from shares, so it must not collude with the
reconstructor, nor see the shares. Honest-but-curious; pure functions, of which `otmp_psi` makes the protocol.

A simplification: in the paper a party is told its own share of an element and no coefficients; here it makes the share
of them, and so knows everybody's of the elements that it holds. A party and the reconstructor together find all holders
of these, also where they are fewer than t. At t = 2, which `otmp_psi` has, there are none that they would not have had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha512
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from leakledger.preprocess.crypto.field import Elements, P, elements
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.shamir import reconstruct, share

LOAD = 8  # elements per bin on average, at most
FAILURE = 2.0**-40  # chance that a bin of some party overflows


@dataclass(frozen=True)
class Bins:
    """How many bins there are, and how many shares each has."""

    count: int
    capacity: int


@dataclass(frozen=True)
class Placed:
    """One party's shares, (bins, capacity), and what it keeps to itself: which element is where."""

    shares: Elements = field(repr=False)
    positions: Mapping[tuple[int, int], bytes] = field(repr=False)


def bins_for(bound: int, parties: int) -> Bins:
    """Bins for `parties` sets of at most `bound` elements each; the chance that one overflows is below 2^-40."""
    count = max(1, -(-bound // LOAD))
    capacity = 1
    while parties * count * bdtrc(capacity, max(bound, 1), 1 / count) > FAILURE:
        capacity += 1
    return Bins(count, min(capacity, max(bound, 1)))


def place(
    owned: Sequence[bytes], outputs: Sequence[bytes], x: int, bins: Bins, threshold: int, source: Randomness
) -> Placed:
    """The shares at `x` of elements whose pseudorandom values (64 bytes) are `outputs`, in bins, padded and shuffled.

    Raises ValueError where a bin overflows.
    """
    table = source.below(P, bins.count * bins.capacity).reshape(bins.count, bins.capacity)
    coefficients = [_coefficients(outputs, k) for k in range(threshold - 1)]
    shares = share(np.zeros(len(outputs), np.uint64), coefficients, x)
    free = [list(source.order(bins.capacity)) for _ in range(bins.count)]
    positions: dict[tuple[int, int], bytes] = {}
    for element, output, number in zip(owned, outputs, shares, strict=True):
        home = int.from_bytes(output[:16], "big") % bins.count
        if not free[home]:
            raise ValueError(f"a bin of {bins.capacity} overflows; run again with other keys")
        slot = int(free[home].pop())
        table[home, slot] = number
        positions[home, slot] = element
    return Placed(table, positions)


def _coefficients(outputs: Sequence[bytes], k: int) -> Elements:
    """Coefficient k of each element's polynomial: 24 bytes of its value, hashed on for further ones."""
    parts = (sha512(k.to_bytes(4, "big") + o[16:]).digest() for o in outputs)
    return elements(int.from_bytes(part[:24], "big") for part in parts)


def check_shares(shares: Any, bins: Bins) -> Elements:
    """The shares as they arrived. Raises MessageError unless they fill the bins with numbers modulo p."""
    if not isinstance(shares, np.ndarray) or shares.dtype != np.uint64 or shares.shape != (bins.count, bins.capacity):
        raise MessageError(f"it has no shares for {bins.count} bins of {bins.capacity}")
    if int(shares.max()) >= P:
        raise MessageError("a share is no number modulo p")
    return shares


def matches(shares: Mapping[int, Elements], threshold: int) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """For each choice of `threshold` points: (found, 1 + threshold) a bin and the slot at each point, in their order.

    `shares` maps a point to its party's bins. All ways to take one share per party are tried.
    """
    found = {}
    for points in combinations(shares, threshold):
        spread = [_along(shares[x], i, threshold) for i, x in enumerate(points)]
        found[points] = np.argwhere(reconstruct(points, spread) == 0).astype(np.int64)
    return found


def _along(shares: Elements, axis: int, axes: int) -> Elements:
    """(bins, capacity) as (bins, 1, ..., capacity, ..., 1) with the slots along one of `axes` axes."""
    bins, capacity = shares.shape
    return shares.reshape(bins, *(capacity if k == axis else 1 for k in range(axes)))
