"""Scores claimed sizes: exact hits, error, and whether intervals hold what they promise.

`size` (in `statistics`) is the share of features whose size is known exactly, against guessing the size of the joint
dictionary or the mean size of the others. Beside it stand, for a party's claims about sizes:

* `size_error`: the mean over features of |estimate - size| / size of the joint dictionary; the baseline guesses the
  mean size of the other parties, the best an adversary does who knows everyone's but the victim's;
* `size_coverage`: the share of claims that are not exact whose interval holds the size. Its nominal value, 0.9, is no
  perfect one: it is a calibration, so the baseline is the nominal value itself and no advantage follows;
* `false_exact`: the share of claims that call themselves exact (low = high) and are wrong.

A claim about the feature "" is the size of all features together.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth

NOMINAL = 0.9


def score_sizes(claims: Sequence[StatisticClaim], truth: Truth) -> Iterator[Measured]:
    """The metrics of each party that claims about sizes are about."""
    by_party: dict[str, list[StatisticClaim]] = defaultdict(list)
    for claim in claims:
        if claim.statistic == "size":
            by_party[claim.party].append(claim)
    for party, of_party in by_party.items():
        evidence = tuple(sorted({number for c in of_party for number in c.evidence}))
        for metric, value, baseline in _metrics(party, of_party, truth):
            yield Measured("sizes", metric, party, 0, value, baseline, evidence)


def _metrics(party: str, claims: Sequence[StatisticClaim], truth: Truth) -> Iterator[tuple[str, float, float]]:
    actual = {c.feature: true_size(truth, party, c.feature) for c in claims}
    exact = [c for c in claims if c.low == c.high]
    ranged = [c for c in claims if c.low < c.high]
    named = [c for c in claims if c.feature]
    if named:
        scale = np.array([max(truth.pooled_statistic(c.feature, "size"), 1.0) for c in named])
        error = np.array([abs(c.estimate - actual[c.feature]) for c in named]) / scale
        guess = np.array([abs(_mean_of_others(truth, party, c.feature) - actual[c.feature]) for c in named]) / scale
        yield "size_error", float(error.mean()), float(guess.mean())
    if ranged:
        yield "size_coverage", float(np.mean([c.low <= actual[c.feature] <= c.high for c in ranged])), NOMINAL
    if exact:
        yield "false_exact", float(np.mean([c.estimate != actual[c.feature] for c in exact])), 0.0


def true_size(truth: Truth, party: str, feature: str) -> int:
    """The number of distinct values that a party holds of a feature, or of all where it is ""."""
    return int(truth.statistic(party, feature, "size"))


def _mean_of_others(truth: Truth, party: str, feature: str) -> float:
    return float(np.mean([true_size(truth, other, feature) for other in truth.parties if other != party]))
