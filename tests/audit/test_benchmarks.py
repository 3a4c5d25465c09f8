import json

import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.attacks import ATTACKS
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.audit.benchmarks import coalitions, engine, tableak, tableak_figures
from leakledger.audit.benchmarks.base import BENCHMARKS, Options, Row, find, save
from leakledger.audit.benchmarks.tableak import measure
from leakledger.audit.cli import main
from leakledger.preprocess.views import ModelSpec

FIELDS = {"benchmark", "dataset", "setting", "metric", "measured", "low", "high", "published", "unit", "n"}


@pytest.fixture
def brief(monkeypatch):
    """The benchmark's attack with a fifth of its restarts and of their steps, which are enough for two rows."""
    for name, value in {"restarts": 6, "iterations": 300}.items():
        monkeypatch.setitem(tableak.ATTACKS["default"], name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_the_tableak_benchmark_measures_every_client_of_every_seed_beside_the_published_figure():
    rows = list(measure(Options(jobs=1), "breast_cancer", "published", "recovered", 2, seeds=2))
    accuracy = next(r for r in rows if r.metric == "accuracy")
    assert accuracy.n == 8
    assert accuracy.published is None  # no figure of the paper belongs to this table
    assert accuracy.low <= accuracy.measured <= accuracy.high
    assert accuracy.measured > next(r for r in rows if r.metric == "accuracy, prior only").measured


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_curves_of_the_tableak_paper_have_noise_networks_and_errors_of_numbers(monkeypatch):
    monkeypatch.setattr(tableak_figures, "QUICK_SIZES", (2,))
    rows = list(find("tableak_figures")(Options(quick=True, seeds=1, jobs=1)))
    by = {(r.setting.get("sigma"), r.metric): r for r in rows}
    assert {r.setting["figure"] for r in rows} == {"noise", "network"}
    assert by[0.0, "accuracy"].measured > 90 > by[0.1, "accuracy"].measured
    assert by[0.0, "rmse"].measured < 0.3 < by[0.1, "rmse"].measured
    assert by[0.1, "rmse, prior only"].unit == "σ"
    assert by[0.0, "accuracy"].n == 4
    assert by[0.1, "accuracy, standard deviation"].measured > 0
    assert next(r for r in rows if r.setting["figure"] == "network").setting["hidden"] == [50]


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_quick_json_rows_have_the_documented_fields():
    result = CliRunner().invoke(main, ["benchmark", "tableak", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert all(row.keys() - {"note"} == FIELDS for row in rows)
    assert {row["setting"]["B"] for row in rows} == {8, 16}


def test_every_registered_benchmark_can_be_found():
    assert all(callable(find(name)) for name in BENCHMARKS)


def test_an_interrupted_benchmark_keeps_the_rows_that_it_has_measured(tmp_path, monkeypatch):
    def broken(options):
        yield Row("tableak", "survey", {"B": 1}, "accuracy", 90.0, None, None, None, "%", 1)
        raise KeyboardInterrupt

    monkeypatch.setattr("leakledger.audit.benchmarks.tableak.run", broken)
    path = tmp_path / "rows.json"
    assert CliRunner().invoke(main, ["benchmark", "tableak", "--save", str(path)]).exit_code != 0
    assert [row["measured"] for row in json.loads(path.read_text())["rows"]] == [90.0]


def test_kept_rows_are_not_saved_again_and_that_is_said(tmp_path):
    result = CliRunner().invoke(
        main, ["benchmark", "tableak", "--kept", str(tmp_path / "a"), "--save", str(tmp_path / "b")]
    )
    assert result.exit_code == 2
    assert "leakledger: --save keeps what is measured, and with --kept nothing is" in result.stderr


@pytest.mark.parametrize(("kept", "said"), [("growth", "rows of growth, not"), ("g\rowth", r"rows of 'g\rowth', not")])
def test_kept_rows_of_another_benchmark_are_refused_in_one_line(tmp_path, kept, said):
    path = tmp_path / "rows.json"
    save(path, "", [Row(kept, "survey", {}, "messages", 8.0, None, None, None, "", 1)])
    result = CliRunner().invoke(main, ["benchmark", "tableak", "--kept", str(path)])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize("option", ["--save", "--plot"])
def test_a_benchmark_ends_before_it_measures_where_its_file_holds_something_else(tmp_path, monkeypatch, option):
    monkeypatch.setattr("leakledger.audit.benchmarks.growth.run", lambda options: pytest.fail("was begun"))
    path = tmp_path / "patients.csv"
    path.write_text("age,readmitted\n30,yes\n")
    for data, why in (((), "holds something else"), (("--data", str(path)), "for something else too")):
        result = CliRunner().invoke(main, ["benchmark", "growth", *data, option, str(path)])
        assert result.exit_code == 2, result.output
        assert f"{path}: is" in result.stderr
        assert why in result.stderr
    assert path.read_text() == "age,readmitted\n30,yes\n"


def test_the_plain_optimisation_that_the_engine_is_measured_against_finds_the_same_rows():
    bench = engine.bench(Options(), "breast_cancer", 2)
    prior = StructuralPrior(bench.layout, bench.knowledge.bounds)
    victim = bench.victims[0]
    claim = bench.attack(60, 2, (victim,), pooling=False)
    rows = engine.Plain(bench.spec, prior, bench.update(victim)).best(range(2), 60)
    assert np.array_equal(claim.categories, rows.categories)
    assert np.allclose(claim.numbers, rows.numbers, rtol=1e-3, atol=1e-3 * prior.deviation)


def test_a_column_of_the_published_table_is_measured_with_its_seconds(monkeypatch):
    monkeypatch.setattr(engine, "BATCHES", 2)
    monkeypatch.setattr(engine, "PUBLISHED", {"known": {"adult": {1: 99.4, 2: 99.2}}})
    monkeypatch.setattr(engine, "AS_PUBLISHED", {**engine.AS_PUBLISHED, "iterations": 60, "restarts": 3})
    rows = list(engine.column(Options(), "breast_cancer", "cpu"))
    seconds = [r.measured for r in rows if r.metric == "seconds for all batches"]
    assert len(seconds) == 2
    assert rows[-1].metric == "seconds for the column"
    assert rows[-1].measured == pytest.approx(sum(seconds))
    accuracy = {r.setting["B"]: r for r in rows if r.metric == "accuracy"}
    assert [r.n for r in accuracy.values()] == [2, 2]
    assert accuracy[1].measured > 0
    assert accuracy[1].published is None  # no figure of the paper belongs to this table


def test_an_accelerator_is_measured_like_the_processor(monkeypatch):
    monkeypatch.setattr(engine, "ITERATIONS", 2)
    monkeypatch.setattr(engine, "LARGE_THERE", 256)
    rows = {r.metric: r for r in engine.accelerated(Options(quick=True), "breast_cancer", 2, "cpu")}
    assert rows["ms per iteration"].measured > 0
    assert 0 < rows["share of peak arithmetic"].measured < 100


def test_the_arithmetic_of_one_small_layer_is_that_counted_by_hand():
    """One row, 10 inputs, 2 outputs: four products of 40 operations, two Gram matrices of 1 x 1 for 12 columns."""
    assert engine.operations_per_iteration(ModelSpec(10, 2, ()), 1) == 4 * 40 + 2 * 2 * 12


def test_the_benchmark_of_coalitions_plays_every_attack_on_what_encoders_and_scalers_send():
    on_transcripts = {name for name, attack in ATTACKS.items() if ".transcript." in attack.__module__}
    assert set(coalitions.TECHNIQUES) == on_transcripts - {"feature_exchange"}  # which is of vertical federations


def test_the_benchmark_of_coalitions_has_the_time_of_the_views_of_each_attack_and_of_all():
    setting = {"encoder": "uhe", "route": "relay"}
    rows = list(coalitions.measure(Options(jobs=1), 4, 4, setting))
    attacks = [r.setting["attack"] for r in rows]
    assert attacks == ["views", *coalitions.TECHNIQUES, "all", "all"]
    assert all(r.setting["observer sets"] == 1 + 4 + 6 + 4 for r in rows)
    assert all(r.measured > 0 and r.published is None for r in rows)
    assert sum(r.measured for r in rows[:-2]) == pytest.approx(rows[-2].measured)
    notes = dict(zip(attacks, (r.note for r in rows), strict=True))
    assert notes["statistics"] == "15 sets make claims"


def test_the_made_up_parties_differ_and_have_both_kinds_of_features():
    tables = coalitions.made_up(5, 7)
    schema = tables["P1"].schema
    assert (len(schema.numeric), len(schema.categorical)) == (3, 4)
    assert len({len(t) for t in tables.values()}) > 1
    assert len({frozenset(t.values("word 0")) for t in tables.values()}) > 1
