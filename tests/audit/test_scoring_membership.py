from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from leakledger.attacks.base import AuxiliaryKnowledge, MembershipClaim
from leakledger.attacks.transcript.membership import Membership
from leakledger.audit.scoring import score
from leakledger.audit.scoring.membership import RATES, ranking_metrics, score_membership
from tests.audit.example import truth

T = truth()
PARTY = T.parties[0]
ranked = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=4, max_size=60).filter(
    lambda pairs: 0 < sum(m for _, m in pairs) < len(pairs)
)


def candidates(feature):
    return tuple(sorted(frozenset().union(*(v[feature] for v in T.vocabularies.values()))))


def claims(score):
    """Claims about all candidates of one party, scored by a function of feature and value."""
    features = T.federated.schema.categorical
    values = {f: (*candidates(f), "nobody holds this") for f in features}
    return [MembershipClaim(PARTY, f, values[f], tuple(score(f, v) for v in values[f]), (1,)) for f in features]


def measured(score):
    return {m.metric: m for m in score_membership(claims(score), T)}


@given(ranked)
def test_area_and_rates_are_those_of_a_trusted_library(pairs):
    scores, members = np.array([s for s, _ in pairs], float), np.array([m for _, m in pairs])
    found = ranking_metrics(scores, members)
    assert found["auc"] == pytest.approx(roc_auc_score(members, scores))
    false, true, _ = roc_curve(members, scores, drop_intermediate=False)
    for name, rate in RATES.items():
        below = true[false <= rate].max()
        above = true[false > rate].min()
        assert below - 1e-12 <= found[name] <= above + 1e-12


def test_a_rate_that_a_threshold_has_exactly_counts_all_that_is_found_at_it():
    scores = np.array([3.0, 2.0, *np.ones(99)])  # one of a hundred others stands above the only member
    members = np.arange(101) == 1
    assert ranking_metrics(scores, members)["tpr_at_1%"] == 1.0
    assert ranking_metrics(scores, members)["tpr_at_0.1%"] == 0.0


def test_the_truth_ranks_perfectly():
    found = measured(lambda f, v: float(v in T.vocabularies[PARTY][f]))
    assert {m.value for m in found.values()} == {1.0}
    assert set(found) == {*RATES, "auc"}


def of_held(proven=()):
    """Candidates that the party holds, all of them."""
    feature = T.federated.schema.categorical[0]
    held = tuple(sorted(T.vocabularies[PARTY][feature]))
    return MembershipClaim(PARTY, feature, held, (1.0,) * len(held), (1,), frozenset(proven))


def test_what_is_proven_stands_where_every_candidate_is_held_and_no_order_is_better():
    """An intersection of tables with the same values proved all of them, and left no score at all."""
    assert not list(score_membership([of_held()], T))
    found = {m.metric: m for m in score_membership([of_held(of_held().values[:1])], T)}
    assert {(m.value, m.baseline, m.certain, m.certain_wrong) for m in found.values()} == {(1.0, 1.0, 1, 0)}
    assert set(found) == {*RATES, "auc"}
    strange = replace(of_held(), values=("nobody holds this",), scores=(1.0,), proven=frozenset(["nobody holds this"]))
    assert {m.certain_wrong for m in score_membership([strange], T)} == {1}


def test_claims_that_rank_nothing_are_an_abstention_and_no_silence():
    """Else an audit said that no attack was played on who holds a value."""
    attack, knowledge = Membership(), AuxiliaryKnowledge()

    def statuses(claims):
        trials = score(attack, ("server",), claims, knowledge, T, (), np.random.default_rng(0), 2)
        return {(t.asset, t.status, t.metric) for t in trials}

    assert statuses([of_held()]) == {("membership", "abstained", "")}
    assert statuses([MembershipClaim(PARTY, of_held().feature, (), ())]) == {("membership", "abstained", "")}
    ranking = replace(
        of_held(), values=(*of_held().values, "nobody holds this"), scores=(1.0,) * len(of_held().values) + (0.0,)
    )
    assert {s for _, s, _ in statuses([of_held(), ranking])} == {"scored"}


def test_scores_without_information_have_the_coin_s_values_and_the_baseline_is_no_worse():
    found = measured(lambda f, v: 0.5)
    assert found["auc"].value == 0.5
    assert found["tpr_at_1%"].value == pytest.approx(0.01)
    assert all(m.baseline >= RATES.get(name, 0.5) for name, m in found.items())


def test_reversed_scores_are_worse_than_a_coin():
    assert measured(lambda f, v: -float(v in T.vocabularies[PARTY][f]))["auc"].value == 0


def test_the_baseline_is_a_ranking_by_who_else_has_a_value_or_a_coin():
    others = [p for p in T.parties if p != PARTY]
    held = measured(lambda f, v: sum(v in T.vocabularies[p][f] for p in others))
    rows = measured(lambda f, v: sum((T.federated.tables[p].values(f) == v).sum() for p in others))
    coin = measured(lambda f, v: 0.0)
    for name, m in held.items():
        assert m.baseline in {held[name].value, rows[name].value, coin[name].value}


def test_where_every_candidate_is_held_nothing_can_be_ranked():
    feature = T.federated.schema.categorical[0]
    held = tuple(T.vocabularies[PARTY][feature])
    assert list(score_membership([MembershipClaim(PARTY, feature, held, (0.1,) * len(held))], T)) == []


def test_values_that_messages_prove_are_counted_and_a_wrong_one_is_told():
    told = claims(lambda f, v: float(v in T.vocabularies[PARTY][f]))
    right = [replace(c, proven=frozenset(T.vocabularies[PARTY][c.feature])) for c in told]
    wrong = [right[0], *(replace(c, proven=frozenset(["nobody holds this"])) for c in told[1:])]
    for vouching, certain, not_so in ((told, 0, 0), (right, len(told), 0), (wrong, len(told), len(told) - 1)):
        measures = list(score_membership(vouching, T))
        assert {(m.certain, m.certain_wrong) for m in measures} == {(certain, not_so)}
