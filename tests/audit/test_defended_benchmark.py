import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.attacks.gradient.posterior import tempering
from leakledger.audit.benchmarks import crowded, defended, defended_other, tableak
from leakledger.audit.benchmarks.base import Options, find
from leakledger.audit.benchmarks.defended import CellSaid, deciles, run, share_right
from leakledger.audit.command_benchmark import benchmark
from leakledger.audit.tables import benchmark_command


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """TabLeak with few steps: here it only stands beside the others."""
    for name, value in {"restarts": 3, "iterations": 60}.items():
        monkeypatch.setitem(tableak.ATTACKS["default"], name, value)


def test_deciles_count_right_cells_by_what_was_said_of_them():
    one = [CellSaid(0.95, True, True), CellSaid(0.91, False, True), CellSaid(0.35, False, False)]
    rows = {r.metric: r for r in deciles("defended", "fair", {"B": 1}, [one, [CellSaid(1.0, True, True)], []])}
    assert rows["categories said 0.9"].measured == pytest.approx(200 / 3)
    assert rows["categories said 0.9"].note == "3 cells of 2 batches, said 95.3 % on average"
    assert rows["numbers said 0.3"].measured == 0
    assert len(rows) == 2


def test_a_share_of_cells_has_batches_as_clusters():
    rng = np.random.default_rng(0)
    covered, one_by_one = 0, 0
    for _ in range(1000):
        cells = rng.integers(5, 15, 20)
        right = np.where(rng.random(20) < 0.7, cells, 0)  # a batch is right as a whole, or wrong
        share, low, high = share_right(right, cells)
        covered += low <= 70 <= high
        half = 196 * np.sqrt(share / 100 * (1 - share / 100) / cells.sum())
        one_by_one += abs(share - 70) <= half
    assert 0.92 < covered / 1000 < 0.97
    assert one_by_one / 1000 < 0.6  # as if cells were right or wrong each for itself


def test_a_share_of_one_batch_has_no_interval():
    assert share_right([3], [4]) == (75.0, None, None)
    assert share_right([3, 3], [3, 3]) == (100.0, 100.0, 100.0)


def test_only_the_settings_that_are_asked_for_are_measured():
    only = Options(only=("B=8", "B=32", "sigma=0.01"))
    assert only.wants(B=32, sigma=0.01)
    assert not only.wants(B=32, sigma=0.001)
    assert not only.wants(B=1, sigma=0.01)
    assert Options().wants(B=1, sigma=0.01)


@pytest.mark.parametrize(
    ("name", "part", "told"),
    [
        ("exact", "B=8", "exact measures all of its settings"),
        ("defended", "rows=8", "write one of B=..., sigma=..., attack=..."),
        ("defended", "B", "write one of B=..., sigma=..., attack=..."),
        ("defended", "B=7", "no setting is like that: --only B=7"),
        ("defended_other", "defense=halved", "no such line; there are 'defense=rows clipped at 0.5, noise 0.003', "),
    ],
)
def test_a_setting_that_cannot_be_kept_to_is_bad_input(name, part, told):
    done = CliRunner().invoke(benchmark, [name, "--only", part])
    assert done.exit_code == 2
    assert told in done.stderr


def test_settings_that_were_kept_to_are_part_of_the_command():
    told = benchmark_command("defended", ["tables/adult.csv.gz"], False, 5, "cpu", ["B=32"])
    assert told == "leakledger benchmark defended --data=adult.csv.gz --seeds=5 --only=B=32"


@pytest.mark.slow
def test_each_attack_the_prior_and_the_diagnostic_stand_beside_each_other(monkeypatch):
    monkeypatch.setattr(defended, "QUICK", {2: (1e-3,)})
    assert find("defended") is run
    rows = list(run(Options(quick=True, seeds=1, jobs=1)))
    by = {(r.setting["attack"], r.metric): r.measured for r in rows}
    assert by["posterior", "accuracy"] >= 90
    assert by["from the truth", "accuracy"] >= 90
    assert by["prior only", "accuracy"] < by["posterior", "accuracy"]
    assert 0 < by["without the update", "accuracy"] < by["posterior", "accuracy"]
    assert ("tableak", "accuracy") in by
    assert any(metric.startswith("categories said") for _, metric in by)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["without the update", "from the truth"])
def test_one_attack_is_measured_alone(monkeypatch, attack):
    monkeypatch.setattr(defended, "QUICK", {2: (1e-3,)})
    rows = list(run(Options(quick=True, seeds=1, jobs=1, only=(f"attack={attack}",))))
    beside = set() if attack == "from the truth" else {"prior only"}  # whose figures are part of any score
    assert {r.setting["attack"] for r in rows} == {attack} | beside


@pytest.mark.slow
@pytest.mark.parametrize(
    "defense",
    [
        "half pruned",
        "noise 0.003, sum of 2 clients",
        "noise 0.0003, 5 local epochs",
        "noise 0.05, the same rows in 4 rounds",
    ],
)
def test_other_defenses_are_measured_with_what_is_known_of_them(monkeypatch, defense):
    monkeypatch.setattr(defended_other, "ROWS", 2)
    monkeypatch.setattr(defended_other, "OF_A_SUM", 1)
    monkeypatch.setattr(defended_other, "QUICK", (defense,))
    rows = list(defended_other.run(Options(quick=True, seeds=1, jobs=1)))
    inversion = "tableak_fedavg" if "epochs" in defense else "tableak"
    assert {r.setting["attack"] for r in rows} == {"posterior", inversion, "without the update", "prior only"}
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


@pytest.mark.slow
def test_chains_from_the_truth_are_measured_with_more_and_more_sweeps_before(monkeypatch):
    burnt = []

    def sampled(chains, before, sweeps):
        burnt.append(before)
        return tempering.sampled(chains, 1, 4)

    monkeypatch.setattr(defended, "sampled", sampled)
    rows = list(find("mixing")(Options(quick=True, seeds=1, jobs=1)))
    assert burnt == [8] * 4 + [32] * 4
    assert [r.setting["burnt"] for r in rows if r.metric == "accuracy"] == [8, 32]
    assert {r.setting["attack"] for r in rows} == {"from the truth"}
    assert {r.metric.split()[0] for r in rows if " said " in r.metric} == {"categories", "numbers"}
