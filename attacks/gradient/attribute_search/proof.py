"""Whether a record that lies in a row space must be one of the batch, or may be there without it.

Others get into the space in two ways, and a record is proven only where it is much nearer than either explains.

* *By chance.* What of made-up records is outside the space has a spread s_i in each direction; one of them is within d
  of it with a chance of about the product of d / s_i, where that is below 1. Times the number of records that there may
  be, this is negligible in a space that leaves many directions, and not in one that leaves few: a gradient of as many
  rows as embeddings have dimensions spans all there are.
* *By the encoder.* Of an additive one, e(b, d) = e(a, d) + e(b, c) - e(a, c): three records of a batch bring a fourth
  into the space that is in no batch. By how much the encoder is not additive is measured on made-up records.
"""

from math import log, prod

import numpy as np

from leakledger.attacks.gradient.attribute_search.deltas import Encoder
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

DRAWN, SQUARES = 256, 64  # made-up records, and fours of them, that are encoded
CHANCE = 1e-3  # that any record at all lies in the space by chance
ADDITIVE = 0.1  # of how far the fourth record is from the space where the encoder is nearest to additive


def within(space: SeenSpace, records: TextRecords, encode: Encoder, together: int) -> float:
    """The distance from the space below which a record is proven.

    `together`: how many are sought at once (2: pairs).
    """
    coins = np.random.default_rng(0)
    outside = space.outside(encode(records.drawn(DRAWN, coins)))
    return min(_by_chance(outside, records, together), ADDITIVE * _crossed(space, records, encode, coins))


def _by_chance(outside: Array, records: TextRecords, together: int) -> float:
    """The distance d at which log(records) + sum of min(0, log(d / s_i)) is log(CHANCE); 0 where none is."""
    spreads = np.linalg.svd(outside, compute_uv=False) / np.sqrt(len(outside))
    logs = np.sort(np.log(np.maximum(spreads, 1e-300)))[::-1][together - 1 :]  # each further one has a factor to choose
    wanted = log(CHANCE) - together * log(prod(len(own) for own in records.values.values()))
    for k in range(1, len(logs) + 1):
        d = (wanted + logs[:k].sum()) / k
        if k == len(logs) or d >= logs[k]:
            return float(np.exp(d))
    return 0.0


def _crossed(space: SeenSpace, records: TextRecords, encode: Encoder, coins: np.random.Generator) -> float:
    """How far e(b, d) - e(a, d) - e(b, c) + e(a, c) is from the space, where it is nearest; a and b, c and d are values
    of some features and of the others. Infinite of records of one feature.
    """
    features = len(records.features)
    if features < 2:
        return np.inf
    one, other = records.drawn(SQUARES, coins), records.drawn(SQUARES, coins)
    some = coins.random((SQUARES, features)) < 0.5
    some[np.arange(SQUARES), coins.integers(features, size=SQUARES)] = True
    crossed: tuple[Ints, Ints] = np.where(some, one, other), np.where(some, other, one)
    square = encode(one) + encode(other) - encode(crossed[0]) - encode(crossed[1])
    differ = (crossed[0] != one).any(1) & (crossed[0] != other).any(1)
    return float(np.linalg.norm(space.outside(square), axis=1)[differ].min(initial=np.inf))
