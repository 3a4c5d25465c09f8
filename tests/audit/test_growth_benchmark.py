import json
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.audit.benchmarks import encoders_cost, growth
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.cli import main
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.encoders import ENCODERS


def test_made_up_parties_hold_half_of_the_values_each_and_not_the_same_half():
    tables = growth.made_up(5, 40, 1)
    held = [frozenset(t.values("feature 0")) for t in tables.values()]
    assert {len(values) for values in held} == {20}
    assert len(set(held)) > 1
    assert len(frozenset().union(*held)) <= 40


def test_the_series_reach_twenty_parties_and_five_thousand_values():
    assert (max(growth.PARTIES), max(growth.VALUES)) == (20, 5_000)
    assert min(growth.PARTIES) == 4


@pytest.fixture
def short(monkeypatch):
    """Two steps of one run each."""
    pytest.importorskip("tenseal.sealapi")
    monkeypatch.setattr(growth, "PARTIES", (3,))
    monkeypatch.setattr(growth, "VALUES", (4,))
    monkeypatch.setattr(encoders_cost, "REPEATS", 1)


def test_every_encoder_is_measured_at_every_step_of_both_series(short):
    rows = list(growth.run(Options()))
    steps = Counter((r.setting["series"], r.setting["encoder"], r.metric) for r in rows)
    assert steps == {
        (series, encoder, metric): 1
        for series in ("parties", "values")
        for encoder in ENCODERS
        for metric in ("messages", "bytes", "time")
    }
    assert {(r.benchmark, r.dataset) for r in rows} == {("growth", "made up")}


def test_a_named_table_takes_the_place_of_the_made_up_one_where_parties_grow(short):
    rows = list(growth.run(Options(data=("fair",))))
    assert {(r.dataset, r.setting["series"]) for r in rows} == {("fair", "parties"), ("made up", "values")}
    tables = partition(encoders_cost.read_whole(Options(), "fair"), "divergent", 3, np.random.default_rng(0))
    fed, _ = encoders_cost.encode("pooled", tables)
    pooled = [r.measured for r in rows if r.dataset == "fair" and r.setting["encoder"] == "pooled"]
    assert pooled[:2] == [len(fed.ledger), sum(m.size for m in fed.ledger) / 1000]


def test_the_command_draws_what_it_measures_and_what_was_kept(short, tmp_path):
    saved, plot, again = (tmp_path / name for name in ("growth.json", "growth.svg", "again.svg"))
    first = CliRunner().invoke(main, ["benchmark", "growth", "--save", str(saved), "--plot", str(plot)])
    assert first.exit_code == 0, first.output
    assert CliRunner().invoke(main, ["benchmark", "growth", "--save", str(saved), "--plot", str(plot)]).exit_code == 0
    second = CliRunner().invoke(main, ["benchmark", "growth", "--kept", str(saved), "--plot", str(again)])
    assert second.exit_code == 0, second.output
    assert plot.read_bytes() == again.read_bytes()
    assert json.loads(saved.read_text())["date"].encode() in plot.read_bytes()


def test_another_benchmark_is_not_drawn(tmp_path):
    plot = tmp_path / "plot.svg"
    result = CliRunner().invoke(main, ["benchmark", "exact", "--plot", str(plot)])
    assert result.exit_code != 0
    assert "--plot draws the benchmarks growth and dp_sgd, not exact" in result.output
    assert not plot.exists()
