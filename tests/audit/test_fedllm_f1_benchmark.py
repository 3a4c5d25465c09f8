"""The methods beside FedLLM-Align: known answers of each, and the rows of their benchmarks."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from leakledger.audit.benchmarks import (
    base,
    fedllm_clustered,
    fedllm_f1,
    fedllm_mutual,
    fedllm_overlap,
    fedllm_scaffold,
    fedllm_text,
)
from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.fedllm_clustered import Cluster, bipartition, cosines
from leakledger.audit.benchmarks.fedllm_data import divided
from leakledger.audit.benchmarks.fedllm_methods import METHODS
from leakledger.audit.benchmarks.fedllm_mutual import information
from leakledger.audit.benchmarks.fedllm_task import HeldOut, Task, columns_of, counted, stacked, start
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import draw_batches
from leakledger.preprocess.training.evaluation import counts_of
from leakledger.preprocess.training.fedavg import FedAvg
from leakledger.preprocess.training.fedsgd import FedSGD
from leakledger.preprocess.views import ModelSpec, TrainingSpec

LINEAR = ModelSpec(3, 1, (), "relu", "binary")
HEAD = Alignment().head(3)  # with dropout
WHOLE = TrainingSpec("fedavg", rounds=1, learning_rate=0.5, batch_size=None, local_epochs=5)


def rows_of(seed, slope=1.0, shift=0.0, n=40):
    """Rows of a client whose label follows from the first column."""
    coins = np.random.default_rng(seed)
    rows = coins.normal(shift, 1, (n, 3)).astype(np.float32)
    return Encoded(rows, (slope * rows[:, 0] + coins.normal(0, 0.7, n) > 0).astype(np.int64))


def coins_of(clients):
    return {c: np.random.default_rng(i) for i, c in enumerate(clients)}


def scaffold_of(spec, training, data, rounds):
    state = fedllm_scaffold.first(initial_weights(spec, np.random.default_rng(9)), list(data))
    coins = coins_of(data)
    for _ in range(rounds):
        state = fedllm_scaffold.one_round(spec, training, state, data, coins)
    return state


def fedavg_of(spec, training, data, rounds):
    weights, coins = initial_weights(spec, np.random.default_rng(9)), coins_of(data)
    for _ in range(rounds):
        ended = []
        for c, rows in data.items():
            batches = draw_batches(training, rows, coins[c])
            drawn = coins[c] if spec.dropout else None
            ended.append(FedAvg().client(spec, training, GlobalModel(weights), rows, batches, None, drawn).weights)
        weights = {name: np.mean([w[name] for w in ended], 0) for name in weights}
    return weights


def gradient_of(spec, weights, data):
    training = TrainingSpec("fedsgd", batch_size=None)
    return FedSGD().client(spec, training, GlobalModel(weights), data, [np.arange(len(data))]).gradient


def gap(one, other):
    return max(np.abs(one[name] - other[name]).max() for name in one)


def norm(gradient):
    return float(np.sqrt(sum((g**2).sum() for g in gradient.values())))


def test_scaffold_of_one_client_is_sgd():
    data, training = {"A": rows_of(0)}, replace(WHOLE, batch_size=8)
    assert gap(scaffold_of(HEAD, training, data, 4).weights, fedavg_of(HEAD, training, data, 4)) < 1e-5


def test_scaffold_of_identical_clients_is_fedavg_of_sgd():
    data = dict.fromkeys("ABC", rows_of(0))
    assert gap(scaffold_of(LINEAR, WHOLE, data, 4).weights, fedavg_of(LINEAR, WHOLE, data, 4)) < 1e-5


def test_the_control_variate_after_one_step_is_the_clients_gradient():
    data, training = {"A": rows_of(0), "B": rows_of(1, -1)}, replace(WHOLE, local_epochs=1)
    before = scaffold_of(LINEAR, training, data, 2)
    after = fedllm_scaffold.one_round(LINEAR, training, before, data, coins_of(data))
    for client, rows in data.items():
        assert gap(after.own[client], gradient_of(LINEAR, before.weights, rows)) < 1e-5


def test_the_servers_control_variate_is_the_mean_of_the_clients():
    data = {"A": rows_of(0), "B": rows_of(1, -1), "C": rows_of(2, 1, 2)}
    state = scaffold_of(HEAD, replace(WHOLE, batch_size=8), data, 5)
    mean = {name: np.mean([own[name] for own in state.own.values()], 0) for name in state.server}
    assert gap(mean, state.server) < 1e-12
    assert norm(state.server) > 0.01


def test_scaffold_ends_at_the_optimum_of_all_rows_where_fedavg_drifts_off():
    data = {"A": rows_of(0, 1, -1), "B": rows_of(1, -1, 1)}
    training, everybody = replace(WHOLE, local_epochs=20), stacked(data)
    corrected = norm(gradient_of(LINEAR, scaffold_of(LINEAR, training, data, 100).weights, everybody))
    drifted = norm(gradient_of(LINEAR, fedavg_of(LINEAR, training, data, 100), everybody))
    assert corrected < 1e-4 < 1e-2 < drifted


@pytest.mark.parametrize("clients", [2, 3, 4, 5, 6])
def test_the_bipartition_is_the_best_of_all(clients):
    for seed in range(20):
        similarity = cosines(np.random.default_rng(seed).normal(size=(clients, 3)))

        def across(one, similarity=similarity):
            other = [i for i in range(clients) if i not in one]
            return similarity[np.ix_(list(one), other)].max()

        best = min(across(one) for size in range(1, clients) for one in combinations(range(clients), size))
        one, other = bipartition(similarity)
        assert sorted(one + other) == list(range(clients))
        assert across(one) == best


def clusters_of(data, rounds, spec=LINEAR, training=WHOLE):
    clusters, coins = [Cluster(tuple(data), initial_weights(spec, np.random.default_rng(9)))], coins_of(data)
    for _ in range(rounds):
        clusters = [c for old in clusters for c in fedllm_clustered.one_round(spec, training, old, data, coins)]
    return clusters


def test_clients_with_flipped_labels_get_a_model_of_their_own():
    data = {c: rows_of(i, slope, n=1000) for i, (c, slope) in enumerate(zip("ABCD", (1, -1, 1, -1), strict=True))}
    clusters = clusters_of(data, 40)
    assert sorted(c.clients for c in clusters) == [("A", "C"), ("B", "D")]
    slopes = {c.clients: c.weights["0.weight"][0, 0] for c in clusters}
    assert slopes["A", "C"] > 0.5
    assert slopes["B", "D"] < -0.5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_identical_clients_stay_together(optimizer):
    data = dict.fromkeys("ABCD", rows_of(0))
    training = replace(WHOLE, optimizer=optimizer, learning_rate=0.1)
    (cluster,) = clusters_of(data, 60, training=training)
    assert cluster.largest > 0
    assert gap(cluster.weights, fedavg_of(LINEAR, training, data, 60)) < 1e-5


@pytest.fixture(scope="module")
def task():
    return Task(divided(Options(), "fair", 3, 0.6, 0), fedllm_f1.QUICK, False, 0)


def same(one, other):
    return np.array_equal(one.confusion, other.confusion) and np.array_equal(one.scores, other.scores)


def test_clustered_learning_that_cuts_nothing_is_fedavg_to_the_last_bit(task):
    alone = METHODS["clustered"](task, "")
    assert alone.models == 1
    assert same(alone, METHODS["homogeneous"](task, ""))


def test_the_first_round_of_scaffold_is_fedavg_of_sgd(task):
    once = replace(task, training=replace(task.training, rounds=1))
    assert np.array_equal(METHODS["scaffold"](once, "").confusion, METHODS["fedavg-sgd"](once, "").confusion)
    begun = start(once)
    assert begun.weights["0.weight"].shape == (16, begun.spec.inputs)


def test_mutual_information_learning_without_penalty_and_choice_is_fedavg(task, monkeypatch):
    monkeypatch.setattr(fedllm_mutual, "PENALTY", 0.0)
    monkeypatch.setattr(fedllm_mutual, "TOP", 1.0)
    one, other = METHODS["mutual information"](task, ""), METHODS["homogeneous"](task, "")
    assert np.abs(one.confusion - other.confusion).max() <= 1  # other steps of Adam's arithmetic


def test_mutual_information_is_that_of_correlated_normal_outputs():
    data = Encoded(np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32), np.zeros(20_000, np.int64))

    def model(*slopes):
        return {"0.weight": np.array([slopes], np.float32), "0.bias": np.zeros(1, np.float32)}

    assert information(LINEAR, model(1, 0, 0), model(0, 1, 0), data) == pytest.approx(0, abs=1e-3)
    assert information(LINEAR, model(1, 1, 0), model(1, 0, 0), data) == pytest.approx(-np.log(0.5) / 2, rel=0.05)
    assert information(LINEAR, model(1, 1, 0), model(-1, 0, 0), data) == pytest.approx(-np.log(0.5) / 2, rel=0.05)
    assert information(LINEAR, model(1, 1, 0), model(0, 0, 0), data) == 0
    assert information(LINEAR, model(1, 1, 0), model(2, 2, 0), data) > 5


def test_the_penalty_moves_a_client_away_from_the_aggregated_model_and_the_nearest_is_left_out(monkeypatch):
    data, begun = {c: rows_of(i, slope=1 - i) for i, c in enumerate("ABC")}, initial_weights(LINEAR, coins_of("A")["A"])
    training = replace(WHOLE, learning_rate=0.05, local_epochs=20)
    moved = []
    for penalty in (0.0, 1.0):
        monkeypatch.setattr(fedllm_mutual, "PENALTY", penalty)
        own = fedllm_mutual.penalised(LINEAR, training, begun, data["A"], np.random.default_rng(0))
        moved.append(information(LINEAR, own, begun, data["A"]))
    assert moved[1] < moved[0]
    monkeypatch.setattr(fedllm_mutual, "PENALTY", 0.0)
    ended = {c: fedllm_mutual.penalised(LINEAR, training, begun, data[c], np.random.default_rng(0)) for c in data}
    shared = {c: information(LINEAR, ended[c], begun, data[c]) for c in data}
    left_out = max(shared, key=shared.get)
    mean = fedllm_mutual.one_round(LINEAR, training, begun, data, {c: np.random.default_rng(0) for c in data})
    expected = np.mean([ended[c]["0.weight"] for c in data if c != left_out], 0)
    np.testing.assert_allclose(mean["0.weight"], expected, atol=1e-6)


def test_the_trees_are_those_of_the_library_on_the_rows_of_all_parties(task):
    train, test = columns_of(task)
    rows, labels = (np.concatenate([getattr(e, part) for e in train.values()]) for part in ("rows", "labels"))
    library = HistGradientBoostingClassifier(
        learning_rate=0.3,
        max_iter=3,
        max_depth=6,
        max_leaf_nodes=None,
        min_samples_leaf=1,
        l2_regularization=1.0,
        early_stopping=False,
    ).fit(rows, labels)
    each = [counts_of(library.predict_proba(e.rows), e.labels) for e in test.values()]
    assert same(METHODS["fedxgboost"](task, ""), counted(*each))


def test_what_f1_may_mean_is_counted_as_by_hand():
    """Ten rows: four positive ones at 0.9, 0.4, 0.4 and 0.1, the others at 0.6 and five times 0.2."""
    positive = np.array([0.9, 0.4, 0.4, 0.1, 0.6, *5 * [0.2]])
    labels = np.array([1] * 4 + [0] * 6)
    found = fedllm_f1.scores(counted(counts_of(np.column_stack([1 - positive, positive]), labels)))
    assert found == pytest.approx(
        {
            "f1": 2 / 6,
            "f1, best threshold": 6 / 8,  # from 0.4 on: three right, one wrong, one missed
            "weighted f1": (0.6 * 10 + 0.4 * 2 / 6 * 14) / 14,
            "macro f1": (10 / 14 + 2 / 6) / 2,
            "accuracy": 0.6,
            "weighted f1, all no": 0.6 * 12 / 16,
            "accuracy, all no": 0.6,
        }
    )


def test_nothing_found_is_an_f1_of_zero():
    nothing = fedllm_f1.scores(HeldOut(np.array([[5, 0], [3, 0]]), np.zeros((2, 2, 10), np.int64), ()))
    assert nothing["f1"] == nothing["f1, best threshold"] == 0
    assert nothing["weighted f1"] == nothing["weighted f1, all no"]


@pytest.mark.slow
def test_quick_rows_have_f1_of_every_method_and_of_nothing_else():
    rows = list(fedllm_f1.run(Options(quick=True, jobs=1)))
    assert {r.setting["method"].partition(",")[0] for r in rows} == set(METHODS)
    assert {r.metric for r in rows} >= {"f1", "f1, best threshold", "weighted f1", "macro f1", "accuracy", "models"}
    assert all(0 <= r.measured <= 1 for r in rows)
    assert all(r.published is None for r in rows)  # the paper has no figures of that table


def test_every_method_of_the_papers_tables_is_measured():
    for table in (*fedllm_f1.PUBLISHED_F1.values(), fedllm_f1.STRESS):
        assert set(table) <= set(METHODS)
    assert set(METHODS) - set(fedllm_f1.PUBLISHED_F1["framingham"]) == set(fedllm_f1.CONTROLS)
    assert {label.partition(",")[0] for label in fedllm_overlap.LABELS} == set(fedllm_f1.STRESS)


def test_a_published_figure_stands_beside_its_own_cell_only():
    assert fedllm_f1.published("framingham", "scaffold", 5, 0.5, "all") == 0.63
    assert fedllm_f1.published("bank_churn", "fedllm-align, random", 3, 0.6, "all") == 0.80
    assert fedllm_f1.published("framingham", "fedxgboost", 3, 0.6, "common") == 0.18
    assert fedllm_f1.published("bank_churn", "fedxgboost", 3, 0.6, "common") is None
    assert fedllm_f1.published("fair", "scaffold", 5, 0.5, "all") is None


def test_the_page_has_published_and_measured_figures_in_one_cell():
    def row(method, clients, metric, measured, published=None):
        setting = {"method": method, "clients": clients, "overlap": 0.6, "features": "all"}
        return Row("fedllm_f1", "framingham", setting, metric, measured, measured - 0.01, None, published, "", 5)

    metrics = {"f1": 0.14, "f1, best threshold": 0.39, "weighted f1": 0.8}
    rows = [replace(row("scaffold", 3, m, v, 0.68 if m == "f1" else None), high=v + 0.01) for m, v in metrics.items()]
    rows.append(row("scaffold", 5, "f1", 0.1))  # interrupted
    head, _, line = base.markdown("fedllm_f1", rows).splitlines()
    assert head == "| framingham | 3 clients, overlap 60 % | 5 clients, overlap 60 % |"
    assert line == "| scaffold | 0.68; 0.14 (0.13 to 0.15); 0.39 (0.38 to 0.40); 0.80 (0.79 to 0.81) | – |"


@pytest.mark.slow
def test_encoders_and_formats_are_measured_beside_the_papers():
    rows = {r.metric: r for r in fedllm_text.run(Options(quick=True, jobs=1))}
    assert 0 < rows["embedding variance"].measured < 1
    assert rows["memory"].measured > 0
    assert rows["ms per record"].measured > 0
    assert {"f1", "f1, best threshold", "weighted f1"} <= set(rows)
    assert all(r.published is None for r in rows.values())  # of that table


def test_the_variance_of_embeddings_is_that_of_their_directions():
    assert fedllm_text.variance(np.float32([[1, 1], [2, 2]])) == pytest.approx(0, abs=1e-12)
    assert fedllm_text.variance(np.float32([[3, 0], [-1, 0]])) == pytest.approx(1)
