"""Which names a party uses for which features, from the row space of one gradient of its head.

Names are searched together with values: what is picked of a feature is one of its plausible values under one of its
plausible names, or that the party lacks it. A record of the batch lies in the row space under the party's own names and
under no others, so a few records that do settle the schema. Where none does, the nearest ones have a vote.
"""

from collections import Counter

import numpy as np

from leakledger.attacks.gradient.attribute_search.deltas import measure
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.gradient.attribute_search.search import search
from leakledger.attacks.texts import TextRecords


def find_names(
    space: SeenSpace,
    rows: int,
    records: TextRecords,
    starts: int,
    proposals: int,
    repeats: int,
    coins: np.random.Generator,
) -> tuple[dict[str, str], bool]:
    """A name for each feature, "" where the party is taken to lack it, and whether a record in the row space says so.
    At least one feature has a name.
    """
    open_, pairs = records.under_any_names()
    found = search(space, rows, open_, measure(open_), starts, proposals, repeats, coins)
    voters = found.picks[: found.inside or rows]
    votes = [Counter(pairs[f][v][0] for v in voters[:, k].tolist()) for k, f in enumerate(records.features)]
    names = {f: own.most_common(1)[0][0] for f, own in zip(records.features, votes, strict=True)}
    if not any(names.values()):
        first = next(f for f in records.features if any(records.names[f]))
        names[first] = next(filter(None, records.names[first]))
    return names, found.inside > 0
