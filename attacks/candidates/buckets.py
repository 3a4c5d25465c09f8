"""Updates whose features share the columns of `rolling-hash`, restated in the columns that a batch uses (`hashed`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.candidates.columns import Reading, RestatedColumns, RestatedUpdate, as_precise
from leakledger.attacks.candidates.hashed import Buckets, Hashed, active_columns, assignments, blocks_of, pattern_block
from leakledger.attacks.candidates.meaning import Assignments, Ints, Meaning
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.attacks.observed.values import shares
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, View


def in_buckets(
    view: View, knowledge: AuxiliaryKnowledge, update: ObservedUpdate, code: Hashed
) -> RestatedUpdate | NotApplicable:
    """The update in the columns that its batch uses; a reason where noise hides these and candidates are missing."""
    layout = update.layout
    update = plain(update, code)
    shared = slice(code.start, code.start + code.width)
    active = active_columns(
        update.gradient["0.weight"][:, shared], code.shift is None, update.rows, len(layout.categorical)
    )
    if active is None:  # noise: every column of a candidate may be in use
        active = np.array(sorted(set().union(*code.buckets.values())), np.int64)
        if not all(code.values.values()):
            return NotApplicable(
                f"noise hides which of {code.width} shared columns the rows of {update.whose} use in round "
                f"{update.round}, and not every feature has candidates: grant dictionaries"
            )
    columns, held = RestatedColumns(), []
    for number in layout.numeric:
        columns.keep(number)
    for places, codes in blocks_of(code, active):
        identity = codes.shape[0] == codes.shape[1] and np.array_equal(codes, np.eye(len(codes)))
        own = active[places]
        block = CategoricalBlock(f"columns {own[0]}", 0, len(codes), None, None if identity else codes)
        columns.add(block, code.start + own)
        held.append([frozenset(own[c > 0].tolist()) for c in codes])
    meant = _values_of(view, knowledge, layout, code, held) if code.named else _patterns_of(layout, code, held)
    return RestatedUpdate(columns.of(update), meant)


def _values_of(
    view: View, knowledge: AuxiliaryKnowledge, layout: FeatureLayout, code: Hashed, held: list[list[Buckets]]
) -> Reading:
    """With candidates, a row's buckets are read as values. `held`: the buckets behind each candidate of each block."""
    spoken = [CategoricalBlock(f, 0, len(v), v) for f, v in code.values.items()]

    def decode(claim: RecordsClaim) -> Iterator[Sequence[Assignments]]:
        return (assignments(code, present(held, row)) for row in claim.categories)

    reach = [frozenset().union(*own) for own in held]
    behind = [[k for k, own in enumerate(reach) if own & set(b)] for b in code.buckets.values()]
    numbers = range(len(layout.numeric))
    return Meaning(FeatureLayout((*layout.numeric, *spoken)), decode, behind, numbers, shares(view, knowledge)).of


def _patterns_of(layout: FeatureLayout, code: Hashed, held: list[list[Buckets]]) -> Reading:
    """Without candidates, a row's buckets together are one id."""

    def meant(claim: RecordsClaim) -> RecordsClaim:
        rows = [present(held, row) for row in claim.categories]
        distinct = list(dict.fromkeys(rows))
        spoken = FeatureLayout((*layout.numeric, pattern_block(code, distinct)))
        number = np.array([distinct.index(r) for r in rows], np.int64)[:, None]
        uncertainty = claim.category_entropy.max(1, initial=0.0)[:, None]
        # no probability: that was of each bucket
        return replace(claim, categories=number, category_entropy=uncertainty, probability=None, layout=spoken)

    return meant


def present(held: Sequence[Sequence[Buckets]], row: Ints) -> Buckets:
    """The buckets of a row, given its candidate in each block."""
    return frozenset().union(*(own[int(c)] for own, c in zip(held, row, strict=True)))


def plain(update: ObservedUpdate, code: Hashed) -> ObservedUpdate:
    """The update of the same rows, and others of these, with the public scaling of the shared columns undone:
    x = (raw - shift) / scale.
    """
    if code.shift is None or code.scale is None:
        return update
    weights, gradient = dict(update.weights), dict(update.gradient)
    own = slice(code.start, code.start + code.width)
    weight, slope = weights["0.weight"].copy(), gradient["0.weight"].copy()
    weights["0.bias"] = weights["0.bias"] - weight[:, own] @ (code.shift / code.scale)
    weight[:, own] /= code.scale
    slope[:, own] = slope[:, own] * code.scale + np.outer(gradient["0.bias"], code.shift)
    slope = as_precise(slope, update)
    again = tuple(plain(r, code) for r in update.repeats)
    changed = replace(update, weights={**weights, "0.weight": weight}, gradient={**gradient, "0.weight": slope})
    return replace(changed, repeats=again)
