import pytest

from leakledger.audit.benchmarks import crowded, defended, defended_other
from leakledger.audit.benchmarks.base import Options, find
from leakledger.audit.benchmarks.defended import deciles, run


def test_deciles_count_right_cells_by_what_was_said_of_them():
    said = [(0.95, True, True), (0.91, False, True), (1.0, True, True), (0.35, False, False)]
    rows = {r.metric: r for r in deciles("fair", {"B": 1}, said)}
    assert rows["categories said 0.9"].measured == pytest.approx(200 / 3)
    assert rows["categories said 0.9"].note == "3 cells"
    assert rows["numbers said 0.3"].measured == 0
    assert len(rows) == 2


@pytest.mark.slow
def test_each_attack_the_prior_and_the_diagnostic_stand_beside_each_other(monkeypatch):
    monkeypatch.setattr(defended, "QUICK", {2: (1e-3,)})
    assert find("defended") is run
    rows = list(run(Options(quick=True, seeds=1, jobs=1)))
    by = {(r.setting["attack"], r.metric): r.measured for r in rows}
    assert by["posterior", "accuracy"] >= 90
    assert by["from the truth", "accuracy"] >= 90
    assert by["prior only", "accuracy"] < by["posterior", "accuracy"]
    assert ("tableak", "accuracy") in by
    assert any(metric.startswith("categories said") for _, metric in by)


@pytest.mark.slow
@pytest.mark.parametrize("defense", ["half pruned", "noise 0.003, sum of 2 clients"])
def test_other_defenses_are_measured_with_what_is_known_of_them(monkeypatch, defense):
    monkeypatch.setattr(defended_other, "ROWS", 2)
    monkeypatch.setattr(defended_other, "OF_A_SUM", 1)
    monkeypatch.setattr(defended_other, "QUICK", (defense,))
    rows = list(defended_other.run(Options(quick=True, seeds=1, jobs=1)))
    assert {r.setting["attack"] for r in rows} == {"posterior", "tableak", "prior only"}
    assert {r.setting["defense"] for r in rows} == {defense}
    (accuracy,) = (r.measured for r in rows if r.setting["attack"] == "posterior" and r.metric == "accuracy")
    assert accuracy > 70


@pytest.mark.slow
def test_crowded_batches_are_measured_by_the_portfolio_beside_tableak_and_the_prior(monkeypatch):
    monkeypatch.setattr(crowded, "QUICK", (3,))
    rows = list(find("crowded")(Options(quick=True, seeds=1, jobs=1)))
    assert {r.setting["attack"] for r in rows} == {"portfolio", "tableak", "prior only"}
    assert {r.setting["B"] for r in rows} == {3}
    by = {(r.setting["attack"], r.metric): r.measured for r in rows}
    assert by["portfolio", "accuracy"] == 100  # few rows, which exact attacks solve
    assert by["prior only", "accuracy"] < 100
