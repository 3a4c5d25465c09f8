"""Scores claimed statistics: for each kind, the share of a party's features for which it is known.

Means, deviations and extremes count as known within 1 % of the feature's standard deviation over the federation; counts
and sizes when exact. The denominator is all features that have the statistic, claimed or not. The baseline guesses the
federation's own value: the pooled statistic, the mean row count, the size of the joint dictionary.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from attacks.base import StatisticClaim
from audit.scoring.metrics import Measured
from audit.truth import Truth

KNOWN = 0.01  # of a standard deviation


def score_statistics(claims: Sequence[StatisticClaim], truth: Truth) -> Iterator[Measured]:
    grouped: dict[tuple[str, str], dict[str, StatisticClaim]] = defaultdict(dict)
    for claim in claims:
        grouped[claim.party, claim.statistic][claim.feature] = claim
    for (party, statistic), claimed in grouped.items():
        features = _features(truth, statistic)
        hits = [f in claimed and is_known(truth, party, f, statistic, claimed[f].estimate) for f in features]
        guesses = [is_known(truth, party, f, statistic, truth.pooled_statistic(f, statistic)) for f in features]
        evidence = tuple(sorted({number for c in claimed.values() for number in c.evidence}))
        asset = "sizes" if statistic in ("size", "count") else "statistics"
        yield Measured(asset, statistic, party, 0, float(np.mean(hits)), float(np.mean(guesses)), evidence)


def is_known(truth: Truth, party: str, feature: str, statistic: str, estimate: float) -> bool:
    """Whether the estimate is as good as knowing the statistic."""
    error = abs(estimate - truth.statistic(party, feature, statistic))
    return error < 0.5 if statistic in ("count", "size") else error <= KNOWN * truth.spread(feature)


def _features(truth: Truth, statistic: str) -> Sequence[str]:
    if statistic == "count":
        return ("",)
    return truth.federated.schema.categorical if statistic == "size" else truth.federated.schema.numeric
