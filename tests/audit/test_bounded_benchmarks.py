from pathlib import Path

import numpy as np
import pytest
import torch

from leakledger.audit.benchmarks import dp_sgd, tightness
from leakledger.audit.benchmarks.base import Options, find, kept
from leakledger.audit.benchmarks.base import markdown as table
from leakledger.audit.benchmarks.dp_sgd import beside
from leakledger.audit.benchmarks.tightness import expected_of_simplex, identified, markdown, measured, simplex
from leakledger.audit.records import Trial
from leakledger.defenses.accounting.reconstruction import gaussian_success

ROOT = Path(__file__).parents[2]


def test_corners_of_a_simplex_have_norm_one_and_are_as_far_apart_as_can_be():
    products = simplex(10)
    distances = np.sqrt(np.diag(products)[:, None] + np.diag(products)[None] - 2 * products)
    assert np.diag(products) == pytest.approx(np.ones(10))
    assert distances[~np.eye(10, dtype=bool)] == pytest.approx(np.full(90, np.sqrt(2 * 10 / 9)))  # Rankin 1955
    assert simplex(2) == pytest.approx(np.array([[1, -1], [-1, 1]]))


def test_of_two_antipodes_the_best_adversary_meets_the_bound():
    for multiplier in (0.25, 1.0, 4.0):
        assert expected_of_simplex(2, multiplier) == pytest.approx(gaussian_success(0.5, 1 / multiplier), rel=1e-6)


@pytest.mark.parametrize("k", tightness.CANDIDATES)
@pytest.mark.parametrize("multiplier", tightness.MULTIPLIERS)
def test_the_bound_is_at_most_a_quarter_above_the_best_adversary_of_the_farthest_candidates(k, multiplier):
    expected = expected_of_simplex(k, multiplier)
    assert 1 - 1e-6 <= gaussian_success(1 / k, 1 / multiplier) / expected <= 1.25
    trials = 10_000
    hits = identified(simplex(k), k, multiplier, trials, np.random.default_rng(k))
    assert hits / trials == pytest.approx(expected, abs=5 * (0.25 / trials) ** 0.5)


def test_candidates_that_are_alike_are_told_apart_by_luck_alone():
    hits = identified(np.ones((50, 50)), 10, 1.0, 4_000, np.random.default_rng(0))
    assert hits / 4_000 == pytest.approx(0.1, abs=5 * (0.09 / 4_000) ** 0.5)


def test_inner_products_find_what_vectors_with_noise_find():
    coins, k, trials = np.random.default_rng(1), 6, 20_000
    vectors = coins.normal(size=(k, 3)) / 2
    true = coins.integers(k, size=trials)
    seen = vectors[true] + 0.7 * coins.standard_normal((trials, 3))
    by_vectors = (((seen[:, None] - vectors) ** 2).sum(-1).argmin(1) == true).mean()
    by_products = identified(vectors @ vectors.T, k, 0.7, trials, coins) / trials
    assert by_products == pytest.approx(by_vectors, abs=5 * (0.5 / trials) ** 0.5)


def test_tightness_has_a_line_for_each_kind_of_candidates_and_says_what_is_above():
    rows = list(measured("farthest", simplex(10), 10, 1.0, 1_000, np.random.default_rng(0)))
    assert {r.metric for r in rows} == {"identified", "bound", "bound over measured", "expected"}
    assert "| farthest | 10 | 1 |" in markdown(rows)
    assert find("tightness") is tightness.run


def test_products_of_rows_are_those_of_gradients_clipped_to_one():
    products = tightness.products_of_rows(Options(), "fair")
    assert np.diag(products).max() <= 1 + 1e-9
    assert torch.linalg.eigvalsh(torch.tensor(products)).min() > -1e-8


@pytest.mark.slow
def test_what_is_got_under_dp_sgd_stands_beside_a_bound_that_holds(monkeypatch):
    monkeypatch.setattr(dp_sgd, "QUICK_SIZES", (1,))
    assert find("dp_sgd") is dp_sgd.run
    rows = list(dp_sgd.run(Options(quick=True, seeds=1, jobs=1)))
    by = {(r.setting["noise multiplier"], r.metric): r.measured for r in rows}
    assert by[1.0, "exact_rows, bound"] < by[0.1, "exact_rows, bound"]
    assert by[0.1, "accuracy"] > by[1.0, "accuracy"]
    assert not any(r.measured for r in rows if r.metric.endswith("above the bound"))
    assert dp_sgd.markdown(rows).count("\n") == 3


@pytest.mark.parametrize("batches", [2, 4])
@pytest.mark.parametrize("bound", [0.1, 0.36, 0.6])
def test_figures_are_held_against_a_bound_where_an_attack_that_gets_everything_would_be_above(batches, bound):
    trial = Trial("posterior", ("server",), "records", "exact_rows", "P1", 0, "scored", 1.0, 0.0, bound=bound)
    above = [
        r.measured
        for r in beside("fair", {}, "exact_rows", [(0, trial)] * batches)
        if r.metric.endswith("above the bound")
    ]
    assert above == ([100.0] if bound < {2: 0.33, 4: 0.40}[batches] else [])


@pytest.mark.parametrize(
    ("name", "file", "page"),
    [("tightness", "tightness-adult", "differential-privacy"), ("dp_sgd", "dp-sgd", "defended-updates")],
)
def test_tables_of_the_docs_are_those_of_the_kept_results(name, file, page):
    rows = kept(ROOT / "benchmarks" / "results" / f"{file}.json", name)
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert table(name, rows) in text


def test_no_kept_figure_under_dp_sgd_is_above_its_bound():
    rows = kept(ROOT / "benchmarks" / "results" / "dp-sgd.json", "dp_sgd")
    assert any(r.metric.endswith("above the bound") for r in rows)
    assert not any(r.measured for r in rows if r.metric.endswith("above the bound"))
