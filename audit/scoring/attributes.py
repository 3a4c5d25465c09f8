"""How many attributes of a batch a claim about text records has right, beside what the prior alone gives.

Claimed rows are matched to the true ones so that most attributes agree (Hungarian). A category is right where it is
the same, a number within 0.319 standard deviations of the whole table, as everywhere (TabLeak, section 5). A row that
is not claimed, and a feature that the claim lacks, count as wrong; so does a feature that the party does not have.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import RecordsClaim
from leakledger.audit.cells import TOLERANCE
from leakledger.preprocess.data.table import Table

DRAWS = 20  # of the prior's batches
Records = Sequence[Mapping[str, str]]


def tolerances(table: Table) -> dict[str, float]:
    """How far a number of each numeric feature may be off."""
    return {f: TOLERANCE * float(table.frame[f].std()) for f in table.schema.numeric}


def claimed_records(claim: RecordsClaim) -> Records:
    """The rows of a claim whose layout names features and values."""
    assert claim.layout is not None
    blocks = claim.layout.categorical
    return [{b.feature: (b.values or ())[v] for b, v in zip(blocks, row, strict=True)} for row in claim.categories]


def hits(claimed: Records, true: Records, off: Mapping[str, float]) -> NDArray[np.float64]:
    """(claimed, true) the share of attributes that agree, of all that either has."""
    return np.array([[_agreement(c, t, off) for t in true] for c in claimed]).reshape(len(claimed), len(true))


def attributes_right(claimed: Records, true: Records, off: Mapping[str, float]) -> float:
    """The share of the true attributes, in [0, 1]."""
    agreement = hits(claimed, true, off)
    return float(agreement[linear_sum_assignment(-agreement)].sum()) / len(true)


def exact_rows(claimed: Records, true: Records) -> float:
    """The share of true rows that are claimed to the last digit."""
    left = [dict(c) for c in claimed]
    found = 0
    for row in true:
        if dict(row) in left:
            left.remove(dict(row))
            found += 1
    return found / len(true)


def prior_right(table: Table, reference: Records, true: Records, off: Mapping[str, float], seed: int) -> float:
    """The better of two adversaries that see no message and know how the rows of `reference` are distributed: one draws
    each value from its marginal, one says the commonest or the median value of everyone.
    """
    coins, features = np.random.default_rng(seed), list(true[0])
    columns = {f: [row[f] for row in reference] for f in features}
    drawn = [[{f: columns[f][coins.integers(len(reference))] for f in features} for _ in true] for _ in range(DRAWS)]
    typical = {f: _typical(columns[f], f in table.schema.numeric) for f in features}
    return max(
        float(np.mean([attributes_right(d, true, off) for d in drawn])),
        attributes_right([typical] * len(true), true, off),
    )


def _typical(values: Sequence[str], numeric: bool) -> str:
    if numeric:
        return sorted(values, key=float)[len(values) // 2]
    return max(sorted(set(values)), key=values.count)


def _agreement(claimed: Mapping[str, str], true: Mapping[str, str], off: Mapping[str, float]) -> float:
    same = sum(f in claimed and _same(claimed[f], v, off.get(f)) for f, v in true.items())
    return same / len({*claimed, *true})


def _same(one: str, other: str, off: float | None) -> bool:
    return one == other if off is None else abs(float(one) - float(other)) <= off
