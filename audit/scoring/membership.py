"""Scores membership claims: true positive rate at a small false positive rate, and the area under the ROC curve.

Source: Carlini et al., "Membership inference attacks from first principles" (2022), section 3: an attack is as good as
what it finds at a false positive rate that an adversary could act on. Scores of all features of a party are ranked
together; candidates are the claims' own, so that a member is a candidate that the party holds. Ties are taken as a
whole threshold: a false positive rate between two of them is interpolated, which is what breaking ties by coin flips
gives.

The baseline is the same ranking by *public frequency*: the number of parties that hold a value, the victim left out, as
the adversary with everyone else's dictionaries would rank it. A coin has an area of 0.5 and a rate equal to the false
positive rate; where frequency ranks below a coin, the coin is the baseline. A party without both members and
non-members among the candidates is left out: nothing can be ranked.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import MembershipClaim
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth

Floats = NDArray[np.float64]

RATES = {"tpr_at_0.1%": 0.001, "tpr_at_1%": 0.01}


def score_membership(claims: Sequence[MembershipClaim], truth: Truth) -> Iterator[Measured]:
    """The metrics of each party that claims are about."""
    by_party: dict[str, list[MembershipClaim]] = defaultdict(list)
    for claim in claims:
        by_party[claim.party].append(claim)
    for party, of_party in by_party.items():
        members = np.array([v in truth.vocabularies[party][c.feature] for c in of_party for v in c.values], bool)
        if members.all() or not members.any():
            continue
        scores = np.array([s for c in of_party for s in c.scores])
        public = np.array([_holders(truth, party, c.feature, v) for c in of_party for v in c.values], np.float64)
        evidence = tuple(sorted({number for c in of_party for number in c.evidence}))
        reached, prior = ranking_metrics(scores, members), ranking_metrics(public, members)
        for metric, value in reached.items():
            coin = RATES.get(metric, 0.5)
            yield Measured("membership", metric, party, 0, value, max(prior[metric], coin), evidence)


def _holders(truth: Truth, party: str, feature: str, value: str) -> int:
    return sum(value in held[feature] for other, held in truth.vocabularies.items() if other != party)


def ranking_metrics(scores: Floats, members: NDArray[np.bool_]) -> dict[str, float]:
    """True positive rates at the false positive rates of `RATES`, and the area under the curve. Needs both kinds."""
    false, true = roc(scores, members)
    rates = {name: _true_rate(rate, false, true) for name, rate in RATES.items()}
    return {**rates, "auc": float(np.trapezoid(true, false))}


def roc(scores: Floats, members: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """(thresholds + 1,) false and true positive rates as the threshold falls, from (0, 0) to (1, 1)."""
    levels = np.unique(scores)[::-1]
    above = scores >= levels[:, None]
    false = (above & ~members).sum(1) / (~members).sum()
    true = (above & members).sum(1) / members.sum()
    return np.append(0.0, false), np.append(0.0, true)


def _true_rate(rate: float, false: Floats, true: Floats) -> float:
    """The true positive rate at a false positive rate below 1, along the line from one threshold to the next."""
    i = int(np.searchsorted(false, rate, side="right")) - 1
    share = (rate - false[i]) / (false[i + 1] - false[i])
    return float(true[i] + share * (true[i + 1] - true[i]))
