"""Whether a record that lies in a row space must be one of the batch, or may be there without it.

Others get into the space in two ways, and a record is proven only where it is much nearer than either explains.

* *By chance.* What of made-up records is outside the space has a spread s_i in each direction; one of them is within d
  of it with a chance of about the product of d / s_i, where that is below 1. Times the number of records that there may
  be, this is negligible in a space that leaves many directions, and not in one that leaves few: a gradient of as many
  rows as embeddings have dimensions spans all there are.
* *By the encoder.* Of an additive one, e(b, d) = e(a, d) + e(b, c) - e(a, c): three records of a batch bring a fourth
  into the space that is in no batch. By how much the encoder is not additive is measured on made-up records, and beside
  the record itself, where it may be another: two features may add up alone among many, or two values of a number have
  all between them on one line.

A record that the encoder does not tell from another is proven no more than that one: a tokenizer may take letters of
either case for one, words it does not know for one, and lose the end of a text.
"""

from itertools import combinations
from math import log, prod

import numpy as np

from leakledger.attacks.gradient.attribute_search.deltas import Deltas, Encoder
from leakledger.attacks.gradient.attribute_search.moves import changed
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

DRAWN, SQUARES = 256, 64  # made-up records, and fours of them, that are encoded
CHANCE = 1e-3  # that any record at all lies in the space by chance
NEAR = 4  # other values of a feature that are asked beside a record: those that change the reference record least
ALIKE = 1e-3  # of how far any record is from the space: points that are nearer are one, up to rounding
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


def within_beside(space: SeenSpace, pick: Ints, deltas: Deltas, encode: Encoder, inside: float, scale: float) -> float:
    """The distance from the space below which the record `pick` (features,) is proven against those that differ from it
    in one attribute or in two: infinite where there are none, 0 where they explain it.

    `inside`: the distance below which others may be in the space, too; `scale`: how far any record is from it.
    """
    single = [[changed(pick, {f: v}) for v in _nearest(own, int(pick[f]))] for f, own in enumerate(deltas.added)]
    single = [own for own in single if own]
    corners = [(one[0], two[0], np.where(two[0] != pick, two[0], one[0])) for one, two in combinations(single, 2)]
    encode(np.array([pick, *(r for some in (*single, *corners) for r in some)]))  # at once: it keeps them
    here, alike = encode(pick[None])[0], ALIKE * scale
    least = [_unexplained(space, here, encode(np.array(own)), inside, alike) for own in single]
    least += [_uncrossed(space, here, encode(np.array(three)), inside, alike) for three in corners]
    return ADDITIVE * min(least, default=np.inf)


def _nearest(added: Array, value: int) -> list[int]:
    """The other values of a feature that change the reference record most nearly as this one does."""
    order = np.argsort(np.linalg.norm(added - added[value], axis=1), kind="stable").tolist()
    return [v for v in order if v != value][:NEAR]


def _unexplained(space: SeenSpace, point: Array, others: Array, inside: float, alike: float) -> float:
    """How far from the space a point is but for what others (n, d + 1), of other values of one feature, tell of it."""
    outside = space.outside(others)
    seen = np.linalg.norm(outside, axis=1) < inside
    if seen.any() and _from_hull(point, others[seen]) <= alike:
        return 0.0
    return np.inf if seen.all() else _from_hull(space.outside(point), outside[~seen])


def _from_hull(point: Array, others: Array) -> float:
    """How far a point is from the nearest sum of others (n, d + 1) whose weights add up to 1."""
    way, along = point - others[0], (others[1:] - others[0]).T
    return float(np.linalg.norm(way - along @ np.linalg.lstsq(along, way)[0]))


def _uncrossed(space: SeenSpace, point: Array, three: Array, inside: float, alike: float) -> float:
    """How far from the space a point is but for the fourth corner to three (3, d + 1), the last one opposite."""
    way = point - three[0] - three[1] + three[2]
    if (np.linalg.norm(space.outside(three), axis=1) < inside).all():
        return np.inf if np.linalg.norm(way) > alike else 0.0
    return float(np.linalg.norm(space.outside(way)))
