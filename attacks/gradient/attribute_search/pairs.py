"""Pairs of records that a row space shows only together: those that switch the same neurons on.

Where two records of a batch have the same mask, every neuron's gradient has one sum of both, r e + s f, and neither of
them lies in the row space. The pair does: what is outside of it of one is that of the other, but for a factor. At a
model that has learnt little, r and s are nearly alike but for the sign, which is that of the labels. So pairs are
searched whose sum, or difference, lies in the row space, by descents like those of single records; whether the pair
fits is then asked with whatever factor is best. It is proven where it fits, no record of it lies in the space alone,
and the fit is not that of two records that are nearly the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.gradient.attribute_search.deltas import Deltas, Encoder
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace, orthonormal
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints, TextRecords

STEPS = 15  # changes of a descent
CHANGES = 300  # single changes of which pairs are tried: time grows with their square
SIGNS = (1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Pair:
    """`picks` (2, features), and how far the pair is from the row space, as a share of any pair's distance."""

    picks: Ints = field(repr=False)
    off: float


def find_pairs(
    space: SeenSpace,
    known: Ints,
    records: TextRecords,
    deltas: Deltas,
    encode: Encoder,
    starts: int,
    proposals: int,
    coins: np.random.Generator,
) -> list[Pair]:
    """What `starts` descents for either sign end with, nearest first, beside the records that are `known`."""
    problem = PairSpace.of(space, known, deltas, encode)
    if not len(problem.goal) or all(len(own) == 1 for own in deltas.added):  # there is but one record
        return []
    drawn = ((sign, records.drawn(2, coins)) for sign in SIGNS for _ in range(starts))
    found = [problem.descend(picks, sign, proposals) for sign, picks in drawn]
    return sorted(found, key=lambda pair: pair.off)


@dataclass(frozen=True, eq=False)
class PairSpace:
    """`goal`: orthonormal rows of what the row space has beside `given`, those of the known records or of the mean one.
    `outside`: by feature (values, d + 1), what each value adds beside what is given.
    """

    goal: Array
    given: Array
    outside: tuple[Array, ...]
    encode: Encoder

    @classmethod
    def of(cls, space: SeenSpace, known: Ints, deltas: Deltas, encode: Encoder) -> "PairSpace":
        given = orthonormal(encode(known) if len(known) else deltas.origin[None])
        _, values, right = np.linalg.svd(_beside(space.basis, given), full_matrices=False)
        return cls(right[values > 0.1], given, tuple(_beside(own, given) for own in deltas.added), encode)

    def descend(self, picks: Ints, sign: float, proposals: int) -> Pair:
        signs = (1.0, sign)
        total = signs @ self._points(picks)
        off = float(self._off(total[None])[0])
        for _ in range(STEPS):
            tried = np.array(list(self._tried(picks, total, signs, proposals)))
            points = self._points(tried.reshape(-1, picks.shape[1])).reshape(len(tried), 2, -1)
            totals = np.einsum("k,nkd->nd", signs, points)
            each = self._off(totals)
            best = int(each.argmin())
            if each[best] >= off * (1 - 1e-9):
                break
            picks, total, off = tried[best], totals[best], float(each[best])
        return Pair(picks, off)

    def _points(self, picks: Ints) -> Array:
        return _beside(self.encode(picks), self.given)

    def _off(self, totals: Array) -> Array:
        """(n,) the share of each that is outside the goal."""
        size = (totals**2).sum(-1)
        inside = ((totals @ self.goal.T) ** 2).sum(-1)
        return np.asarray(np.sqrt(np.clip(1 - inside / np.maximum(size, 1e-12), 0, 1)))

    def _tried(self, picks: Ints, total: Array, signs: tuple[float, float], proposals: int) -> Iterator[Ints]:
        """The pairs that the additive guess finds best of those that differ in one attribute of a record, or in two."""
        changes = [
            (k, f, v)
            for k in range(2)
            for f, own in enumerate(self.outside)
            for v in range(len(own))
            if v != picks[k, f]
        ]
        moves = np.array([signs[k] * (self.outside[f][v] - self.outside[f][picks[k, f]]) for k, f, v in changes])
        alone = self._off(total + moves)
        some = np.argsort(alone, kind="stable")[:CHANGES]
        joint = self._joint(total, moves[some])
        place = np.array([k * len(self.outside) + f for k, f, _ in changes])[some]
        joint[place[:, None] >= place] = np.inf
        order = np.argsort(joint, axis=None, kind="stable")[:proposals]
        both = [(float(joint.flat[i]), [some[j] for j in divmod(int(i), len(some))]) for i in order]
        single = [(float(alone[i]), [i]) for i in some[:proposals]]
        for _, which in sorted(single + both, key=lambda one: one[0])[:proposals]:
            changed = picks.copy()
            for i in which:
                k, f, v = changes[i]
                changed[k, f] = v
            yield changed

    def _joint(self, total: Array, moves: Array) -> Array:
        """(n, n) `_off` after two of the moves."""
        shown, start = moves @ self.goal.T, total @ self.goal.T
        inside = ((start + shown[:, None] + shown) ** 2).sum(-1)
        own, along = (moves**2).sum(1), moves @ total
        size = total @ total + own[:, None] + own + 2 * (along[:, None] + along + moves @ moves.T)
        return np.asarray(np.sqrt(np.clip(1 - inside / np.maximum(size, 1e-12), 0, 1)))


def fits(space: SeenSpace, points: Array, inside: float, scale: float) -> bool:
    """Whether two points (2, d + 1) lie in the row space together, and neither does alone: to `inside` of the distance
    `scale` of any record, and of the difference of the two where it is that which fits.
    """
    one, other = space.outside(points)
    sizes = np.linalg.norm([one, other], axis=1)
    if sizes.min() < 100 * inside * scale:
        return False
    factor = float(one @ other) / float(other @ other)
    off = float(np.linalg.norm(one - factor * other))
    together = float(np.linalg.norm(points[0] - factor * points[1]))
    return off < inside * min(scale, together if factor > 0 else np.inf)


def _beside(points: Array, basis: Array) -> Array:
    return np.asarray(points - points @ basis.T @ basis)
