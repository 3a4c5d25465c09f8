from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    NotApplicable,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
)
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit.scoring import guessed_statistics, score, statistics
from leakledger.audit.scoring.records import from_marginals
from leakledger.audit.scoring.statistics import interval_quality, is_known, score_statistics
from leakledger.audit.scoring.vocabulary import overlap, score_vocabularies
from leakledger.audit.truth import Truth
from tests.audit.example import truth

T = truth()
PARTY = T.parties[0]
ATTEMPTED = [(p, 0) for p in T.parties]
words = st.frozensets(st.sampled_from("abcdef"))


def exact(feature, statistic, value):
    return StatisticClaim(PARTY, feature, statistic, value, value, value, (3,))


def hits(claims, of):
    """The shares of hits, without the graded metrics."""
    return [m for m in score_statistics(claims, of) if not m.metric.endswith("_information")]


def records_claim(victim, batch):
    zeros = np.zeros_like(batch.categories, float), np.zeros_like(batch.numbers)
    return RecordsClaim(victim, 0, batch.categories, batch.numbers, *zeros)


def judged(outcome, attack=None, coins=None):
    return score(
        attack or TabLeak(),
        ("server",),
        outcome,
        AuxiliaryKnowledge(),
        T,
        ATTEMPTED,
        coins or np.random.default_rng(0),
        draws=5,
    )


@given(words, words)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(claimed, held):
    values = overlap(claimed, held)
    both = values["precision"] + values["recall"]
    assert values["f1"] == pytest.approx(2 * values["precision"] * values["recall"] / both if both else 0)


def test_the_exact_vocabulary_scores_one_and_a_missing_feature_counts_as_nothing():
    held = T.vocabularies[PARTY]
    everything = [VocabularyClaim(PARTY, f, tuple(v)) for f, v in held.items()]
    assert {m.metric: m.value for m in score_vocabularies(everything, T)} == {"f1": 1, "precision": 1, "recall": 1}
    one = {m.metric: m.value for m in score_vocabularies(everything[:1], T)}
    assert one["recall"] == pytest.approx(1 / len(held))


def test_values_that_are_proven_are_a_fact_whatever_is_claimed_beside_them():
    feature, held = next(iter(T.vocabularies[PARTY].items()))
    one, other = sorted(held)[0], "held by nobody"
    for proven, expected in ((frozenset(), (0, 0)), ({one}, (1, 0)), ({one, other}, (1, 1))):
        claim = VocabularyClaim(PARTY, feature, (one, other), proven=frozenset(proven))
        assert {(m.certain, m.certain_wrong) for m in score_vocabularies([claim], T)} == {expected}


def test_the_vocabulary_baseline_reaches_everything_and_is_not_sure_of_it():
    claims = [VocabularyClaim(PARTY, f, ()) for f in T.vocabularies[PARTY]]
    measured = {m.metric: m for m in score_vocabularies(claims, T)}
    assert measured["recall"].baseline == 1
    assert 0 < measured["f1"].baseline < 1


def test_a_statistic_is_known_within_a_hundredth_of_a_deviation_and_not_beyond():
    feature = T.federated.schema.numeric[0]
    value, unit = T.statistic(PARTY, feature, "mean"), T.spread(feature)
    features = len(T.federated.schema.numeric)
    (near,) = hits([exact(feature, "mean", value + 0.0099 * unit)], T)
    (far,) = hits([exact(feature, "mean", value + 0.0101 * unit)], T)
    assert (near.value, far.value) == (pytest.approx(1 / features), 0)
    assert near.evidence == (3,)


def test_what_is_known_of_each_column_stands_beside_the_mean_of_all():
    known, *others = T.federated.schema.numeric
    (measured,) = hits([exact(known, "mean", T.statistic(PARTY, known, "mean"))], T)
    shares = {f.feature: f for f in measured.detail.features}
    assert {f: s.value for f, s in shares.items()} == {known: 1, **dict.fromkeys(others, 0)}
    assert np.mean([s.baseline for s in shares.values()]) == pytest.approx(measured.baseline)
    assert {s.kind for s in shares.values()} == {"numeric"}


@pytest.mark.parametrize("party", T.parties)
def test_what_the_prior_knows_of_each_column_is_of_that_column_though_parties_hold_other_values(monkeypatch, party):
    """The second party's values come in another order among all parties' than among its own."""
    monkeypatch.setattr(guessed_statistics, "WAYS", {"pooled": guessed_statistics.WAYS["pooled"]})
    keys = [(f, v) for f, held in T.vocabularies[party].items() for v in held]
    claim = StatisticClaim(party, keys[0][0], "target_rate", 0.0, 0.0, 1.0, (3,), value=keys[0][1])
    (measured,) = hits([claim], T)
    for share in measured.detail.features:
        own = [k for k in keys if k[0] == share.feature]
        pooled = [T.pooled_statistic(f, "target_rate", v) for f, v in own]
        known = [is_known(T, party, *k, "target_rate", rate) for k, rate in zip(own, pooled, strict=True)]
        assert share.baseline == pytest.approx(np.mean(known)), share.feature


class Partly(Truth):
    """The first party lacks a feature, and no dictionary is public, as where schemas are aligned."""

    vocabularies = property(lambda self: {PARTY: dict([*T.vocabularies[PARTY].items()][1:]), **OTHERS})
    dictionaries = property(lambda self: {})


OTHERS = {p: T.vocabularies[p] for p in T.parties[1:]}


def test_values_held_are_scored_over_the_features_that_a_party_has():
    """That parties see other features ended in a ValueError of a zip."""
    everything = [VocabularyClaim(PARTY, f, tuple(v)) for f, v in T.vocabularies[PARTY].items()]
    every = (m for of in (T, Partly(T.federated)) for m in score_vocabularies(everything, of))
    whole, part = (m for m in every if m.metric == "f1")
    assert part.value == 1
    assert [f.feature for f in part.detail.features] == [f.feature for f in whole.detail.features][1:]
    assert part.baseline == pytest.approx(np.mean([f.baseline for f in part.detail.features]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_statistic_that_no_feature_has_is_told_as_no_number(monkeypatch):
    """It ended in an IndexError; `check_measured` names the attack and the score."""
    monkeypatch.setattr(statistics, "_keys", lambda truth, party, statistic, levels: [])
    (measured,) = hits([exact(T.federated.schema.numeric[0], "mean", 0.0)], T)
    assert np.isnan([measured.value, measured.baseline]).all()
    assert measured.detail is None


def test_quartiles_and_shares_of_values_are_parts_of_their_columns_and_a_count_is_of_none():
    quartile = replace(exact(T.federated.schema.numeric[0], "quantile", 0.0), value="0.5")
    feature, count = T.federated.schema.categorical[0], T.statistic(PARTY, "", "count")
    true = {v: T.statistic(PARTY, feature, "frequency", v) for v in T.dictionaries[feature]}
    told = [replace(exact(feature, "frequency", share), value=v) for v, share in true.items()]
    of_quartiles, of_shares, of_rows = hits([quartile, *told, exact("", "count", count)], T)
    assert {f.feature for f in of_quartiles.detail.features} == set(T.federated.schema.numeric)
    assert [f.value for f in of_shares.detail.features] == [1.0] + [0.0] * (len(T.federated.schema.categorical) - 1)
    assert of_rows.detail is None


def test_tails_are_scored_where_no_quartile_is_claimed_and_beside_quartiles_for_their_intervals_alone():
    """What tells the tails alone, as a noised search does, was scored as nothing found of the quartiles."""
    columns = T.federated.schema.numeric
    tails = [
        replace(exact(f, "quantile", T.statistic(PARTY, f, "quantile", level)), value=level)
        for f in columns
        for level in ("0.1", "0.9")
    ]
    (alone,) = hits(tails, T)
    assert (alone.value, alone.certain, alone.certain_wrong) == (1.0, len(tails), 0)
    assert alone.baseline < 1
    (beside,) = hits([*tails, replace(exact(columns[0], "quantile", 1e9), value="0.5")], T)
    assert (beside.value, beside.certain_wrong) == (0.0, 1)


def test_the_overlap_of_each_column_stands_beside_the_mean_of_all():
    feature, held = next(iter(T.vocabularies[PARTY].items()))
    measured = {m.metric: m for m in score_vocabularies([VocabularyClaim(PARTY, feature, tuple(held))], T)}
    shares = {f.feature: f for f in measured["f1"].detail.features}
    assert {f: s.value for f, s in shares.items() if s.value} == {feature: 1.0}
    assert shares.keys() == T.vocabularies[PARTY].keys()
    assert np.mean([s.baseline for s in shares.values()]) == pytest.approx(measured["f1"].baseline)
    assert measured["recall"].detail is None


def test_counts_and_sizes_must_be_exact():
    count, feature = T.statistic(PARTY, "", "count"), T.federated.schema.categorical[0]
    values = [m.value for m in hits([exact("", "count", count), exact(feature, "size", 0)], T)]
    assert values == [1, 0]


def test_claims_without_a_width_are_certain_and_counted_where_they_are_wrong():
    count = T.statistic(PARTY, "", "count")
    wide = StatisticClaim(PARTY, "", "count", count, count - 1, count + 1, (3,))
    for claim, expected in (
        (exact("", "count", count), (1, 0)),
        (exact("", "count", count + 1), (1, 1)),
        (wide, (0, 0)),
    ):
        (measured,) = hits([claim], T)
        assert (measured.certain, measured.certain_wrong) == expected


def test_the_size_of_all_features_together_is_a_fact_where_it_is_exact():
    total = sum(T.statistic(PARTY, f, "size") for f in T.federated.schema.categorical)
    for claim, expected in ((exact("", "size", total), (1, 0)), (exact("", "size", total + 1), (1, 1))):
        measured = next(m for m in hits([claim], T) if m.metric == "size")
        assert (measured.certain, measured.certain_wrong) == expected


def test_a_count_that_is_half_a_row_off_is_not_known():
    count = T.statistic(PARTY, "", "count")
    for estimate, known in ((count + 0.49, 1), (count + 0.5, 0), (count - 0.5, 0)):
        (measured,) = hits([exact("", "count", estimate)], T)
        assert measured.value == known


@pytest.mark.parametrize("statistic", ["frequency", "target_rate"])
def test_shares_of_rows_are_scored_by_value_against_the_federations_own_shares(statistic):
    feature = T.federated.schema.categorical[0]
    keys = [(feature, v) for v in sorted(T.vocabularies[PARTY][feature])]
    whole = [
        StatisticClaim(PARTY, f, statistic, x := T.statistic(PARTY, f, statistic, v), x, x, (3,), v) for f, v in keys
    ]
    (all_told,) = hits(whole, T)
    (one_told,) = hits(whole[:1], T)
    assert all_told.value == pytest.approx(len(whole) * one_told.value)
    assert 0 < one_told.value < all_told.value <= 1
    assert 0 <= all_told.baseline < 1
    rows = T.federated.tables[PARTY].values(feature) == keys[0][1]
    share = {"frequency": rows.mean(), "target_rate": (T.federated.tables[PARTY].labels()[rows] == 1).mean()}
    assert T.statistic(PARTY, feature, statistic, keys[0][1]) == share[statistic]


def test_interval_quality_is_the_median_error_and_the_share_of_intervals_that_hold():
    value = T.statistic(PARTY, "", "count")
    estimates = [(2.0, 1.0, 3.0), (1.5, 0.9, 2.0), (1.1, 1.05, 1.2), (1.0, 1.0, 1.0)]
    claims = [StatisticClaim(PARTY, "", "count", *(value * x for x in numbers)) for numbers in estimates]
    (quality,) = interval_quality(claims, T).values()
    assert quality.claims == 4
    assert quality.relative_error == pytest.approx(0.3)
    assert quality.coverage == 0.75


def test_an_exact_claim_holds_in_spite_of_the_last_bit():
    feature = T.federated.schema.numeric[0]
    value = T.statistic(PARTY, feature, "mean")
    shown = exact(feature, "mean", np.nextafter(value, 1e9))
    assert interval_quality([shown], T)["mean"].coverage == 1
    assert interval_quality([exact(feature, "mean", value + 1e-6 * T.spread(feature))], T)["mean"].coverage == 0


def test_the_whole_truth_has_accuracy_one_and_the_baseline_does_not():
    claims = [records_claim(v, T.batch(v, r)) for v, r in T.federated.batches if r == 0]
    trials = [t for t in judged(claims) if t.metric == "accuracy"]
    assert [t.value for t in trials] == [1.0] * len(T.parties)
    assert all(0.1 < t.baseline < 0.8 for t in trials)


def test_guessing_from_the_marginals_stays_below_the_baseline():
    coins = np.random.default_rng(5)
    gaps = []
    for _ in range(30):
        claims = [records_claim(v, from_marginals(T.population, 4, coins)) for v, r in T.federated.batches if r == 0]
        gaps += [t.value - t.baseline for t in judged(claims) if t.metric == "accuracy"]
    assert np.mean(gaps) < -4 * np.std(gaps) / np.sqrt(len(gaps))


def test_the_baseline_of_a_batch_is_the_same_whatever_is_claimed_beside_it():
    guess = from_marginals(T.population, 4, np.random.default_rng(5))
    claims = [records_claim(v, guess) for v in T.parties]
    alone = {t.metric: t.baseline for t in judged(claims[-1:]) if t.status == "scored"}
    beside = {t.metric: t.baseline for t in judged(claims) if t.victim == T.parties[-1]}
    assert alone == beside


@pytest.mark.parametrize(
    ("outcome", "status"), [(NotApplicable("no model"), "not_applicable"), (Abstained("empty"), "abstained")]
)
def test_no_claim_is_one_trial_per_asset_with_its_reason_and_never_a_score(outcome, status):
    trials = judged(outcome, Plaintext())
    assert [(t.asset, t.status, t.reason, t.value) for t in trials] == [
        (asset, status, outcome.reason, None) for asset in Plaintext.asset
    ]


def test_a_batch_without_a_claim_beside_others_with_is_an_abstention():
    trials = judged([records_claim(PARTY, T.batch(PARTY, 0))])
    silent = [(t.victim, t.status) for t in trials if t.status != "scored"]
    assert silent == [(p, "abstained") for p in sorted(T.parties) if p != PARTY]
