"""Audits of Poisson samples, whose size only the client knows: truth, scores, baseline and controls."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.audit.cells import Cells
from leakledger.audit.granted import attempts, granted_knowledge
from leakledger.audit.play import Play, view_of
from leakledger.audit.record_controls import record_controls
from leakledger.audit.run import run_audit
from leakledger.audit.scorer_controls import scorer_controls
from leakledger.audit.scoring import baseline, score
from leakledger.audit.scoring.best_prior import BestPrior, best_prior
from leakledger.audit.scoring.records import score_records
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.truth import Truth
from leakledger.audit.uncertainty import surest
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config
from tests.audit.example import truth as true_of

SETTINGS = {
    "data": {"source": "fair", "rows": 200},
    "preprocessing": [{"encoder": "server-dictionary", "scaler": "federated-zscore"}],
    "training": {"rounds": 8, "batch_size": 4, "sampling": "poisson"},
    "attacks": {"use": ["span"], "rounds": list(range(8))},
    "audit": {"seeds": [0], "observers": ["server"]},
}
T = true_of(**SETTINGS)
KNOWN = granted_knowledge(config(**SETTINGS), T)
SIZES = {key: len(T.batch(*key)) for key in T.federated.batches}


def of_size(accepted):
    """A batch with such a number of rows: one of 24 with sizes that are Poisson of mean 4."""
    return next(key for key, n in SIZES.items() if accepted(n))


def emptied(key):
    """The truth where the client of `key` drew no row."""
    batches = {**T.federated.batches, key: [np.zeros(0, np.int64)]}
    return Truth(replace(T.federated, batches=batches))


def claim(key, rows, verified=None):
    return RecordsClaim(
        *key, rows.categories, rows.numbers, rows.categories * 0.0, rows.numbers * 0, (1,), None, verified
    )


def many(rows):
    """So many rows of the population."""
    return T.population.take(np.arange(rows))


def joined(one, other):
    return Cells(np.vstack([one.categories, other.categories]), np.vstack([one.numbers, other.numbers]), one.sources)


def test_the_truth_keeps_which_rows_were_really_drawn_and_the_updates_do_not_tell():
    assert len(set(SIZES.values())) > 2
    told = list(view_of(("server",), T).received(ClientGradient))
    assert {m.payload.rows for m in told} == {4}
    assert {(m.sender, m.round) for m in told} == set(SIZES)


@pytest.mark.parametrize("smaller", [True, False])
def test_the_whole_truth_and_more_is_perfect_and_the_surplus_is_nothing(smaller):
    key = of_size(lambda n: 0 < n < 4 if smaller else n > 4)
    actual = T.batch(*key)
    claimed = joined(many(3), actual)
    prior = baseline(T, KNOWN, np.random.default_rng(0), 5)
    found = {m.metric: m for m in score_records([claim(key, claimed)], T, prior.of)}
    assert found["accuracy"].value == found["exact_rows"].value == found["worst_record"].value == 1
    assert found["accuracy"].detail is not None
    cells = [c for r in surest("span", ("server",), [claim(key, claimed)], T) for c in r.cells]
    assert cells


def test_fewer_rows_than_there_are_leave_the_rest_wrong():
    key = of_size(lambda n: n > 4)
    actual = T.batch(*key)
    prior = baseline(T, AuxiliaryKnowledge(), np.random.default_rng(0), 5)
    found = {m.metric: m for m in score_records([claim(key, actual.take(np.arange(4)))], T, prior.of)}
    assert found["accuracy"].value == pytest.approx(4 / len(actual))
    assert "rmse" not in found


def test_the_baseline_claims_as_many_rows_as_the_attack_and_gains_by_it():
    gains = []
    for key in (key for key, n in SIZES.items() if 0 < n < 4):
        actual, of = T.batch(*key), population_without(T, *key)
        few, many_rows = (
            best_prior(actual, of, T.deviations, None, np.random.default_rng(0), 20, rows).metrics["accuracy"]
            for rows in (len(actual), 40)
        )
        gains.append(many_rows - few)
    assert np.mean(gains) > 0.05


def test_the_baseline_knows_the_rows_to_expect_and_of_labelled_batches_the_rows_that_there_are(monkeypatch):
    asked = []

    def watch(actual, of, deviations, counts, coins, draws, claimed):
        asked.append(claimed)
        return best_prior(actual, of, deviations, counts, coins, draws, claimed)

    monkeypatch.setattr("leakledger.audit.scoring.best_prior.best_prior", watch)
    small, large = of_size(lambda n: 0 < n < 4), of_size(lambda n: n > 4)
    for knowledge in (AuxiliaryKnowledge(), KNOWN):
        prior = BestPrior(Truth(T.federated), knowledge, 0, 2)
        for key, rows in ((small, 1), (large, 1), (small, 9)):
            prior.of(claim(key, many(rows)), T.batch(*key), T)
    assert asked == [4, 4, 9, SIZES[small], SIZES[large], 9]


def test_how_often_the_prior_has_each_true_cell_right_counts_rows_that_it_did_not_claim_as_wrong():
    key = of_size(lambda n: n > 4)
    actual, of = T.batch(*key), population_without(T, *key)
    prior = best_prior(actual, of, T.deviations, None, np.random.default_rng(0), 5, 1)
    assert prior.categories.shape == actual.categories.shape
    assert np.hstack([prior.categories, prior.numbers]).mean() == pytest.approx(prior.metrics["accuracy"])
    assert prior.metrics["accuracy"] <= 1 / len(actual)


def test_of_an_empty_batch_nothing_is_scored_but_proofs_which_are_false():
    key = next(iter(SIZES))
    truth = emptied(key)
    prior = baseline(truth, AuxiliaryKnowledge(), np.random.default_rng(0), 2)
    assert list(score_records([claim(key, many(4))], truth, prior.of)) == []
    (found,) = score_records([claim(key, many(4), np.array([True, False, True, False]))], truth, prior.of)
    assert (found.metric, found.value, found.certain, found.certain_wrong) == ("false_verified", 1.0, 2, 2)
    records = surest("span", ("server",), [claim(key, many(4))], truth)
    assert records
    assert not any(c.correct for r in records for c in r.cells)


def test_an_empty_batch_is_not_attempted_and_silence_about_it_is_no_abstention():
    key = next(iter(SIZES))
    truth, settings = emptied(key), config(**SETTINGS)
    tried, known = attempts(settings, truth), granted_knowledge(settings, truth)
    assert key not in tried
    assert set(tried) == {k for k, n in SIZES.items() if n and k != key}
    assert known.labels[key].tolist() == []
    tried = tried[:3]
    outcome = [claim(k, truth.batch(*k)) for k in tried]
    trials = score(ATTACKS["span"](), ["server"], outcome, known, truth, tried, np.random.default_rng(0), 2)
    assert {t.status for t in trials} == {"scored"}
    assert {(t.victim, t.round) for t in trials} == set(tried)


def test_controls_are_played_with_the_first_batch_that_has_rows():
    truth, settings = emptied(next(iter(SIZES))), config(**SETTINGS)
    known, view = granted_knowledge(settings, truth), view_of(("server",), truth)
    play = Play(ATTACKS["span"](rounds=tuple(range(8))), view, known, truth)
    found = list(record_controls(play, set(SIZES), np.random.default_rng(0)))
    assert [c.kind for c in found] == ["leaky", "null", "power"]
    assert found[0].passed
    assert found[1].passed
    nobody = Truth(replace(T.federated, batches={k: [np.zeros(0, np.int64)] for k in SIZES}))
    assert list(record_controls(replace(play, truth=nobody), set(SIZES), np.random.default_rng(0))) == []
    assert attempts(settings, nobody) == []


def test_the_scorer_is_tried_with_batches_that_have_rows():
    truth, settings = emptied(next(iter(SIZES))), config(**SETTINGS)
    prior = baseline(truth, KNOWN, np.random.default_rng(0), 20)
    views, tried = [view_of(("server",), truth)], attempts(settings, truth)
    found = list(scorer_controls(truth, views, [next(iter(SIZES)), *tried], prior, np.random.default_rng(0)))
    assert len(found) >= 8


def test_granted_labels_tell_how_many_rows_a_gradient_is_the_mean_of():
    view = view_of(("server",), T)
    found = find_gradients(view, KNOWN, rounds=range(8))
    assert {(u.victim, u.round): u.rows for u in found} == {key: n for key, n in SIZES.items() if n}
    for update in found:
        (message,) = (m for m in view.received(ClientGradient) if (m.sender, m.round) == (update.victim, update.round))
        for name, g in message.payload.gradient.items():
            np.testing.assert_allclose(update.gradient[name] * update.rows, np.float64(g) * 4, rtol=1e-12)
    unlabelled = find_gradients(view, AuxiliaryKnowledge(), rounds=range(8))
    assert {u.rows for u in unlabelled} == {4}


def test_an_attack_says_that_a_batch_without_labels_to_grant_is_empty():
    key = next(iter(SIZES))
    known = replace(KNOWN, labels={key: np.zeros(0, np.int64)})
    outcome = find_gradients(view_of(("server",), T), known, rounds=[key[1]], victims=[key[0]])
    assert "is of no row: the labels granted for its batch are none" in outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["known", "recovered"])
def test_an_audit_of_poisson_samples_ends_and_finds_the_rows_where_their_number_is_known(tmp_path, labels):
    settings = config(**{**SETTINGS, "attacks": {"use": ["span"], "rounds": [0, 1], "labels": labels}})
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    (case,) = record.cases
    assert not [c for c in case.controls if c.attack == "scorer" and not c.passed]
    exact = [t.value for t in case.trials if t.metric == "identical_rows"]
    if labels == "known":
        assert record.verdict.status == "leaks"
        assert np.mean(exact) > 0.9
