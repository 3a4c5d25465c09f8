"""The search for records whose embeddings lie in a row space: greedy over attributes and pairs of them, many starts.

A record of the batch is in the space up to rounding; when no other is, says `proof`. Starts come from a descent on the
additive guess (`deltas`), which costs no encoding. From each, the changes of one or two attributes that the guess finds
best are encoded, and the best of them is taken, until none is better: what is not additive is seen as soon as it is
encoded.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.attribute_search.deltas import Deltas, Encoder
from leakledger.attacks.gradient.attribute_search.moves import Moves
from leakledger.attacks.gradient.attribute_search.pairs import find_pairs, fits
from leakledger.attacks.gradient.attribute_search.proof import within, within_beside
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

SWEEPS = 20  # passes of the descent on the guess over single attributes
STEPS = 12  # changes of pairs in the descent on the guess, and of encoded ones
# Distance from the row space, as a share of that of any record. Too small: rounding in the
# gradient hides a record; too large: neighbours of one pass for it. Of true records it is 1e-4.
INSIDE = 1e-3


@dataclass(frozen=True, eq=False)
class Found:
    """`picks` (n, features): the values of different records, of which the first `inside` lie in the row space, alone
    or in pairs, as only records of the batch do; `distance` (n,): how far each is from it; `scale`: how far any record
    is, in the median.
    """

    picks: Ints = field(repr=False)
    distance: Array = field(repr=False)
    inside: int
    scale: float


def search(
    space: SeenSpace,
    rows: int,
    records: TextRecords,
    deltas: Deltas,
    starts: int,
    proposals: int,
    repeats: int,
    coins: np.random.Generator,
) -> Found:
    """What is found of a batch of so many `rows`: records that lie in the space by themselves, then pairs, and beside
    each pair, which makes the space larger, records again. What is still missing is filled up with the best guesses.
    """
    encode = Encoder(records)
    drawn = space.outside(encode(records.drawn(64, coins)))
    scale = float(np.median(np.linalg.norm(drawn, axis=1)))
    budget = starts, proposals, coins
    near = singles(space, records, deltas, encode, scale, repeats, *budget)
    known, distance, spare = near[0][_inside(near, scale)], near[1][_inside(near, scale)], near[0]
    alone = True
    for _ in range(repeats):
        if len(known) >= rows:
            break
        pairs = find_pairs(space, known, records, deltas, encode, starts, proposals, coins)
        tried = np.concatenate([p.picks for p in pairs]) if pairs else known
        fresh = [tried[np.linalg.norm(space.outside(encode(tried)), axis=1) < INSIDE * scale]] if len(tried) else []
        fitting = (p for p in pairs if fits(space, encode(p.picks), INSIDE, scale))
        if (pair := next(fitting, None)) is not None:
            space, alone = space.with_points(encode(pair.picks[:1])), False
            more = singles(space, records, deltas, encode, scale, 1, *budget)
            fresh += [pair.picks, more[0][_inside(more, scale)]]
        before, known = len(known), _different(np.concatenate([known, *fresh]))
        distance = np.linalg.norm(space.outside(encode(known)), axis=1) if len(known) else np.zeros(0)
        if len(known) == before:
            spare = np.concatenate([tried, spare])
            break
    limit = np.full(len(known), within(space, records, encode, 1 if alone else 2))
    for i in np.flatnonzero(distance <= limit):
        limit[i] = min(limit[i], within_beside(space, known[i], deltas, encode, INSIDE * scale, scale))
    order = np.argsort(distance > limit, kind="stable")
    known, distance, proven = known[order], distance[order], int((distance <= limit).sum())
    every = _different(np.concatenate([known, spare]))
    left = np.linalg.norm(space.outside(encode(every[len(known) :])), axis=1) if len(every) > len(known) else []
    return Found(every, np.concatenate([distance, left]), proven, scale)


def singles(
    space: SeenSpace,
    records: TextRecords,
    deltas: Deltas,
    encode: Encoder,
    scale: float,
    repeats: int,
    starts: int,
    proposals: int,
    coins: np.random.Generator,
) -> tuple[Ints, Array]:
    """Different records, the nearest first, and their distances: the union of what at most `repeats` rounds of `starts`
    descents find. They end once as many records lie in the space as it has dimensions, and those are in general all, or
    once a round adds none to those that do.
    """
    moves = Moves.of([space.outside(own) for own in deltas.added])
    seen = set[tuple[int, ...]]()
    found = np.zeros((0, len(records.features)), np.int64), np.zeros(0)
    for _ in range(repeats):
        guessed = guesses(space, deltas, moves, records.drawn(20 * starts, coins), starts)
        fresh = [tuple(p) not in seen for p in guessed.tolist()]
        some = guessed[fresh] if any(fresh) else records.drawn(starts, coins)
        seen |= {tuple(p) for p in guessed.tolist()}
        more = descend(space, encode, moves, some, proposals, scale)
        picks, first = np.unique(np.concatenate([found[0], more[0]]), axis=0, return_index=True)
        distance = np.concatenate([found[1], more[1]])[first]
        order = np.argsort(distance, kind="stable")
        before, found = int(_inside(found, scale).sum()), (picks[order], distance[order])
        now = int(_inside(found, scale).sum())
        if now >= space.rank or 0 < before == now:
            break
    return found


def _inside(found: tuple[Ints, Array], scale: float) -> NDArray[np.bool_]:
    """(n,) which of the records lie in the space."""
    return np.asarray(found[1] < INSIDE * scale)


def _different(picks: Ints) -> Ints:
    """Each record once, where it is first."""
    return picks[np.sort(np.unique(picks, axis=0, return_index=True)[1])]


def guesses(space: SeenSpace, deltas: Deltas, moves: Moves, starts: Ints, count: int) -> Ints:
    """At most `count` different records (n, features) that descents from `starts` on the additive guess end with."""
    picks = starts.copy()
    rest = space.outside(deltas.predicted(picks))
    for _ in range(SWEEPS):
        before = picks.copy()
        for f, own in enumerate(moves.outside):
            without = rest - own[picks[:, f]]
            picks[:, f] = ((own**2).sum(1) + 2 * without @ own.T).argmin(1)
            rest = without + own[picks[:, f]]
        if (picks == before).all():
            break
    picks, first = np.unique(picks, axis=0, return_index=True)
    rest = rest[first]
    order = np.argsort(np.linalg.norm(rest, axis=1), kind="stable")[:count]
    settled = [moves.settle(picks[i], rest[i], STEPS)[0] for i in order]
    return np.unique(np.array(settled), axis=0)


def descend(
    space: SeenSpace, encode: Encoder, moves: Moves, starts: Ints, proposals: int, scale: float
) -> tuple[Ints, Array]:
    """Records (n, features) that descents end with, and their distances (n,): from each of `starts`, of the best
    `proposals` changes the one that is best once encoded. `scale`: how far any record is from the row space.
    """
    picks = starts.copy()
    rest = space.outside(encode(picks))
    length = np.linalg.norm(rest, axis=1)
    live = np.ones(len(picks), bool)
    for _ in range(STEPS):
        moving = np.flatnonzero(live & (length > INSIDE * scale))
        if not len(moving):
            break
        tried = np.concatenate([moves.best(picks[i], rest[i])[0][:proposals] for i in moving])
        points = space.outside(encode(tried))
        lengths = np.linalg.norm(points, axis=1).reshape(len(moving), -1)
        for place, i in enumerate(moving):
            best = int(lengths[place].argmin())
            at = place * lengths.shape[1] + best
            live[i] = lengths[place, best] < length[i]
            if live[i]:
                picks[i], rest[i], length[i] = tried[at], points[at], lengths[place, best]
    return picks, length
