"""Scores claims about whole columns of a party: correlation with the true one, and the share of records that is exact.

A value is exact to a millionth of itself or of the column's spread: of its deviation, or of how far values typically
are from the median, where one number far out makes the deviation. A claim of magnitudes is held against magnitudes. A
record without a claim counts as wrong, and in the correlation as the mean of those with one. The baseline is the best
guess of an adversary who knows the distribution of the column and none of the messages: any guess that is independent
of the records has correlation 0, and the commonest value is exact most often.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import spread
from leakledger.audit.records import CellDetail, FeatureShare, plural
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth

Floats = NDArray[np.float64]
EXACT = 1e-6  # of a value, or of the column's spread: what arithmetic on masks and logarithms leaves
VOUCHED = ("exact", "magnitude")


@dataclass(frozen=True)
class Agreement:
    """How a claim stands to the true column; `commonest` is the share of records that have its commonest value, and
    `claimed` that of records with a claim.
    """

    correlation: float
    exact: float
    commonest: float
    claimed: float

    @property
    def wrong(self) -> bool:
        """Whether most of what is claimed is not so: a record without a claim makes no other claim wrong."""
        return self.exact < 0.5 * self.claimed


def column_agreement(claim: ColumnClaim, column: Floats) -> Agreement:
    """The claim beside the true column (n,). Raises ValueError for claims about another number of records."""
    if len(claim.values) != len(column):
        lengths = f"{plural(len(claim.values), 'value')} claimed of {plural(len(column), 'record')}"
        raise ValueError(f"{claim.party}, {claim.feature}: {lengths}")
    magnitudes = claim.relation in ("magnitude", "magnitude-estimate")
    truth, told = (np.abs(x) if magnitudes else x for x in (column, claim.values))
    near = np.abs(told - truth) <= EXACT * np.maximum(np.abs(truth), spread(truth))
    _, counts = np.unique(truth, return_counts=True)
    claimed = float(np.isfinite(told).mean())
    return Agreement(_correlation(told, truth), float(near.mean()), float(counts.max() / len(truth)), claimed)


def _correlation(told: Floats, truth: Floats) -> float:
    """Pearson's, 0 where one of both is constant; what is not claimed is the mean of what is."""
    known = np.isfinite(told)
    if not known.any():
        return 0.0
    filled = np.where(known, told, told[known].mean())
    if not (np.ptp(filled) > 0 and np.ptp(truth) > 0):
        return 0.0
    return float(np.corrcoef(filled / np.abs(filled).max(), truth)[0, 1])


def score_columns(claims: Sequence[ColumnClaim], truth: Truth) -> Iterator[Measured]:
    """Both metrics of each party that claims are about, means over its columns: over all that it alone holds, of which
    one without a claim counts as unknown, or where parties hold rows, over the claimed ones. The detail has each
    column's correlation, 0 where it is negative.
    """
    for party in dict.fromkeys(c.party for c in claims):
        own = {c.feature: c for c in claims if c.party == party}
        found = {f: column_agreement(c, truth.column(party, f)) for f, c in own.items()}
        vouched = [found[f] for f, c in own.items() if c.relation in VOUCHED and found[f].claimed]
        found |= {f: unknown(x) for (p, f), x in truth.own_columns.items() if p == party and f not in found}
        evidence = tuple(sorted({n for c in own.values() for n in c.evidence}))
        correlation, exact, commonest = (
            float(np.mean([getattr(a, name) for a in found.values()])) for name in ("correlation", "exact", "commonest")
        )
        shares = (FeatureShare(f, "numeric", max(a.correlation, 0.0), 0.0) for f, a in found.items())
        yield Measured(
            "columns",
            "correlation",
            party,
            0,
            correlation,
            0.0,
            evidence,
            detail=CellDetail(tuple(shares)),
            certain=len(vouched),
            certain_wrong=sum(a.wrong for a in vouched),
        )
        yield Measured("columns", "exact_values", party, 0, exact, commonest, evidence)


def unknown(column: Floats) -> Agreement:
    """How a column (n,) of which nothing is claimed is known."""
    _, counts = np.unique(column, return_counts=True)
    return Agreement(0.0, 0.0, float(counts.max() / len(column)), 0.0)
