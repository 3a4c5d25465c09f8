"""Under which names a party writes its features, from one gradient of the head.

All records of a party share a template, and so does all that its gradient shows: the mean of random records under the
right names lies nearer to the row space than under wrong ones. Single records would not do: with a feature left out
they vary less, and lie nearer whatever the party has. Names are found one feature at a time, "" for a feature that the
party lacks, until none changes. The first pass leaves none out: while other names are wrong, less text fits better.
"""

import numpy as np

from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace
from leakledger.attacks.texts import Cells, TextRecords

RECORDS, SWEEPS = 64, 3  # records that are tried under each name: too few, and their values decide; passes


def find_names(space: SeenSpace, records: TextRecords, coins: np.random.Generator) -> dict[str, str]:
    """A name for each feature, "" where the party is taken to lack it; at least one has a name."""
    picks = records.drawn(RECORDS, coins)
    names = {f: next(filter(None, own)) for f, own in records.names.items()}
    for sweep in range(SWEEPS):
        before = dict(names)
        for f in coins.permutation(list(records.features)).tolist():
            tried = [
                {**names, f: name}
                for name in records.names[f]
                if name or (sweep and sum(map(bool, names.values())) > 1)
            ]
            names = min(tried, key=lambda some: misfit(space, records, picks.tolist(), some))
        if sweep and names == before:
            break
    return names


def misfit(space: SeenSpace, records: TextRecords, picks: list[list[int]], names: dict[str, str]) -> float:
    """How far the mean of the records is from the row space under these names."""
    features = list(enumerate(records.features))
    cells: list[Cells] = [[(names[f], records.values[f][pick[i]]) for i, f in features if names[f]] for pick in picks]
    rows = np.asarray(records.encode(cells), np.float64)
    return float(np.linalg.norm(space.outside(np.append(rows.mean(0), 1.0)[None])))
