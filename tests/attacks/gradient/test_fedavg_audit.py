"""FedAvg in an audit: what is held true of it, how it is scored, and the controls that are played."""

import numpy as np
import pytest

from leakledger.attacks.base import Attack, ControlSpec, RecordsClaim
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.audit.benchmarks import fedavg
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.case import cases
from leakledger.audit.controls import control_attack
from leakledger.audit.federate import federate
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.play import Play
from leakledger.audit.scoring import score
from leakledger.audit.truth import Truth
from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config, truth

SETTINGS = {
    "data": {"source": "fair", "rows": 30},
    "partition": {"kind": "iid", "parties": 3, "minimum": 5},
    "model": {"hidden": [60, 60]},
    "training": {"algorithm": "fedavg", "rounds": 1, "batch_size": 4, "local_epochs": 2, "learning_rate": 0.01},
}
EPOCHS, ROWS = 2, 8
FEW = {"restarts": 3, "iterations": 300, "refinement": 50, "prior_weights": (0.1,)}


@pytest.fixture(scope="module")
def held():
    return truth(**SETTINGS)


@pytest.fixture(scope="module")
def knowledge(held):
    return granted_knowledge(config(**SETTINGS), held)


def server_view(federated):
    return federated.ledger.view(["server"], federated.public)


class Cheat(Attack):
    """Claims one victim's true rows whatever it is shown."""

    technique, reference, asset, assumes = "cheat", "-", ("records",), "-"
    reads, controls = (ClientWeights, GlobalModel), (ControlSpec("records"),)

    def __init__(self, truth):
        self.truth = truth

    def run(self, view, knowledge):
        claims = []
        for (victim, round), labels in knowledge.labels.items():
            rows = self.truth.batch("P1", 0).take(np.arange(len(labels) // EPOCHS))
            doubt = rows.categories * 0.0, rows.numbers * 0.0
            claims.append(RecordsClaim(victim, round, rows.categories, rows.numbers, *doubt))
        return claims


def test_the_true_rows_are_those_of_one_epoch_and_the_granted_labels_those_of_all(held, knowledge):
    for (victim, round), labels in knowledge.labels.items():
        data, batches = held.federated.train[victim], held.federated.batches[victim, round]
        assert len(held.batch(victim, round)) == len(data) == ROWS
        assert np.array_equal(labels, data.labels[np.concatenate(batches)])
        assert len(labels) == EPOCHS * ROWS


def test_every_client_is_scored_above_the_prior(held, knowledge):
    attack = TabLeakFedAvg(**FEW)
    outcome = attack.run(server_view(held.federated), knowledge)
    attempted = attempts(config(**SETTINGS), held)
    trials = score(attack, ("server",), outcome, knowledge, held, attempted, np.random.default_rng(0), 5)
    found = {t.victim: (t.value, t.baseline) for t in trials if t.metric == "accuracy"}
    assert list(found) == ["P1", "P2", "P3"]
    assert all(value > baseline for value, baseline in found.values())


@pytest.mark.parametrize("attack", [TabLeakFedAvg(**FEW), Portfolio(tableak_fedavg=FEW)], ids=lambda a: a.technique)
def test_single_rows_behind_weights_are_recovered_and_an_unrelated_update_tells_nothing(attack, held, knowledge):
    found = controls(attack, held, knowledge)
    assert found["leaky"].passed
    assert found["null"].passed
    assert found["leaky"].value >= 0.9


def test_an_attack_that_knows_the_truth_without_the_weights_fails_the_null_control(held, knowledge):
    assert not controls(Cheat(held), held, knowledge)["null"].passed


def test_the_benchmark_has_clients_of_32_rows_that_are_encoded_by_the_whole_table():
    setting = fedavg.settings(Options(), "fair", (4, 2), seeds=1)
    of_few = Truth(fedavg.train_on_few(setting, cases(setting)[0]))
    whole = Truth(federate(setting, cases(setting)[0], PUBLIC_MASTER))
    assert of_few.layout == whole.layout
    assert np.array_equal(of_few.deviations, whole.deviations)
    for (victim, round), batches in of_few.federated.batches.items():
        assert [len(b) for b in batches] == 8 * [8]
        assert len(of_few.batch(victim, round)) == 32
    sent = list(server_view(of_few.federated).received(ClientWeights))
    assert [m.payload.rows for m in sent] == 4 * [32]


def test_the_benchmark_plays_every_published_cell_and_what_the_paper_does_beside_one_of_them():
    for table, published in fedavg.PUBLISHED.items():
        played = list(fedavg.plays(table, fedavg.SHORT + fedavg.LONG))
        assert len(played) == len(set(played))
        cells = {cell for variant, cell, _ in played if variant == "separate"}
        assert cells == {(batches, epochs) for epochs, row in published.items() for batches in row}
    beside = {variant for variant, cell, rows in fedavg.plays("adult", fedavg.LONG) if (cell, rows) == ((1, 5), 32)}
    assert beside == set(fedavg.VARIANTS)
    assert {rows for _, cell, rows in fedavg.plays("german", fedavg.SHORT)} == {32, 16}


def controls(attack, held, knowledge):
    coins = np.random.default_rng(0)
    played = control_attack(Play(attack, server_view(held.federated), knowledge, held), knowledge.labels, coins)
    return {c.kind: c for c in played}


def test_an_audit_plays_the_portfolio_on_weights_with_the_options_of_both_attacks():
    chosen = config(**SETTINGS, attacks={"tableak_fedavg": {"restarts": 7}, "tableak": {"restarts": 5}})
    assert "portfolio" in chosen.attacks.use
    attack = make_attack("portfolio", chosen, cases(chosen)[0])
    assert (attack.tableak_fedavg["restarts"], attack.tableak["restarts"]) == (7, 5)
