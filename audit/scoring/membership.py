"""Scores membership claims: true positive rate at a small false positive rate, and the area under the ROC curve.

Source: Carlini et al., "Membership inference attacks from first principles" (2022), section 3: an attack is as good as
what it finds at a false positive rate that an adversary could act on. Scores of all features of a party are ranked
together; candidates are the claims' own, so that a member is a candidate that the party holds. Ties are taken as a
whole threshold: a false positive rate between two of them is interpolated, which is what breaking ties by coin flips
gives.

The baseline is the same ranking by *public frequency*, as the adversary with everyone else's tables would rank values:
by the number of other parties that hold one, by the number of their rows that have it, or by a coin, which has an area
of 0.5 and a rate equal to the false positive rate; of these, metric by metric, the one that ranks best for the other
parties (`other_parties`). Of a party without both members and
non-members among the candidates nothing can be ranked: it is left out, unless messages prove who holds some of them.
Then any ranking is as good as another, and what is proven stands.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import MembershipClaim
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.scoring.other_parties import best_way, rows_with
from leakledger.audit.truth import Truth

Floats = NDArray[np.float64]

Rank = Callable[[Sequence[NDArray[np.int64]], int], Floats]
"""Scores (k,) of so many candidates, from the rows of each of some parties that have them."""

RATES = {"tpr_at_0.1%": 0.001, "tpr_at_1%": 0.01}


def score_membership(claims: Sequence[MembershipClaim], truth: Truth) -> Iterator[Measured]:
    """The metrics of each party that claims are about."""
    by_party: dict[str, list[MembershipClaim]] = defaultdict(list)
    for claim in claims:
        by_party[claim.party].append(claim)
    for party, of_party in by_party.items():
        members = np.array([v in truth.vocabularies[party][c.feature] for c in of_party for v in c.values], bool)
        vouching = [c for c in of_party if c.proven]
        ranked = members.any() and not members.all()
        if not ranked and not vouching:
            continue
        scores = np.array([s for c in of_party for s in c.scores])
        evidence = tuple(sorted({number for c in of_party for number in c.evidence}))
        wrong = sum(not c.proven <= truth.vocabularies[party][c.feature] for c in vouching)
        metrics = ranking_metrics(scores, members) if ranked else dict.fromkeys((*RATES, "auc"), 1.0)
        prior = _prior(of_party, truth, party) if ranked else metrics
        for metric, value in metrics.items():
            told = Measured("membership", metric, party, 0, value, prior[metric], evidence)
            yield replace(told, certain=len(vouching), certain_wrong=wrong)


def _prior(claims: Sequence[MembershipClaim], truth: Truth, victim: str) -> dict[str, float]:
    """The metrics of the best ranking of the claims' candidates by who else has them."""
    each = [rows_with(truth, c.feature, c.values) for c in claims]
    rows = {p: np.concatenate([r[p] for r in each]) for p in truth.parties}

    def reached(metric: str, way: Rank, party: str, known: Sequence[str]) -> float:
        members = rows[party] > 0
        if members.all() or not members.any():
            return 0.0  # the same for every way: nothing can be ranked
        return ranking_metrics(way([rows[p] for p in known], len(members)), members)[metric]

    others = [p for p in truth.parties if p != victim]
    best = {m: best_way(truth.parties, victim, WAYS, partial(reached, m)) for m in (*RATES, "auc")}
    return {m: reached(m, WAYS[name], victim, others) for m, name in best.items()}


def _by_holders(rows: Sequence[NDArray[np.int64]], candidates: int) -> Floats:
    return np.sum([r > 0 for r in rows], axis=0, dtype=np.float64) + np.zeros(candidates)


def _by_rows(rows: Sequence[NDArray[np.int64]], candidates: int) -> Floats:
    return np.sum(rows, axis=0, dtype=np.float64) + np.zeros(candidates)


def _coin(rows: Sequence[NDArray[np.int64]], candidates: int) -> Floats:
    return np.zeros(candidates)


WAYS: dict[str, Rank] = {"holders": _by_holders, "rows": _by_rows, "coin": _coin}


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
