"""The search for records whose embeddings lie in a row space: greedy over attributes and pairs of them, many starts.

A record of the batch is in the space up to rounding, any other is not. Starts come from a descent on the additive guess
(`deltas`), which costs no encoding. From each, the changes of one or two attributes that the guess finds best are
encoded, and the best of them is taken, until none is better: what is not additive is seen as soon as it is encoded.
"""

from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.attribute_search.deltas import Deltas, encode_all
from leakledger.attacks.gradient.attribute_search.moves import Moves
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

SWEEPS = 20  # passes of the descent on the guess over single attributes
STEPS = 12  # changes of pairs in the descent on the guess, and of encoded ones
# Distance from the row space, as a share of that of any record. Too small: rounding in the
# gradient hides a record; too large: neighbours of one pass for it.
INSIDE = 1e-2


@dataclass(frozen=True, eq=False)
class Found:
    """`picks` (n, features): the values of different records, the nearest first; `distance` (n,): how far each is from
    the row space; `scale`: how far any record is, in the median.
    """

    picks: Ints = field(repr=False)
    distance: Array = field(repr=False)
    scale: float

    @property
    def inside(self) -> int:
        """How many of them lie in the row space."""
        return int((self.distance < INSIDE * self.scale).sum())


def search(
    space: SeenSpace,
    records: TextRecords,
    deltas: Deltas,
    starts: int,
    proposals: int,
    rounds: int,
    coins: np.random.Generator,
) -> Found:
    """The union of what at most `rounds` rounds of `starts` descents find; they end once as many records lie in the
    space as it has dimensions, and those are in general all, or once a round adds none to those that do.
    """
    moves = Moves.of([space.outside(own) for own in deltas.added])
    seen = set[tuple[int, ...]]()
    found = Found(np.zeros((0, len(records.features)), np.int64), np.zeros(0), 0.0)
    scale = float(np.median(np.linalg.norm(space.outside(encode_all(records, records.drawn(64, coins))), axis=1)))
    for _ in range(rounds):
        guessed = guesses(space, deltas, moves, records.drawn(20 * starts, coins), starts)
        fresh = [tuple(p) not in seen for p in guessed.tolist()]
        some = guessed[fresh] if any(fresh) else records.drawn(starts, coins)
        seen |= {tuple(p) for p in guessed.tolist()}
        more = descend(space, records, moves, some, proposals, scale)
        picks, first = np.unique(np.concatenate([found.picks, more[0]]), axis=0, return_index=True)
        distance = np.concatenate([found.distance, more[1]])[first]
        order = np.argsort(distance, kind="stable")
        before, found = found.inside, Found(picks[order], distance[order], scale)
        if found.inside >= space.rank or 0 < before == found.inside:
            break
    return found


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
    space: SeenSpace, records: TextRecords, moves: Moves, starts: Ints, proposals: int, scale: float
) -> tuple[Ints, Array]:
    """Records (n, features) that descents end with, and their distances (n,): from each of `starts`, of the best
    `proposals` changes the one that is best once encoded. `scale`: how far any record is from the row space.
    """
    picks = starts.copy()
    rest = space.outside(encode_all(records, picks))
    length = np.linalg.norm(rest, axis=1)
    live = np.ones(len(picks), bool)
    for _ in range(STEPS):
        moving = np.flatnonzero(live & (length > INSIDE * scale))
        if not len(moving):
            break
        tried = np.concatenate([moves.best(picks[i], rest[i])[0][:proposals] for i in moving])
        points = space.outside(encode_all(records, tried))
        lengths = np.linalg.norm(points, axis=1).reshape(len(moving), -1)
        for place, i in enumerate(moving):
            best = int(lengths[place].argmin())
            at = place * lengths.shape[1] + best
            live[i] = lengths[place, best] < length[i]
            if live[i]:
                picks[i], rest[i], length[i] = tried[at], points[at], lengths[place, best]
    return picks, length
