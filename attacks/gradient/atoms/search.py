"""The search for the rows of a batch: those that all layers bear out are subtracted, and what is left is searched.

What is left is the gradient of a smaller batch (`exact.deflation`), whose row space holds fewer candidates and leaves
fewer directions open. A row counts as found where the rank of the gradient falls by one without it.
"""

from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.all_layers.batch import FoundRows, Remaining, remaining
from leakledger.attacks.gradient.all_layers.labels import ROUGH, decided, errors_of
from leakledger.attacks.gradient.all_layers.layers import TINY
from leakledger.attacks.gradient.all_layers.polish import share
from leakledger.attacks.gradient.all_layers.roots import moved
from leakledger.attacks.gradient.all_layers.spaces import MISSED, Spaces
from leakledger.attacks.gradient.all_layers.tangents import columns_of
from leakledger.attacks.gradient.atoms.proposals import Budget, proposals
from leakledger.attacks.gradient.exact.deflation import norm, without
from leakledger.attacks.gradient.exact.network import error_basis
from leakledger.attacks.gradient.exact.polish import with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows, no_rows
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.update import ObservedUpdate

# Standard errors by which a row may miss a space before its numbers are polished, and how many rows are polished at
# most. Smaller: rows whose numbers are rough are lost; larger: time.
NEAR, MOST = 1e5, 512
# And a polished row the spaces of what others left: these were subtracted with errors up to `MISSED`, larger beside a
# row with a large share, and a rank that falls bears a row out as well. Too small: rows that are left stay so; too
# large: mixtures are tried. No certificate follows from it.
LEFT_OVER = 1e3
SAME = 1e-5  # rows whose last hidden points are nearer than this, relative to them, are one until one of them is gone


def nothing(update: ObservedUpdate) -> FoundRows:
    return FoundRows(no_rows(update.layout), np.zeros((0, update.model.outputs), np.int64))


def solve(whole: Remaining, known: Array, budget: Budget, rng: np.random.Generator) -> tuple[FoundRows, Remaining]:
    """At most as many rows of a batch as its rank, and what is left without them; `known` (n, d) are tried first.

    Where the spaces of what is left propose no more, as subtracted rows leave their rounding there, those of the whole
    batch do; where these do neither, the search goes on in the spaces that are no such rounding (`firm`).
    """
    found, left = nothing(whole.update), whole
    while left.rank and left.spaces.full:
        before, layout = len(found), whole.update.layout
        sources = [left.spaces, *([whole.spaces] if found else [])]
        proposed = chain.from_iterable(proposals(spaces, layout, known, budget, rng) for spaces in sources)
        while len(found) == before and (rows := next(proposed, None)) is not None:
            found, left = admitted(left, found, rows)
        if len(found) == before:
            sure = firm(left)
            if sure.spaces.ranks == left.spaces.ranks:
                break
            left, budget = sure, replace(budget, attempts=0)
        known = known[:0]
    return found, left


def firm(left: Remaining) -> Remaining:
    """What is left, without the directions that may be what rows left of themselves when they were subtracted: a layer
    that has one of these beside the rows' own refutes true rows.
    """
    return replace(left, spaces=replace(left.spaces, layers=[layer.firm for layer in left.spaces.layers]))


def admitted(left: Remaining, found: FoundRows, proposed: EncodedRows) -> tuple[FoundRows, Remaining]:
    """`found` and the rows among those `proposed` that `left` bears out, and what is left without them."""
    new = borne_out(left, proposed)
    smaller = lessened(left, new)
    if smaller is not None:
        return found.plus(new), smaller
    for i in range(len(new)):
        one = new.where(np.array([i]))
        smaller = lessened(left, one)
        if smaller is not None:
            found, left = found.plus(one), smaller
    return found, left


def lessened(left: Remaining, new: FoundRows) -> Remaining | None:
    """What is left without the rows `new`, unless the rank does not fall by their number (`ranks_left`)."""
    rank, rows = left.rank - len(new), left.rows - int(new.counts.sum())
    if rank < 0 or rows < rank:
        return None
    spaces, passed = left.spaces, left.spaces.passed(new.rows.encoded)
    errors = errors_of(passed.probabilities, new.counts, left.update.rows)
    basis = error_basis(errors.shape[1])
    gradient = without(spaces.weights, left.gradient, new.rows.encoded, errors @ basis.T, spaces.activation)
    rounded = new.counts.sum(1) / left.update.rows / norm(errors).clip(TINY)
    columns = columns_of(spaces.weights, passed, errors * rounded[:, None])  # as wrong as probabilities are
    subtracted = [
        float(np.hypot(k.subtracted, share(columns[k.number] / k.out, p / k.inputs)))
        for k, p in zip(spaces.layers, passed.points, strict=True)
    ]
    smaller = remaining(left.update, gradient, rows, ranks_left(spaces, len(new), rows), spaces.layers, subtracted)
    return None if isinstance(smaller, str) else smaller


def ranks_left(spaces: Spaces, new: int, rows: int) -> list[int]:
    """The rank of each layer at most, when `new` rows leave spaces to `rows` others.

    That of the full layers falls by their number, which is what bears them out. That of another layer need not: it may
    be bounded by the layer's width, or rows may share a column there (with two classes, all that the last hidden layer
    sees with one mask). Of the first layer it is not asked where a deeper one is full, as rows that depend on each
    other there keep its rank.
    """
    deeper = [layer for layer in spaces.full if layer.number]
    falling = deeper or spaces.full
    return [max(layer.rank - new, 0) if layer in falling else min(layer.rank, rows) for layer in spaces.layers]


def borne_out(left: Remaining, proposed: EncodedRows) -> FoundRows:
    """The different rows among those proposed that lie in all spaces and have the errors of labels, the best first."""
    spaces, layout = left.spaces, left.update.layout
    missed = spaces.missed(proposed.encoded)
    near = np.argsort(missed, kind="stable")[:MOST]
    rows = proposed.where(near[missed[near] < NEAR])
    numeric = [b.start for b in layout.numeric]
    encoded = moved(spaces, rows.encoded, np.eye(layout.width)[numeric])
    whole = with_integers(layout.numeric, encoded)
    encoded = np.where((spaces.missed(whole) < MISSED)[:, None], whole, encoded)
    missed = spaces.missed(encoded)
    errors, off = spaces.errors(encoded)
    passed = spaces.passed(encoded)
    counts, clear = decided(passed.probabilities, errors, off, left.update.rows, left.update.roundoff, ROUGH)
    limit = LEFT_OVER if left.rows < left.update.rows else MISSED
    clear &= (missed < limit) & (counts.sum(1) <= left.rows)
    order = np.argsort(missed, kind="stable")
    order = order[clear[order]]
    points = passed.points[-1][order]
    rows = EncodedRows(rows.categories, encoded)
    return FoundRows(rows, counts).where(order[first_of_each(points)])


def first_of_each(points: Array) -> NDArray[np.int64]:
    """The numbers of the points (n, w) that are not close to one before them."""
    kept: list[int] = []
    for i, point in enumerate(points):
        if not kept or (np.linalg.norm(points[kept] - point, axis=1) > SAME * np.linalg.norm(point)).all():
            kept.append(i)
    return np.array(kept, np.int64)
