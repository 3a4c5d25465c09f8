from collections import Counter

import pytest

from leakledger.attacks.base import VocabularyClaim
from leakledger.audit.scoring.vocabulary import score_vocabularies
from tests.audit.example import truth

T = truth()
PARTY = T.parties[0]
FEATURES = T.federated.schema.categorical


def true_counts(party, feature):
    return Counter(T.federated.tables[party].values(feature))


def claim(feature, counts):
    return VocabularyClaim(PARTY, feature, tuple(counts), (2,), tuple(map(float, counts.values())))


def measured(*claims):
    return {m.metric: m for m in score_vocabularies(claims, T)}


def test_true_counts_rank_perfectly_and_reversed_ones_worse_than_nothing():
    right = measured(*(claim(f, true_counts(PARTY, f)) for f in FEATURES))
    assert right["count_rank"].value == pytest.approx(1)
    wrong = measured(*(claim(f, {v: -n for v, n in true_counts(PARTY, f).items()}) for f in FEATURES))
    assert wrong["count_rank"].value < 0


def test_ranks_are_kept_of_each_feature_since_one_of_many_does_not_show_in_their_mean():
    counts = {f: true_counts(PARTY, f) for f in FEATURES}
    told = FEATURES[0]
    found = measured(*(claim(f, n if f == told else {v: -k for v, k in n.items()}) for f, n in counts.items()))
    shares = {f.feature: f.value for f in found["count_rank"].detail.features}
    assert shares[told] == pytest.approx(1)
    assert max(value for f, value in shares.items() if f != told) < 0


def test_the_baseline_of_ranks_are_the_other_parties_counts():
    pooled = {f: sum((true_counts(p, f) for p in T.parties if p != PARTY), Counter()) for f in FEATURES}
    found = measured(*(claim(f, pooled[f]) for f in FEATURES))
    assert found["count_rank"].value == pytest.approx(found["count_rank"].baseline)


def test_claims_without_counts_have_no_rank():
    assert set(measured(VocabularyClaim(PARTY, FEATURES[0], ("x",)))) == {"f1", "precision", "recall"}


def test_counts_that_are_all_equal_rank_nothing():
    held = true_counts(PARTY, FEATURES[0])
    joint = {v: 1 for p in T.parties for v in true_counts(p, FEATURES[0])}
    assert len(held) > 1
    assert measured(claim(FEATURES[0], joint))["count_rank"].value == 0
