import json

import pytest
from click.testing import CliRunner

from audit.benchmarks.base import BENCHMARKS, Options, find
from audit.benchmarks.tableak import measure
from audit.cli import main

FIELDS = {"benchmark", "dataset", "setting", "metric", "measured", "low", "high", "published", "unit", "n"}


@pytest.mark.slow
def test_the_tableak_benchmark_measures_every_client_of_every_seed_beside_the_published_figure():
    rows = list(measure(Options(jobs=1), "breast_cancer", "published", "recovered", 2, seeds=2))
    accuracy = next(r for r in rows if r.metric == "accuracy")
    assert accuracy.n == 8
    assert accuracy.published is None  # no figure of the paper belongs to this table
    assert accuracy.low <= accuracy.measured <= accuracy.high
    assert accuracy.measured > next(r for r in rows if r.metric == "accuracy, prior only").measured


@pytest.mark.slow
def test_quick_json_rows_have_the_documented_fields():
    result = CliRunner().invoke(main, ["benchmark", "tableak", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert all(row.keys() - {"note"} == FIELDS for row in rows)
    assert {row["setting"]["B"] for row in rows} == {8, 16}


def test_every_registered_benchmark_can_be_found():
    assert all(callable(find(name)) for name in BENCHMARKS)
