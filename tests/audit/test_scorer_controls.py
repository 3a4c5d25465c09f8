"""Sabotage of attacks and of the scoring: each must end inconclusive, whatever it claims to have found."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import RecordsClaim, StatisticClaim
from leakledger.audit import federation_controls, record_controls, run, scorer_controls
from leakledger.audit.cells import Cells
from leakledger.audit.granted import attempts, granted_knowledge
from leakledger.audit.made_up import Sent, encoded_rows
from leakledger.audit.play import view_of
from leakledger.audit.records import SCORER
from leakledger.audit.run import run_audit
from leakledger.audit.scoring import baseline, best_prior
from leakledger.audit.scoring import records as scoring
from leakledger.audit.truth import Truth
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config
from tests.audit.example import truth as true_of

QUICK = {
    "data": {"source": "fair", "rows": 200},
    "preprocessing": [{"encoder": "local", "scaler": "local"}],
    "training": {"rounds": 1, "batch_size": 4},
    "attacks": {"use": ["span"]},
    "audit": {"seeds": [0], "observers": ["server"]},
}


def outcome(tmp_path, **changes):
    return run_audit(config(**{**QUICK, **changes}), tmp_path / "run", master=PUBLIC_MASTER)


def failed(record, attack=SCORER):
    return [c for case in record.cases for c in case.controls if c.attack == attack and not c.passed]


def controls(**changes):
    settings = config(**{**QUICK, **changes})
    case_truth = true_of(**{**QUICK, **changes})
    views = [view_of(("server",), case_truth), view_of(("P1",), case_truth)]
    coins = np.random.default_rng(0)
    tried, known = attempts(settings, case_truth), granted_knowledge(settings, case_truth)
    prior = baseline(case_truth, known, coins, 20)
    return list(scorer_controls.scorer_controls(case_truth, views, tried, prior, coins))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"defense": {"name": "gaussian-noise", "sigma": 0.05}},
        {"preprocessing": [{"encoder": "rolling-hash", "scaler": "federated-zscore"}]},
        {"training": {"algorithm": "fedavg", "rounds": 1, "batch_size": 4}},
    ],
)
def test_a_sound_scorer_passes(changes):
    found = controls(**changes)
    assert len(found) >= 8
    assert [c for c in found if not c.passed] == []


@pytest.mark.parametrize("scaler", ["local", "federated-zscore"])
def test_training_rows_that_have_codes_of_their_own_make_the_gradient(scaler, monkeypatch):
    """Behind a shared `target` codes of training rows are out of fold: rows with the public ones miss the gradient by
    1 to 5 %, which failed the control, so that nothing was ever said to leak there.
    """
    shared = {"preprocessing": [{"encoder": "target", "exchange": "shared", "scaler": scaler}]}
    found = controls(**shared)
    assert sum("make the" in c.expected for c in found) == 2
    assert [c for c in found if not c.passed] == []
    honest = Truth.labels
    monkeypatch.setattr(Truth, "labels", lambda truth, *key: 1 - honest(truth, *key))
    assert [c.expected for c in controls(**shared) if not c.passed]


def test_what_the_prior_alone_would_claim_is_drawn_without_the_rows_under_attack(monkeypatch):
    """Where a client's rows are all attacked and others' are alike, draws from its own beat the prior."""
    settings = {**QUICK, "training": {"algorithm": "fedavg", "rounds": 1, "batch_size": 4}}
    held, drawn = true_of(**settings), []

    def noting(population, rows, coins):
        drawn.append(len(population))
        return scoring.from_marginals(population, rows, coins)

    monkeypatch.setattr(scorer_controls, "from_marginals", noting)
    controls(training=settings["training"])
    batches = [len(held.batch(*key)) for key in held.federated.batches][: scorer_controls.BATCHES]
    assert drawn == [len(held.population) - rows for rows in batches]


@pytest.mark.parametrize("number", [0.0, 4e15, -4e15, 1e16, 1e72, -1e72])
def test_numbers_are_moved_beyond_the_tolerance_also_where_a_float_has_no_room_for_it(number):
    """A column of one text under bytes-norm is 10^72 everywhere: a unit off it was that number again, counted as right,
    and 'the null control of scorer failed'.
    """
    one = Cells(np.zeros((1, 0), np.int64), np.array([[number]]), (0,))
    truth = SimpleNamespace(deviations=np.zeros(1))
    assert scorer_controls._moved(one, scorer_controls.INSIDE, truth) == 1
    assert scorer_controls._moved(one, scorer_controls.OUTSIDE, truth) == 0


def test_an_honest_audit_has_its_leaks_and_no_failed_control_of_the_scorer(tmp_path):
    record = outcome(tmp_path)
    assert record.verdict.status == "leaks"
    assert not failed(record)


def wrong_batch(monkeypatch):
    real = Truth.batch

    def next_party(self, victim, round):
        names = self.parties
        return real(self, names[(names.index(victim) + 1) % len(names)], round)

    monkeypatch.setattr(Truth, "batch", next_party)


def no_matching(monkeypatch):
    def in_order(claimed, actual, deviations):
        return np.arange(len(claimed)), np.arange(len(claimed))

    monkeypatch.setattr(scoring, "match", in_order)


def wide_tolerance(monkeypatch):
    monkeypatch.setattr(scoring, "TOLERANCE", 10 * scoring.TOLERANCE)


def no_baseline(monkeypatch):
    real = best_prior.best_prior

    def nothing(*arguments):
        found = real(*arguments)
        return replace(found, metrics=dict.fromkeys(found.metrics, 0.0), spreads=dict.fromkeys(found.spreads, 0.01))

    monkeypatch.setattr(best_prior, "best_prior", nothing)


def all_right(monkeypatch):
    real = scoring.cell_hits

    def right(*arguments):
        return tuple(np.ones_like(hits) for hits in real(*arguments))

    monkeypatch.setattr(scoring, "cell_hits", right)


@pytest.mark.parametrize("sabotage", [wrong_batch, no_matching, wide_tolerance, no_baseline, all_right])
def test_a_scorer_that_measures_something_else_makes_the_audit_inconclusive(sabotage, monkeypatch, tmp_path):
    sabotage(monkeypatch)
    record = outcome(tmp_path)
    assert failed(record)
    records = [r for r in record.rulings if r.asset == "records"]
    assert [r.verdict for r in records] == ["inconclusive"] * len(records) != []
    assert record.verdict.status == "inconclusive"


def test_a_view_with_the_inputs_of_others_makes_the_audit_inconclusive(monkeypatch, tmp_path):
    real = run.view_of

    def everything(observers, of):
        view = real(observers, of)
        return replace(view, inputs={p: dict(of.input_of(p)) for p in of.parties})

    monkeypatch.setattr(run, "view_of", everything)
    record = outcome(tmp_path)
    assert any("nothing of others" in c.expected for c in failed(record))
    assert record.verdict.status == "inconclusive"


def knows_by_name(monkeypatch, claims_of):
    """Every attack that is made returns what is true of the real parties, by their names."""
    kept = {}
    real_truth = run.truth_of

    def remembered(federated):
        kept["truth"] = real_truth(federated)
        return kept["truth"]

    monkeypatch.setattr(run, "truth_of", remembered)
    for kind in {ATTACKS["span"], ATTACKS["statistics"]}:
        monkeypatch.setattr(kind, "run", lambda self, view, knowledge: claims_of(kept["truth"], view))


def rows_by_name(case_truth, view):
    claims = []
    for m in view.received(ClientGradient):
        if (m.sender, m.round) in case_truth.federated.batches:
            rows = case_truth.batch(m.sender, m.round)
            unsure = np.ones(rows.categories.shape), np.ones(rows.numbers.shape)
            claims.append(RecordsClaim(m.sender, m.round, rows.categories, rows.numbers, *unsure, (m.sequence,)))
    return claims


def means_by_name(case_truth, view):
    return [
        StatisticClaim(p, f, "mean", x, x, x)
        for p in case_truth.parties
        if p not in view.observers
        for f in case_truth.federated.schema.numeric
        for x in [case_truth.statistic(p, f, "mean")]
    ]


def test_rows_returned_by_the_names_of_clients_are_found_out(monkeypatch, tmp_path):
    knows_by_name(monkeypatch, rows_by_name)
    record = outcome(tmp_path)
    assert {c.kind for c in failed(record, "span")} >= {"leaky", "null", "power"}
    assert {r.verdict for r in record.rulings if r.asset == "records"} == {"inconclusive"}


def test_statistics_returned_by_the_names_of_clients_are_found_out(monkeypatch, tmp_path):
    knows_by_name(monkeypatch, means_by_name)
    monkeypatch.setattr(federation_controls, "_PLAYED", {})  # what sound attacks have played before
    method = {"encoder": "local", "scaler": "zscore-sac"}
    record = outcome(tmp_path, preprocessing=[method], attacks={"use": ["statistics"]})
    assert failed(record, "statistics")
    assert {r.verdict for r in record.rulings if r.asset == "mean"} == {"inconclusive"}


def test_an_attack_on_single_rows_only_has_no_power_over_a_batch(monkeypatch, tmp_path):
    real = ATTACKS["span"].run

    def singles(self, view, knowledge):
        found = real(self, view, knowledge)
        return [
            c
            if len(c.categories) == 1
            else replace(c, numbers=c.numbers * 0, categories=c.categories * 0, verified=None)
            for c in found
        ]

    monkeypatch.setattr(ATTACKS["span"], "run", singles)
    record = outcome(tmp_path)
    assert {c.kind for c in failed(record, "span")} == {"power"}
    (ruling,) = (r for r in record.rulings if r.asset == "records")
    assert ruling.verdict == "inconclusive"
    assert any("gets nowhere against rows that were planted" in m for m in ruling.missing)


def test_planted_rows_are_protected_as_the_audited_ones_are():
    """The made-up update carries the audited noise: two of the same rows differ."""
    case_truth = true_of(**QUICK, defense={"name": "gaussian-noise", "sigma": 0.05})
    view = view_of(("server",), case_truth)
    first = next(view.received(ClientGradient))
    seen = []

    class Watching(ATTACKS["span"]):
        def run(self, view, knowledge):
            seen.append(next(view.received(ClientGradient)).payload.gradient)
            return []

    play = run.Play(Watching(), view, granted_knowledge(config(**QUICK), case_truth), case_truth)
    rows, labels = case_truth.batch("P1", 0), case_truth.labels("P1", 0)
    for defended in (True, True, False, False):
        coins = np.random.default_rng(len(seen))
        record_controls._made_up(play, Sent(first), {"P1": (rows, labels)}, coins, defended)
    assert isinstance(rows, Cells)
    spread = [np.abs(seen[0][n] - seen[1][n]).max() for n in seen[0]]
    assert min(spread) > 0.01
    assert all(np.array_equal(seen[2][n], seen[3][n]) for n in seen[2])


def test_planted_rows_have_codes_of_their_own_where_training_rows_have():
    """Planted with the public codes they would be easier to read than the audited rows, and show power that is not."""
    truth = true_of(**{**QUICK, "preprocessing": [{"encoder": "target", "exchange": "shared", "scaler": "local"}]})
    owners, labels = np.repeat("P1", 4), np.zeros(4, np.int64)
    sent = record_controls._planted(truth, owners, np.random.default_rng(3))
    drawn = record_controls._drawn(truth, owners, np.random.default_rng(3))
    batches = record_controls._as_trained(truth, record_controls.by_owner(sent, labels, owners), drawn)
    rows, _ = batches["P1"]
    np.testing.assert_allclose(rows, truth.federated.train["P1"].rows[drawn["P1"]], atol=1e-5)
    assert np.abs(rows - encoded_rows(truth.layout, sent)).max() > 1e-3


def test_the_power_control_plants_such_rows(monkeypatch, tmp_path):
    honest, made = record_controls._made_up, []

    def noting(play, observed, batches, *rest, **more):
        made.extend(rows for rows, _ in batches.values())
        return honest(play, observed, batches, *rest, **more)

    monkeypatch.setattr(record_controls, "_made_up", noting)
    record = outcome(tmp_path, preprocessing=[{"encoder": "target", "exchange": "shared", "scaler": "local"}])
    assert failed(record) == []
    assert any(isinstance(rows, np.ndarray) for rows in made)
