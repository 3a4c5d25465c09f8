"""How many values a party holds, from its tables of noised counts.

`holdings.noised` gives the chance that each declared value is held, under every share of them that parties may hold,
and how likely each share is. Under each a party's number of values is a sum of independent chances.
"""

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.transcript.holdings.noised import even_findings, given_shares, share_weights
from leakledger.attacks.transcript.ring_size.prior import Posteriors
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]


def of_noised_tables(view: View) -> tuple[Posteriors, dict[str, set[int]]]:
    """The law of each outside party's size of each feature, and the messages behind it."""
    found = list(even_findings(view))
    weights = share_weights(found)
    laws: Posteriors = {}
    evidence: dict[str, set[int]] = {}
    for f in found:
        laws[f.party, f.feature] = size_law(np.array(list(f.scores.values())), weights[f.feature])
        evidence[f.party] = evidence.get(f.party, set()) | f.evidence
    return laws, evidence


def size_law(even: Floats, weights: Floats) -> Floats:
    """(k + 1,) the law of how many of k values are held, by their even chances (k,) and the weight of each share."""
    law = np.zeros(len(even) + 1)
    for chances, weight in zip(given_shares(even), weights, strict=True):
        given = np.ones(1)
        for chance in chances:
            given = np.convolve(given, [1 - chance, chance])
        law += weight * given
    return law
