"""Scores claimed vocabularies: precision, recall and Dice overlap per party, mean over its categorical features.

The baseline is an adversary with the strongest auxiliary dictionary, every value that any party of the federation
holds, and with the tables of all parties but the victim (`guessed_values`): it claims all values, those that some, half
or all of the others hold, or those that so many rows are likely to have; whichever does best, metric by metric, for the
other parties. A feature without a claim counts as an empty claim.

Where claims say how often values occur, `count_rank` is Spearman's rank correlation between claimed and true counts
over the values of the joint dictionary (a value that is not claimed counts 0), mean over those features; its baseline
ranks by the counts of all other parties together. A feature of one value, or of equal counts, has no ranks and is left
out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from leakledger.attacks.base import VocabularyClaim
from leakledger.audit.records import HEADLINE, CellDetail, FeatureShare
from leakledger.audit.scoring.guessed_values import overlap_of_prior
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth


def score_vocabularies(claims: Sequence[VocabularyClaim], truth: Truth) -> Iterator[Measured]:
    by_party: dict[str, dict[str, VocabularyClaim]] = defaultdict(dict)
    for claim in claims:
        by_party[claim.party][claim.feature] = claim
    for party, claimed in by_party.items():
        held = truth.vocabularies[party]
        values = {f: overlap(set(claimed[f].values) if f in claimed else set(), held[f]) for f in held}
        prior_alone = overlap_of_prior(truth, party)
        evidence = tuple(sorted({number for c in claimed.values() for number in c.evidence}))
        certain = [c for f, c in claimed.items() if c.vouched and f in held]
        vouched = len(certain), sum(not c.vouched <= held[c.feature] for c in certain)
        for metric, guessed in prior_alone.items():
            found = [each[metric] for each in values.values()]
            detail = None
            if metric == HEADLINE["vocabulary"]:
                each_feature = zip(values, found, guessed, strict=True)
                detail = CellDetail(tuple(FeatureShare(f, "categorical", *shares) for f, *shares in each_feature))
            reached = float(np.mean(found)), float(np.mean(guessed))
            yield Measured("vocabulary", metric, party, 0, *reached, evidence, detail, *vouched)
        if ranks := list(_count_ranks(party, claimed, truth)):
            value, prior = float(np.mean([r.value for r in ranks])), float(np.mean([r.baseline for r in ranks]))
            detail = CellDetail(tuple(ranks))
            yield Measured("vocabulary", "count_rank", party, 0, value, prior, evidence, detail)


def _count_ranks(party: str, claimed: Mapping[str, VocabularyClaim], truth: Truth) -> Iterator[FeatureShare]:
    """For each feature with counts: the rank correlation of the claim, and of the other parties' rows."""
    for feature, claim in claimed.items():
        if not claim.counts:
            continue
        tables = truth.federated.tables
        own = Counter(tables[party].values(feature))
        others = Counter(v for p in truth.parties if p != party for v in tables[p].values(feature))
        said = dict(zip(claim.values, claim.counts, strict=True))
        values = sorted({*own, *others})
        actual = [own[v] for v in values]
        if len(set(actual)) > 1:
            mine, prior = [said.get(v, 0.0) for v in values], [others[v] for v in values]
            yield FeatureShare(feature, "categorical", _rank(actual, mine), _rank(actual, prior))


def _rank(actual: Sequence[float], guessed: Sequence[float]) -> float:
    """Spearman's correlation; 0 where the guesses are all equal."""
    from scipy.stats import spearmanr  # imported late: takes half a second that parties and commands need not wait

    return float(spearmanr(actual, guessed).statistic) if len(set(guessed)) > 1 else 0.0


def overlap(claimed: Set[str], held: Set[str]) -> dict[str, float]:
    """Precision, recall and their harmonic mean of one set; an empty claim has precision 0 unless nothing is held."""
    hits = len(claimed & held)
    precision = hits / len(claimed) if claimed else float(not held)
    recall = hits / len(held) if held else float(not claimed)
    f1 = 2 * hits / (len(claimed) + len(held)) if claimed or held else 1.0
    return {"f1": f1, "precision": precision, "recall": recall}
