"""Whose a row of a sum is: what the labels that clients are known to have tell of it.

The gradient of a sum is that of its rows together, and nothing in it says which client sent which. But each row has a
label, and of granted labels it is known how many each client has: a row with a label that one client alone has is that
client's, any other is most probably of the client with most of that label. The label of a row follows from the
gradient of the last layer: with A (B, h + 1) the inputs [a | 1] of the rows there, G^T = A^T E for the output errors E
(B, C), of which the entry of a row's own label is the only negative one.

Rounds tell more. A row that is proven behind sums over different clients is of one who is in all of them: where some
took part and others did not, or one was alone, that may be a single client. (Two clients may have equal rows; then
nobody is in all sums, or the wrong one is named.)
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim, clients_of
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import Inverted, Member, ObservedUpdate
from leakledger.preprocess.models import as_tensors, layers

NOBODY = ""  # no client is more probable than all others
# Of a standard deviation of the proven rows: numbers nearer than this are of equal rows. Smaller: rounding tells them
# apart; larger: different rows pass for one.
SAME = 1e-2
ROUNDED = 1e-6  # of the largest number of a column: what float32 leaves of one that is the same in all rows


def with_owners(update: ObservedUpdate, knowledge: AuxiliaryKnowledge, outcome: Inverted) -> Inverted:
    """A claim about the rows of several clients with the most probable owner of each; any other outcome as it is."""
    if not isinstance(outcome, RecordsClaim) or not update.members:
        return outcome
    owners = np.full(len(outcome.numbers), NOBODY, object)
    if len(update.labels):
        encoded = StructuralPrior(update.layout, knowledge.bounds).encode(Rows(outcome.categories, outcome.numbers))
        of_label = likeliest(update.members, update.model.outputs)
        owners[:] = [of_label[label] for label in row_labels(update, encoded)]
    return replace(outcome, owners=owners.astype(str))


def across_rounds(outcomes: Sequence[Inverted]) -> list[Inverted]:
    """The outcomes, with the owners that follow from all of them together for the proven rows of sums."""
    terms = defaultdict[object, list[RecordsClaim]](list)
    for o in outcomes:
        if isinstance(o, RecordsClaim) and o.verified is not None and o.verified.any():
            terms[None if o.layout is None else tuple(b.feature for b in o.layout.blocks)].append(o)
    together = [alike for alike in terms.values() if any(c.owners is not None for c in alike)]
    named = {id(c): owners for alike in together for c, owners in zip(alike, _shared(alike), strict=True)}
    return [
        replace(o, owners=named.get(id(o), o.owners)) if isinstance(o, RecordsClaim) and o.owners is not None else o
        for o in outcomes
    ]


def _shared(claims: Sequence[RecordsClaim]) -> list[NDArray[np.str_]]:
    """(B,) for each claim, all in the same terms: the owners that it names, or where a proven row is behind claims that
    have one client in common, that one.
    """
    proven = [np.flatnonzero(c.verified) for c in claims if c.verified is not None]
    who = [frozenset(clients_of(c.victim)) for c, rows in zip(claims, proven, strict=True) for _ in rows]
    categories, numbers = (
        np.concatenate([getattr(c, part)[rows] for c, rows in zip(claims, proven, strict=True)])
        for part in ("categories", "numbers")
    )
    near = np.abs(numbers[:, None] - numbers[None]) <= SAME * numbers.std(0) + ROUNDED * np.abs(numbers).max(0)
    same = near.all(2) & (categories[:, None] == categories[None]).all(2)
    common = [frozenset.intersection(*(who[j] for j in np.flatnonzero(row))) for row in same]
    named, first = list[NDArray[np.str_]](), 0
    for c, rows in zip(claims, proven, strict=True):
        owners = np.full(len(c.numbers), NOBODY, object) if c.owners is None else c.owners.astype(object)
        for i, clients in zip(rows, common[first : first + len(rows)], strict=True):
            owners[i] = next(iter(clients)) if len(clients) == 1 else owners[i]
        named.append(owners.astype(str))
        first += len(rows)
    return named


def likeliest(members: Sequence[Member], classes: int) -> list[str]:
    """For each label, the client with most rows of it; nobody where two have as many."""
    counts = np.array([np.bincount(m.labels, minlength=classes) for m in members])  # (clients, classes)
    first = counts.argmax(0)
    alone = (counts == counts.max(0)).sum(0) == 1
    return [members[k].client if one else NOBODY for k, one in zip(first, alone, strict=True)]


def row_labels(update: ObservedUpdate, encoded: Array) -> NDArray[np.int64]:
    """(n,) the labels that claimed rows, encoded (n, d), have: those of the update, dealt out as its last layer's
    gradient suits best; to more rows than it has, no label twice as often.
    """
    last = len(update.model.hidden)
    with torch.no_grad():
        passed = layers(update.model, as_tensors(update.weights, dtype=torch.float64), torch.from_numpy(encoded))
    inputs = with_ones(passed[last][0].numpy())  # (n, h + 1)
    errors = np.linalg.lstsq(inputs.T, affine(update.gradient, last).T, rcond=None)[0]  # (n, classes)
    one_pass = update.labels[: update.rows]
    found: NDArray[np.int64] = errors.argmin(1)
    rows, slots = linear_sum_assignment(errors[:, one_pass])
    found[rows] = one_pass[slots]
    return found
