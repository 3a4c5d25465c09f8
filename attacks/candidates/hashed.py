"""`rolling-hash`: rows as sets of buckets, in the few columns that the batch uses, and which values those may be.

All features share the columns, a value sets one of them, and a column is 1 however many values of a row hit it. Where
nothing perturbs the gradient, the columns that no row of the batch sets have a gradient of zero: of thousands of
columns some dozens are left, which are an index into the code and need no codebook. Each feature sets one of the
columns of its candidates. Features that share such columns become one block, of every set that they can make together;
where a column belongs to no candidate, or such a block would be too large, each column is a block of its own instead.

A recovered row is a set of buckets. Its values are those assignments of a candidate to every feature that set exactly
these buckets: more than one where values collide, or where features can swap theirs (two features with the same
values, say). Without candidates the set itself is all that is known, the *id* of a row's categories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.candidates.codes import Array, granted
from leakledger.attacks.candidates.meaning import UNKNOWN, Assignments, Ints
from leakledger.attacks.observed.values import candidate_values, rolling_hash
from leakledger.preprocess.views import CategoricalBlock, View

Buckets = frozenset[int]
PATTERN = "buckets"  # what the one feature is called that rows have without candidates
# Relative: the gradient of a column that no row sets, where public scaling had to be undone. Too small: rounding sets
# columns; too large: columns of faint rows are dropped.
ZERO = 1e-5
MOST = 4096  # sets of one block, and assignments of one row: fewer leave more cells without a name, more cost memory


@dataclass(frozen=True, eq=False)
class Hashed:
    """The shared columns: `start`, `width`, their public scaling, and per feature its `values` and their buckets.

    `complete`: the values of every feature are public or granted, so that rows are taken to have no others.
    """

    start: int
    width: int
    shift: Array | None = field(repr=False)
    scale: Array | None = field(repr=False)
    values: Mapping[str, tuple[str, ...]] = field(repr=False)
    buckets: Mapping[str, tuple[int, ...]] = field(repr=False)
    complete: bool = True

    @property
    def named(self) -> bool:
        """Whether any feature has candidates."""
        return any(self.values.values())


def hashed(view: View, knowledge: AuxiliaryKnowledge) -> Hashed | None:
    """The shared columns of a layout under `rolling-hash`; None for another.

    Raises ValueError where the columns are scaled and the scaling is not public.
    """
    layout, options = view.public.layout, view.public.encoder.options
    if layout is None or view.public.encoder.name != "rolling-hash" or not layout.categorical:
        return None
    first, candidates = layout.categorical[0], candidate_values(view, knowledge)
    if any((b.start, b.width) != (first.start, first.width) for b in layout.categorical):
        return None
    if first.shift is None and view.public.scaler.options.get("columns") == "all":
        raise ValueError("the shared columns of rolling-hash are scaled by statistics that no party publishes")
    values = {b.feature: b.values or candidates.get(b.feature, ()) for b in layout.categorical}
    buckets = {f: tuple(rolling_hash(v, first.width, options) for v in held) for f, held in values.items()}
    shift, scale = (None if s is None else np.asarray(s, np.float64) for s in (first.shift, first.scale))
    complete = all(b.values is not None or granted(b.feature, knowledge) for b in layout.categorical)
    return Hashed(first.start, first.width, shift, scale, values, buckets, complete)


def active_columns(gradient: Array, exact: bool, rows: int, features: int) -> Ints | None:
    """The columns (n,) of `gradient` (H, w) that some row sets; None where noise makes them more than rows can set."""
    size = np.linalg.norm(gradient, axis=0)
    active = np.flatnonzero(size > (0.0 if exact else ZERO * size.max(initial=0.0)))
    return active if len(active) <= rows * features else None


def blocks_of(code: Hashed, active: Ints) -> list[tuple[Ints, Array]]:
    """Blocks over the `active` columns: the columns of each, places in `active`, and its codes (k, n) of 0 and 1."""
    owners = {f: sorted(set(active.tolist()) & set(b)) for f, b in code.buckets.items()}
    explained = set().union(*owners.values())
    groups = overlapping(owners)
    sizes = [prod(len(owners[f]) for f in group) for group in groups]
    if explained != set(active.tolist()) or not all(owners.values()) or max(sizes, default=0) > MOST:
        return [(np.array([i]), np.array([[0.0], [1.0]])) for i in range(len(active))]
    place = {bucket: i for i, bucket in enumerate(active.tolist())}
    return [_block([[place[b] for b in owners[f]] for f in group]) for group in groups]


def _block(choices: Sequence[Sequence[int]]) -> tuple[Ints, Array]:
    columns = sorted({c for own in choices for c in own})
    codes = np.zeros((prod(map(len, choices)), len(columns)))
    for i, chosen in enumerate(product(*choices)):
        codes[i, [columns.index(c) for c in chosen]] = 1.0
    return np.array(columns), np.unique(codes, axis=0)[::-1].copy()  # torch takes no array with negative strides


def overlapping(owners: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Features in groups, those that share a bucket, with each other or through others, together."""
    groups: list[tuple[list[str], set[int]]] = []
    for feature, own in owners.items():
        touching = [g for g in groups if g[1] & set(own)]
        groups = [g for g in groups if g not in touching]
        features = [*(f for g in touching for f in g[0]), feature]
        groups.append((features, set(own).union(*(g[1] for g in touching))))
    order = {f: i for i, f in enumerate(owners)}
    return sorted((sorted(f, key=order.__getitem__) for f, _ in groups), key=lambda f: order[f[0]])


def assignments(code: Hashed, present: Buckets) -> list[Assignments]:
    """What the features of a row with these buckets may be, in groups that do not depend on each other.

    Features without a bucket of theirs have another value. More buckets of no candidate than such features show that
    some other feature has one too, and only seems to set the bucket of a candidate: then each may.
    """
    names = list(code.values)
    owners = {f: sorted(present & set(b)) for f, b in code.buckets.items()}
    unknown = [f for f in names if not owners[f]]
    groups = [Assignments((names.index(f),), _none(1)) for f in unknown]  # which is no proof either
    uncertain = len(present - set().union(*owners.values())) > len(unknown)
    for group in overlapping({f: owners[f] for f in names if owners[f]}):
        choices = _together(code, group, owners)
        choices = np.concatenate([choices, _none(len(group))]) if uncertain else choices
        weights = None if code.complete else np.ones(len(choices))
        groups.append(Assignments(tuple(names.index(f) for f in group), choices, weights))
    return groups


def _none(features: int) -> Ints:
    return np.full((1, features), UNKNOWN, np.int64)


def _together(code: Hashed, group: Sequence[str], owners: Mapping[str, Sequence[int]]) -> Ints:
    """(m, F) the value numbers with which the features of `group` set all of the buckets that are theirs."""
    everything = set().union(*(owners[f] for f in group))
    if prod(len(owners[f]) for f in group) > MOST:
        return _none(len(group))
    covers = [chosen for chosen in product(*(owners[f] for f in group)) if set(chosen) == everything]
    combined: list[tuple[int, ...]] = []
    for chosen in covers:
        numbers = [[i for i, b in enumerate(code.buckets[f]) if b == c] for f, c in zip(group, chosen, strict=True)]
        combined.extend(islice(product(*numbers), MOST + 1))
    return np.array(combined, np.int64) if 0 < len(combined) <= MOST else _none(len(group))


def pattern_block(code: Hashed, patterns: Sequence[Buckets]) -> CategoricalBlock:
    """The distinct sets of buckets of a claim, as candidates without a name."""
    codes = np.zeros((len(patterns), code.width))
    for i, present in enumerate(patterns):
        codes[i, list(present)] = 1.0
    return CategoricalBlock(PATTERN, code.start, len(patterns), None, codes)
