"""The claim that rows make: which of them are proven, and what candidates with equal codes leave open.

A gradient shows codes. Where several candidates of a feature have one code (values in one hash bucket, categories with
one target rate), it does not show which of them a row has, however well the code is proven. The claim then names the
first, its entropy is that of an even draw among them, and the row is not verified. Known dependencies may decide
(`choices`). Where features share columns a code need not be of one feature, and no such cell is certain.

Shapes: n rows, K categorical blocks.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.candidates.dense import RESOLVED
from leakledger.attacks.candidates.meaning import spread
from leakledger.attacks.gradient.exact.choices import Choices
from leakledger.attacks.gradient.exact.rows import SNAP, EncodedRows, Mask, numbers
from leakledger.attacks.observed.affine import Array, with_ones
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import FeatureLayout

Ints = NDArray[np.int64]


def claim(
    update: ObservedUpdate,
    rows: EncodedRows,
    residual: Array,
    proven: Mask,
    exact: Mask,
    open: Array | None = None,
) -> RecordsClaim:
    """Rows that are `proven` (n,) are certain but for cells left `open` (n, K) and the numbers of those that are not
    `exact` (n,); the others are as unsure as can be.

    `open`, in [0, 1], is what equal codes leave open unless dependencies decided it. Where the number of rows is a
    guess nothing is proven: a row more than are stated may be mixed into one that explains everything, and so may the
    observers' own rows where a client has fewer than it is taken for (`assumed_size`).
    """
    layout, proven = update.layout, proven & (not update.open_size)
    open = undecided(layout, rows) if open is None else open
    unsure = np.where(proven & exact, 0.0, 1.0)[:, None]
    return RecordsClaim(
        victim=update.victim,
        round=update.round,
        categories=rows.categories,
        numbers=numbers(layout, rows.encoded),
        category_entropy=np.where(proven[:, None], open, 1.0),
        number_entropy=np.repeat(unsure, len(layout.numeric), 1),
        evidence=update.evidence,
        residual=residual,
        verified=proven & exact & ~open.any(1),
    )


def undecided(layout: FeatureLayout, rows: EncodedRows) -> Array:
    """(n, K) in [0, 1]: what the codes of rows leave open about each cell."""
    open = np.zeros(rows.categories.shape)
    for k, block in enumerate(layout.categorical):
        if block.codes is not None:  # one-hot codes are all different
            codes = block.plain_codes()
            picks = np.arange(block.size)[:, None]
            open[:, [k]] = read(codes, picks, codes[rows.categories[:, k]], [block.size])[1]
    open[:, sharing(layout)] = 1.0
    return open


def decided(
    layout: FeatureLayout, rows: EncodedRows, right: Array, choices: Sequence[Choices]
) -> tuple[EncodedRows, Array]:
    """The rows, which lie in the row space `right` (r, d+1), with the categories that `choices` allow; what those leave
    open about each cell (n, K).
    """
    categories, open = rows.categories.copy(), np.zeros(rows.categories.shape)
    coordinates = with_ones(rows.encoded) @ right.T
    for some in choices:
        own = [layout.categorical[k] for k in some.blocks]
        if any(b.codes is not None for b in own):
            chosen, left_open = read(some.codes, some.picks, coordinates @ some.columns, [b.size for b in own])
            categories[:, some.blocks] = np.where(chosen < 0, categories[:, some.blocks], chosen)
            open[:, some.blocks] = left_open
    open[:, sharing(layout)] = 1.0
    return EncodedRows(categories, rows.encoded), open


def read(codes: Array, picks: Ints, seen: Array, sizes: Sequence[int]) -> tuple[Ints, Array]:
    """Which of the `picks` (m, k), of as many candidates as `sizes` (k,) says, each row has, given what is `seen` of it
    (n, w) in the columns of their `codes` (m, w): the nearest, and in [0, 1] how much is open between those as near.

    Where none is near: -1, and everything.
    """
    chosen, open = np.full((len(seen), len(sizes)), -1, np.int64), np.ones((len(seen), len(sizes)))
    for i, point in enumerate(seen):
        distance = np.abs(codes - point).max(1, initial=0)
        size = max(1.0, float(np.abs(point).max(initial=0)))
        nearest = int(distance.argmin())
        if distance[nearest] < SNAP * size:
            alike = picks[distance <= distance[nearest] + RESOLVED * size]
            chosen[i] = picks[nearest]
            open[i] = [spread(own, np.ones(len(own)), s) for own, s in zip(alike.T, sizes, strict=True)]
    return chosen, open


def sharing(layout: FeatureLayout) -> list[int]:
    """The categorical blocks that share columns with others."""
    places = [range(b.start, b.start + b.width) for b in layout.blocks]
    blocks = Counter(column for place in places for column in place)
    return [
        k for k, b in enumerate(layout.categorical) if any(blocks[c] > 1 for c in range(b.start, b.start + b.width))
    ]
