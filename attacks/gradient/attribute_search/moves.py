"""Changes of one or two attributes of a record that bring its guessed embedding nearest to a row space.

With a_v what value v adds outside the row space, and r what of the record is outside it, a change of two values moves
its square distance by p_v + p_u + 2 (a_v - a) (a_u - a'), where p_v is what the change to v does alone: all pairs of
values cost one matrix of inner products, which is made once per row space.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from leakledger.attacks.observed.affine import Array
from leakledger.attacks.texts import Ints


@dataclass(frozen=True, eq=False)
class Moves:
    """`outside`: by feature (values, d + 1), what each value adds outside the row space."""

    outside: Sequence[Array] = field(repr=False)
    ends: Ints = field(repr=False)
    stacked: Array = field(repr=False)
    products: Array = field(repr=False)

    @classmethod
    def of(cls, outside: Sequence[Array]) -> "Moves":
        stacked = np.concatenate(outside)
        return cls(outside, np.cumsum([0, *map(len, outside)]), stacked, stacked @ stacked.T)

    def best(self, pick: Ints, rest: Array) -> tuple[Ints, Array]:
        """Records (m, features) that differ from `pick` (features,) in one or two attributes, the best change of each
        attribute and each pair of them, nearest first; and by how much each moves the square distance (m,).
        """
        gains = [self._alone(pick, rest, f) for f in range(len(pick))]
        tried, moved = [], []
        for f, gain in enumerate(gains):
            v = int(np.where(np.arange(len(gain)) == pick[f], np.inf, gain).argmin()) if len(gain) > 1 else pick[f]
            tried.append(changed(pick, {f: v}))
            moved.append(float(gain[v]))
        for f, g in combinations(range(len(pick)), 2):
            joint = gains[f][:, None] + gains[g] + 2 * self._joint(pick, f, g)
            v, u = divmod(int(joint.argmin()), joint.shape[1])
            tried.append(changed(pick, {f: v, g: u}))
            moved.append(float(joint[v, u]))
        order = np.argsort(moved, kind="stable")
        return np.array(tried)[order], np.array(moved)[order]

    def settle(self, pick: Ints, rest: Array, steps: int) -> tuple[Ints, Array]:
        """The record after at most `steps` best changes, and what of its guess is then outside."""
        for _ in range(steps):
            tried, moved = self.best(pick, rest)
            if moved[0] > -1e-9 * float(rest @ rest):
                break
            difference = [own[v] - own[w] for own, v, w in zip(self.outside, tried[0], pick, strict=True)]
            pick, rest = tried[0], rest + np.sum(difference, axis=0)
        return pick, rest

    def _alone(self, pick: Ints, rest: Array, f: int) -> Array:
        """(values,) by how much the change of feature `f` to each value moves the square distance."""
        difference = self.outside[f] - self.outside[f][pick[f]]
        return np.asarray((difference**2).sum(1) + 2 * difference @ rest)

    def _joint(self, pick: Ints, f: int, g: int) -> Array:
        """(values of f, values of g): inner products of the two changes."""
        block = self.products[self.ends[f] : self.ends[f + 1], self.ends[g] : self.ends[g + 1]]
        at = pick[f], pick[g]
        return np.asarray(block - block[:, [at[1]]] - block[[at[0]]] + block[at])


def changed(pick: Ints, values: dict[int, int]) -> Ints:
    """The record with these values, by the number of the feature, in the place of its own."""
    other = pick.copy()
    for f, v in values.items():
        other[f] = v
    return other
