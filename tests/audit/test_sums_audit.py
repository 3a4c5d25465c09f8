"""Audits in which clients read the others' rows from the models that the server tells them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.observed import sums
from leakledger.attacks.observed.updates import find_updates
from leakledger.audit.case import cases
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.made_up import Summed
from leakledger.audit.play import Play, view_of
from leakledger.audit.record_controls import record_controls, ways_left
from leakledger.audit.run import run_audit
from leakledger.audit.scorer_controls import scorer_controls
from leakledger.audit.scoring import baseline, score
from leakledger.audit.scoring.records import owners_by_chance, owners_right
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config, truth

SETTINGS = {
    "data": {"source": "fair", "rows": 240},
    "preprocessing": [{"encoder": "server-dictionary", "scaler": "federated-minmax"}],
    "model": {"hidden": [100, 100]},
    "training": {"rounds": 1, "batch_size": 6},
    "attacks": {"use": ["span"]},
}


def settings(parties, observers, **sections):
    audit = {"seeds": [0], "observers": observers, "jobs": 1, "baseline_draws": 3}
    return {**SETTINGS, "partition": {"kind": "iid", "parties": parties}, "audit": audit, **sections}


def audited(folder, parties, observers, **sections):
    return run_audit(config(**settings(parties, observers, **sections)), folder / "run", master=PUBLIC_MASTER)


def scored(record, metric):
    return {s.observers: s.value for s in record.scores if (s.asset, s.metric) == ("records", metric)}


def ruled(record):
    return {r.adversary: r.verdict for r in record.rulings if r.asset == "records"}


def test_one_of_two_clients_finds_whole_rows_of_the_other(tmp_path):
    record = audited(tmp_path, 2, ["clients"])
    assert scored(record, "identical_rows") == {("P1",): 1.0, ("P2",): 1.0}
    assert set(scored(record, "false_verified").values()) == {0.0}
    assert ruled(record) == {"one client": "leaks"}
    (case,) = record.cases
    assert {t.victim for t in case.trials if t.observers == ("P1",) and t.status == "scored"} == {"P2"}
    assert {r.victim for r in case.recovered if r.observers == ("P1",)} == {"P2"}


def test_all_clients_but_one_find_whole_rows_of_that_one(tmp_path):
    record = audited(tmp_path, 4, ["all but P3"])
    assert scored(record, "identical_rows") == {("P1", "P2", "P4"): 1.0}
    assert ruled(record) == {"3 clients": "leaks"}


def test_one_of_three_clients_finds_rows_and_not_whose_they_are(tmp_path):
    record = audited(tmp_path, 3, ["P1"])
    (case,) = record.cases
    assert scored(record, "identical_rows") == {("P1",): 1.0}
    assert {t.victim for t in case.trials if t.asset == "records" and t.status == "scored"} == {"P2+P3"}
    assert 0.5 <= scored(record, "owner")[("P1",)] <= 1
    assert not [t for t in case.trials if t.status == "abstained"]  # nothing is left out, one's own batch least of all


def test_one_of_two_clients_finds_rows_behind_the_others_weights(tmp_path):
    training = {"algorithm": "fedavg", "rounds": 1, "batch_size": 4, "local_epochs": 1, "learning_rate": 0.05}
    record = audited(tmp_path, 2, ["P1"], training=training, data={"source": "fair", "rows": 24})
    assert scored(record, "identical_rows")[("P1",)] > 0.8
    assert scored(record, "false_verified")[("P1",)] == 0.0
    assert ruled(record) == {"one client": "leaks"}


def test_rounds_in_which_a_client_is_absent_tell_whose_rows_are_whose(tmp_path):
    """One is told every candidate for the next model, and so every sum, whoever takes part."""
    training = {"algorithm": "fedavg", "rounds": 12, "batch_size": 4, "learning_rate": 0.05, "patience": 12}
    training["participation"] = 0.67
    attacks = {"use": ["span"], "rounds": list(range(12))}
    data = {"source": "fair", "rows": 30}
    record = audited(tmp_path, 3, ["P1"], training=training, data=data, attacks=attacks)
    (case,) = record.cases
    assert {t.victim for t in case.trials if t.metric == "identical_rows"} >= {"P2", "P3", "P2+P3"}
    assert scored(record, "owner")[("P1",)] > 0.8


@pytest.mark.parametrize(
    ("aggregation", "observers"), [("secure-aggregation", ["server", "P2"]), ("he-aggregation", ["P2"])]
)
def test_whoever_has_a_sum_that_was_masked_or_encrypted_finds_its_rows(tmp_path, aggregation, observers):
    if aggregation == "he-aggregation":
        pytest.importorskip("tenseal")
    training = {"rounds": 1, "batch_size": 3, "aggregation": aggregation}
    record = audited(tmp_path, 3, observers, training=training)
    assert scored(record, "identical_rows") == {(o,): 1.0 for o in observers}
    assert scored(record, "false_verified") == {(o,): 0.0 for o in observers}
    (case,) = record.cases
    assert all(c.passed for c in case.controls if c.kind != "power")  # planted rows may repeat, which `span` takes ill
    assert not [u for u in case.unread if u.topic.startswith("train.")]
    victims = {"server": "P1+P2+P3", "P2": "P1+P3"}
    found = {(t.observers[0], t.victim) for t in case.trials if t.asset == "records" and t.status == "scored"}
    assert found == {(o, victims[o]) for o in observers}


def test_the_server_alone_learns_nothing_where_updates_are_encrypted(tmp_path):
    pytest.importorskip("tenseal")
    training = {"rounds": 1, "batch_size": 6, "aggregation": "he-aggregation"}
    record = audited(tmp_path, 3, ["server"], training=training)
    assert scored(record, "identical_rows") == {}
    assert ruled(record) == {"server": "inconclusive"}  # one seed shows no absence


def test_controls_are_played_once_for_what_is_sent_and_once_for_what_is_summed(tmp_path):
    record = audited(tmp_path, 3, ["server", "clients"])
    own = [c for c in record.cases[0].controls if c.attack == "span"]
    assert sorted((c.kind, c.summed) for c in own) == [
        (k, s) for k in ("leaky", "null", "power") for s in (False, True)
    ]
    assert all(c.passed for c in own)
    assert {c.kinds for c in own if c.summed} == {("evaluate.model", "train.model")}


@cache
def play(parties=3, **sections):
    chosen = settings(parties, ["P1"], **sections)
    found, configured = truth(**chosen), config(**chosen)
    attack = make_attack("span", configured, cases(configured)[0])
    return Play(attack, view_of(("P1",), found), granted_knowledge(configured, found), found)


def test_a_control_of_sums_shows_models_before_and_after_and_no_update_of_others():
    seen = []

    class Watching(type(play().attack)):
        def run(self, view, knowledge):
            seen.append((view, knowledge))
            return super().run(view, knowledge)

    watched = Play(Watching(), play().view, play().knowledge, play().truth)
    found = {c.kind: c for c in record_controls(watched, [("P2+P3", 0)], np.random.default_rng(0))}
    assert all(c.passed and c.summed for c in found.values())
    for view, knowledge in seen:
        assert {m.sender for m in view.messages if m.topic == "train.gradient"} == {"P1"}
        assert sorted(m.topic for m in view.messages if m.sender == "server") == ["evaluate.model", "train.model"]
        assert {client for client, _ in knowledge.labels} == set(view.public.clients) - {"P1"}


def test_single_rows_come_back_behind_a_mean_that_counts_every_client_alike():
    """The control's mean counted rows, and the attack, which knows better, took the wrong part off as its own."""
    alike = play.__wrapped__(2, training={"rounds": 1, "batch_size": 6, "weighting": "clients"})
    controls = list(record_controls(alike, [("P2", 0)], np.random.default_rng(0)))
    assert [(c.kind, c.summed) for c in controls] == [(k, True) for k in ("leaky", "null", "power")]
    assert controls[0].passed


def test_a_control_of_what_is_sent_leaves_no_model_behind_that_tells_of_a_sum():
    """Of six clients the leaky control makes up four, and the null control one: the others sent nothing in it."""
    chosen = settings(6, ["server"], data={"source": "fair", "rows": 300})
    found, configured = truth(**chosen), config(**chosen)
    victims = set()

    class Watching(type(play().attack)):
        def run(self, view, knowledge):
            victims.update(u.victim for u in find_updates(view, knowledge))
            return super().run(view, knowledge)

    watched = Play(Watching(), view_of(("server",), found), granted_knowledge(configured, found), found)
    assert {c.summed for c in record_controls(watched, [("P1", 0)], np.random.default_rng(0))} == {False}
    assert victims <= set(found.parties)
    assert victims


def test_a_reader_that_forgets_its_own_update_fails_the_leaky_control_of_sums(monkeypatch):
    def forgotten(spec, whole, training, message):
        return {name: np.zeros_like(w) for name, w in whole.mean.items()}

    monkeypatch.setattr(sums, "_update", forgotten)
    found = list(record_controls(play(), [("P2+P3", 0)], np.random.default_rng(0)))
    failed = {c.kind for c in found if not c.passed}
    assert failed == {"power"}  # its silence about sums proves nothing; what it found in single updates stands
    assert "leaky" not in {c.kind for c in found}


def test_ways_of_observing_that_were_shown_are_not_shown_again():
    assert ways_left(play(), [("P2+P3", 0)], []) == [("P2+P3", 0)]
    done = list(record_controls(play(), [("P2+P3", 0)], np.random.default_rng(0)))
    assert ways_left(play(), [("P2+P3", 0)], done) == []


def test_the_truth_of_a_sum_is_the_union_of_its_batches():
    found = play().truth
    both, parts = found.batch("P2+P3", 0), [found.batch(c, 0) for c in ("P2", "P3")]
    assert both.categories.tolist() == [r for p in parts for r in p.categories.tolist()]
    assert both.numbers.tolist() == [r for p in parts for r in p.numbers.tolist()]
    assert found.owners("P2+P3", 0).tolist() == ["P2"] * 6 + ["P3"] * 6
    labels = [y for c in ("P2", "P3") for y in found.labels(c, 0).tolist()]
    assert found.labels("P2+P3", 0).tolist() == labels


def test_labels_of_a_sum_of_trainings_go_pass_by_pass():
    training = {"algorithm": "fedavg", "rounds": 1, "batch_size": 4, "local_epochs": 2}
    found = truth(**settings(3, ["P1"], training=training, data={"source": "fair", "rows": 30}))
    rows = len(found.batch("P2+P3", 0))
    labels = found.labels("P2+P3", 0)
    assert len(labels) == 2 * rows
    assert sorted(labels[:rows]) == sorted(labels[rows:])


def claim(owners):
    found = play().truth
    rows = found.batch("P2+P3", 0)
    doubt = np.zeros(rows.categories.shape), np.zeros(rows.numbers.shape)
    return RecordsClaim("P2+P3", 0, rows.categories, rows.numbers, *doubt, owners=owners)


@pytest.mark.parametrize(
    ("owners", "right"),
    [
        (["P2"] * 6 + ["P3"] * 6, 1.0),
        (["P3"] * 6 + ["P2"] * 6, 0.0),
        ([""] * 12, 0.5),
        (["P2"] * 12, 0.5),
        (["P2"] * 6 + [""] * 6, 0.75),
    ],
)
def test_an_owner_is_right_where_it_is_the_one_and_by_chance_where_none_is_named(owners, right):
    found = play().truth
    one = claim(np.array(owners))
    assert owners_right(one, found.batch("P2+P3", 0), found) == pytest.approx(right)
    assert owners_by_chance(one, found) == 0.5


def test_the_baseline_of_a_sum_is_of_as_many_rows_of_as_many_clients():
    played = play()
    attempted = attempts(config(**settings(3, ["P1"])), played.truth)
    prior = baseline(played.truth, played.knowledge, np.random.default_rng(0), 3)
    found = prior.of(claim(None), played.truth.batch("P2+P3", 0), played.truth)
    assert found.categories.shape[0] == 12
    assert found.metrics["exact_rows"] < 0.5
    coins = np.random.default_rng(0)
    trials = score(played.attack, ("P1",), [claim(None)], played.knowledge, played.truth, attempted, coins, 3)
    assert {t.status for t in trials} == {"scored"}
    (owner,) = [t for t in trials if t.metric == "owner"]
    assert (owner.value, owner.baseline) == (0.5, 0.5)


def test_a_batch_of_others_that_is_in_no_claim_is_left_out():
    played = play()
    rows = played.truth.batch("P2", 0)
    doubt = np.zeros(rows.categories.shape), np.zeros(rows.numbers.shape)
    one = RecordsClaim("P2", 0, rows.categories, rows.numbers, *doubt)
    attempted = [("P1", 0), ("P2", 0), ("P3", 0)]
    coins = np.random.default_rng(0)
    trials = score(played.attack, ("P1",), [one], played.knowledge, played.truth, attempted, coins, 3)
    assert [t.victim for t in trials if t.status == "abstained"] == ["P3"]


def test_what_a_control_is_of_is_named_by_its_clients():
    assert Summed("P2+P3", 0).clients == ("P2", "P3")
    assert Summed("P2", 1).batch == ("P2", 1)


def explained(found):
    prior = baseline(found, play().knowledge, np.random.default_rng(0), 3)
    controls = scorer_controls(found, [play().view], [("P2", 0)], prior, np.random.default_rng(0))
    return [c for c in controls if "make the sum over 2 clients" in c.expected]


def test_the_rows_that_count_as_true_make_the_sum_and_others_do_not():
    found = play().truth
    (right,) = explained(found)
    assert right.passed
    batches = found.federated.batches
    shifted = {key: [rows + 1 for rows in own] for key, own in batches.items()}
    (wrong,) = explained(Truth(replace(found.federated, batches=shifted)))
    assert not wrong.passed
