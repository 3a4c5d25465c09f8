"""Scores claimed vocabularies: precision, recall and Dice overlap per party, mean over its categorical features.

The baseline is an adversary with the strongest auxiliary dictionary: every value that any party of the federation
holds. It claims all of them for every party, so its recall is perfect and only its precision is not. A feature without
a claim counts as an empty claim.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set

import numpy as np

from attacks.base import VocabularyClaim
from audit.scoring.metrics import Measured
from audit.truth import Truth


def score_vocabularies(claims: Sequence[VocabularyClaim], truth: Truth) -> Iterator[Measured]:
    by_party: dict[str, dict[str, VocabularyClaim]] = defaultdict(dict)
    for claim in claims:
        by_party[claim.party][claim.feature] = claim
    for party, claimed in by_party.items():
        held = truth.vocabularies[party]
        union = {f: frozenset().union(*(v[f] for v in truth.vocabularies.values())) for f in held}
        values = _mean_overlap([(set(claimed[f].values) if f in claimed else set(), held[f]) for f in held])
        baseline = _mean_overlap([(union[f], held[f]) for f in held])
        evidence = tuple(sorted({number for c in claimed.values() for number in c.evidence}))
        for metric, value in values.items():
            yield Measured("vocabulary", metric, party, 0, value, baseline[metric], evidence)


def _mean_overlap(pairs: Sequence[tuple[Set[str], Set[str]]]) -> dict[str, float]:
    each = [overlap(claimed, held) for claimed, held in pairs]
    return {metric: float(np.mean([e[metric] for e in each])) for metric in ("f1", "precision", "recall")}


def overlap(claimed: Set[str], held: Set[str]) -> dict[str, float]:
    """Precision, recall and their harmonic mean of one set; an empty claim has precision 0 unless nothing is held."""
    hits = len(claimed & held)
    precision = hits / len(claimed) if claimed else float(not held)
    recall = hits / len(held) if held else float(not claimed)
    f1 = 2 * hits / (len(claimed) + len(held)) if claimed or held else 1.0
    return {"f1": f1, "precision": precision, "recall": recall}
