"""Columns of values that nobody else holds: what a set intersection tells a party that it does not share.

Under `dh-psi`, `apsi` and `otmp-psi` a party learns which of its values each other one holds. All holders of a value
use one number, so the column of an own value that is in no intersection with another party is 0 in that one's rows, and
in its updates: the observers' share of a mean over both can be read there (`own_share`). Exact. With intersections in
one direction only ("upward") a party knows so of those before it in the ring.
"""

from itertools import chain

import numpy as np

from leakledger.attacks.observed.aggregates import MODELS
from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.observed.own_rows import together as pooled
from leakledger.attacks.observed.own_share import Absent
from leakledger.attacks.transcript.holdings.finding import together
from leakledger.attacks.transcript.holdings.intersections import INTERSECTED
from leakledger.attacks.transcript.holdings.labelled import from_labelled
from leakledger.attacks.transcript.holdings.numbers import own_numbers
from leakledger.attacks.transcript.holdings.pairwise import from_pairs
from leakledger.attacks.transcript.holdings.positions import from_positions
from leakledger.preprocess.views import View


def absent_columns(view: View) -> dict[str, Absent]:
    """Party outside -> the columns of the observers' values that none of its rows has; nobody of whom none is known."""
    layout = view.public.layout
    if layout is None or not view.has(*INTERSECTED) or not view.has(*MODELS):
        return {}
    blocks = {b.feature: b for b in layout.categorical if b.codes is None}
    values = {f: tuple(sorted(held)) for f, held in pooled(own_counts(view)).items() if f in blocks}
    sources = chain(from_pairs(view, values), from_labelled(view, values), from_positions(view, values))
    found: dict[str, Absent] = {}
    for (party, feature), one in together(sources).items():
        block = blocks[feature]
        absent = [block.start + n for n, value in own_numbers(view, block).items() if one.scores.get(value) == 0]
        columns, evidence = found.get(party, (np.zeros(layout.width, bool), frozenset()))
        columns[absent] = True
        found[party] = columns, evidence | one.evidence
    return found
