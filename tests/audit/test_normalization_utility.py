"""The comparison of table II counts what it says it does."""

from dataclasses import replace

import pytest

from leakledger.audit.benchmarks import normalization_utility as benchmark
from leakledger.audit.benchmarks.base import Options


def found(**runs):
    """Runs by name: the F1 of federated and of local scaling, for each seed."""
    values = {}
    for clients, (federated, local) in enumerate(runs.values()):
        for seed, (f, o) in enumerate(zip(federated, local, strict=True)):
            values["iid", clients, "federated-zscore", seed] = f
            values["iid", clients, "local-zscore", seed] = o
    return values


def told(metric, **runs):
    return {r.metric: r.measured for r in benchmark.compared("breast_cancer", metric, found(**runs))}


def test_a_run_is_a_mean_over_seeds_and_a_small_difference_a_tie():
    runs = {
        "won": ([0.9, 0.7], [0.8, 0.7]),  # by 0.05 on average
        "lost": ([0.5], [0.6]),
        "tied": ([0.804], [0.800]),
    }
    assert told("f1", **runs) == {
        "federated wins": 1,
        "local wins": 1,
        "ties": 1,
        "mean gain where federated wins": pytest.approx(0.05),
    }


def test_runs_of_r2_in_which_neither_learns_anything_do_not_count():
    counted = told("r2", both_fail=([-0.2], [-0.9]), one_works=([0.3], [-0.1]))
    assert (counted["federated wins"], counted["local wins"], counted["ties"]) == (1, 0, 0)


def test_every_scaling_is_trained_on_the_same_division_and_the_published_figures_stand_beside(monkeypatch):
    monkeypatch.setattr(benchmark, "SCALED", (benchmark.BASELINE, "local-minmax", "federated-minmax"))
    monkeypatch.setattr(benchmark, "PARTIES", (3,))
    monkeypatch.setattr(benchmark, "TRAINING", replace(benchmark.TRAINING, rounds=3))
    rows = list(benchmark.run(Options(quick=True, seeds=1, jobs=1)))
    assert {(r.setting["division"], r.setting["scaler"]) for r in rows if r.metric == "f1"} == {
        (d, s) for d in ("iid", "features 0.7") for s in benchmark.SCALED
    }
    last = {r.metric: r for r in rows[-4:]}
    assert last["federated wins"].published == 71
    assert sum(last[m].measured for m in ("federated wins", "local wins", "ties")) == 2


def test_rows_that_do_not_go_round_make_no_run():
    table = benchmark.read_whole(Options(), "breast_cancer")
    cell = benchmark.Cell(table.rows(range(20)), "labels 0.5", 30, benchmark.BASELINE, 0)
    assert benchmark.measured(cell) == (cell, None)


def test_activation_norms_train_the_network_that_they_name_on_columns_as_they_are(monkeypatch):
    monkeypatch.setattr(benchmark, "TRAINING", replace(benchmark.TRAINING, rounds=1))
    specs, table = [], benchmark.read_whole(Options(), "breast_cancer")
    train = benchmark.train

    def seen(fed, algorithm, spec, *rest):
        specs.append(spec)
        return train(fed, algorithm, spec, *rest)

    monkeypatch.setattr(benchmark, "train", seen)
    for scaler in (benchmark.BASELINE, *benchmark.NORMS):
        assert benchmark.measured(benchmark.Cell(table, "iid", 3, scaler, 0))[1] is not None
    assert [s.norm for s in specs] == ["none", "batch", "layer", "group", "instance"]
    assert benchmark.scaler_of("batch norm") == benchmark.scaler_of(benchmark.BASELINE)
