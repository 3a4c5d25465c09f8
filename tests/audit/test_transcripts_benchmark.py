import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from leakledger.audit.benchmarks import transcripts
from leakledger.audit.benchmarks.base import Options, Row, kept, plain_table, save
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.benchmarks.transcripts import NOTHING, ROWS, measure, methods, run, settings
from leakledger.audit.benchmarks.transcripts_tables import entry, markdown
from leakledger.audit.cli import main
from leakledger.preprocess.encoders import ENCODERS
from tests.preprocess.registered import IN_THE_CLEAR


def row(metric="values", measured=1.0, low=1.0, high=1.0, n=15, note="", **setting):
    where = {"encoder": "uhe", "scaler": "local", "adversary": "server", "of": 15, **setting}
    where = {**where, "encoder said": f"account of {where['encoder']}", "scaler said": f"account of {where['scaler']}"}
    return Row("transcripts", "survey", where, metric, measured, low, high, None, "advantage", n, note)


def test_assets_with_the_same_entry_share_it_the_surest_first():
    rows = [row("sizes", 0.5, 0.25, 0.75), row("values"), row("counts")]
    assert entry(rows) == "values, counts 1.00; sizes 0.50 (0.25 to 0.75)"


def test_an_interval_that_holds_0_shows_nothing_and_a_claim_about_some_parties_says_how_many():
    assert entry([row(measured=0.2, low=-0.1, high=0.5)]) == "values not shown"
    assert entry([row(n=3)]) == "values 1.00 [3/15]"
    assert entry([row(measured=0.7, low=None, high=None, n=1)]) == "values 0.70 [1/15]"


def test_what_is_proven_says_so_however_few_the_clusters_are():
    assert (
        entry([row("records", low=-0.1, n=3, of=3, proven=3), row(low=-0.1)]) == "records 1.00 proven; values not shown"
    )
    assert entry([row(measured=0.4, low=-0.2, high=0.9, proven=4)]) == "values 0.40 (-0.20 to 0.90) proven"
    assert (
        entry([row("sizes", 0.9, 0.8, 1.0), row(low=-0.1, proven=15)])
        == "values 1.00 proven; sizes 0.90 (0.80 to 1.00)"
    )


def test_what_an_attack_gets_whose_control_failed_is_said_to_be_so():
    assert entry([row(n=3, note="a control of this attack failed")]) == "values 1.00 [3/15], a control failed"


def test_no_claim_is_a_dash_and_an_asset_that_the_prior_knows_says_so():
    assert entry([]) == entry([row(NOTHING, 0.0, None, None, 0)]) == "–"
    assert entry([row("minima", 0.0, None, None, note="the prior alone is right")]) == "minima known to the prior"


def test_each_table_has_the_methods_of_one_part_with_their_account_and_a_column_per_adversary():
    rows = [
        row(encoder="uhe"),
        row(encoder="target"),
        row(encoder="target", adversary="one client"),
        row(encoder="target", scaler="zscore-sac (route sealed)"),
        row(
            "count bounds", 2.5, 2.0, 3.0, encoder="target", scaler="zscore-sac (route sealed)", adversary="one client"
        ),
    ]
    encoders, scalers = markdown(rows).split("\n\nScalers")
    assert encoders.splitlines()[2:] == [
        "| encoder | said to share | server | one client |",
        "| --- | --- | --- | --- |",
        "| `uhe` | account of uhe | values 1.00 | – |",
        "| `target` | account of target | values 1.00 | values 1.00 |",
    ]
    assert scalers.splitlines()[-1] == (
        "| `zscore-sac` (route sealed) | account of zscore-sac (route sealed) | values 1.00 "
        "| counts within a factor of 2.5 |"
    )


def test_every_encoder_and_scaler_is_measured_once_with_one_that_sends_nothing():
    asked = [tuple(sorted(m.items())) for m in methods()]
    assert len(set(asked)) == len(asked)
    assert {m["encoder"] for m in methods()} == set(ENCODERS)
    assert {m["scaler"] for m in methods()} == set(IN_THE_CLEAR)
    assert all(m["scaler"] == "local" or m["encoder"] == "target" for m in methods())


def test_a_method_is_measured_by_every_kind_of_adversary_and_its_account_stands_beside():
    rows = list(measure(Options(quick=True), "fair", [{"encoder": "uhe", "scaler": "local"}]))
    assert {r.setting["adversary"] for r in rows} == {"server", "one client", "2 clients"}
    assert all(r.setting["encoder said"] == ENCODERS["uhe"].said_to_share for r in rows)
    of_pair = {r.metric: r for r in rows if r.setting["adversary"] == "2 clients"}
    pair = of_pair["sizes"]
    assert (pair.measured, pair.n, pair.setting["of"]) == (1.0, 3, 3)
    assert pair.setting["proven"] == 3  # neighbours of a ring subtract what they see
    assert min(of_pair[m].measured for m in ("values", "who holds them")) > 0.5  # as many as are declared


def test_an_interval_of_an_auc_ends_at_one():
    found = figure("transcripts", "fair", {}, "who holds values that it lacks", [0.4, 0.9, 1.0], None, "AUC")
    assert 0 <= found.low < found.measured < found.high == 1


def test_a_kind_of_adversary_without_a_claim_has_a_row_that_says_so():
    rows = list(measure(Options(quick=True), "fair", [{"encoder": "target", "scaler": "local"}]))
    assert [(r.setting["adversary"], r.metric, r.n) for r in rows] == [
        (kind, NOTHING, 0) for kind in ("server", "one client", "2 clients")
    ]


def test_methods_come_in_their_order_however_their_cases_end(monkeypatch):
    monkeypatch.setattr(transcripts, "each_unfinished", lambda work, items, kind, options: map(work, items[::-1]))
    rows = list(run(Options(quick=True, only=("encoder=uhe", "encoder=local"))))
    assert list(dict.fromkeys(r.setting["encoder"] for r in rows)) == [e for e in ENCODERS if e in ("uhe", "local")]


def test_finished_cases_are_not_played_again(tmp_path, monkeypatch):
    asked = Options(quick=True, only=("encoder=local",), resume=str(tmp_path / "cases.jsonl"), jobs=1)
    first = list(run(asked))
    monkeypatch.setattr(transcripts, "one_case", None)
    assert list(run(asked)) == first
    assert {r.setting["encoder"] for r in first} == {"local"}


def test_a_method_that_there_is_not_is_bad_input():
    done = CliRunner().invoke(main, ["benchmark", "transcripts", "--only", "encoder=none"])
    assert done.exit_code == 2
    assert "no method is like that: --only encoder=none" in done.stderr


def test_kept_rows_are_printed_as_markdown_without_measuring_again(tmp_path):
    path = tmp_path / "rows.json"
    save(path, "leakledger benchmark transcripts", [row(), row(encoder="local")])
    assert kept(path, "transcripts") == [row(), row(encoder="local")]
    result = CliRunner().invoke(main, ["benchmark", "transcripts", "--kept", str(path), "--markdown"])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == markdown([row(), row(encoder="local")])


@pytest.mark.parametrize("shown", [(), ("--json",), ("--markdown",)])
@pytest.mark.parametrize("name", ["transcripts", "tableak", "dp_sgd"])
def test_rows_of_another_benchmark_are_refused_in_one_line_however_they_are_to_be_shown(tmp_path, name, shown):
    path = tmp_path / "rows.json"
    save(path, "leakledger benchmark growth", [replace(row(), benchmark="growth")])
    result = CliRunner().invoke(main, ["benchmark", name, "--kept", str(path), *shown])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.strip().endswith(f"not of {name}; write leakledger benchmark growth")
    assert len(result.stderr.strip().splitlines()) == 1


def kept_by_command():
    """The files of rows in this repository, and the benchmark whose command is in each."""
    for path in sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.json")):
        words = json.loads(path.read_text(encoding="utf-8")).get("command", "").split()
        if words[:2] == ["leakledger", "benchmark"]:
            yield pytest.param(path, words[2], id=path.stem)


@pytest.mark.parametrize(("path", "name"), list(kept_by_command()))
def test_rows_that_a_command_measured_are_printed_under_its_own_name(path, name):
    assert kept(path, name)


ONE_ROW = """{"machine": "m", "date": "d", "rows": [{"benchmark": "transcripts", "dataset": "d", "setting": {},
    "metric": "m", "measured": %s, "low": null, "high": null, "published": null, "unit": "", "n": 1}]}"""
NO_ROWS = {
    "nothing": "{}",
    "a list": "[]",
    "no JSON": "no json",
    "nested": "[" * 20_000,
    "a row without its parts": '{"rows": [{"benchmark": "transcripts"}]}',
    "a figure that is none": ONE_ROW % '"a"',
    "no machine": (ONE_ROW % "1").replace('"machine": "m", ', ""),
    "a date of another type": (ONE_ROW % "1").replace('"date": "d"', '"date": 1'),
}


def test_rows_are_read(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(ONE_ROW % "1")
    assert kept(path, "transcripts")[0].measured == 1


@pytest.mark.parametrize("content", NO_ROWS.values(), ids=NO_ROWS)
def test_a_file_without_rows_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "rows.json"
    path.write_text(content)
    result = CliRunner().invoke(main, ["benchmark", "transcripts", "--kept", str(path)])
    assert result.exit_code == 2
    assert "holds no rows of a benchmark" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_no_rows_are_no_table():
    assert markdown([]) == plain_table([]) == ""


def test_a_table_with_fewer_rows_than_are_drawn_is_taken_whole():
    method = {"encoder": "server-dictionary", "scaler": "federated-zscore"}
    drawn = {s: settings(Options(), s, method).data.rows for s in ("breast_cancer", "fair")}
    assert drawn == {"breast_cancer": 569, "fair": ROWS}
