"""That a column drowns in the noise of a decryption, or in the precision of a search, is said before anything runs."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

pytest.importorskip("tenseal.sealapi")
from leakledger.audit.cli import main

AUDIT = """
[data]
source = "table.csv"
target = "label"
ranges = {{ age = [0, 120], income = [0, {high}] }}
[partition]
parties = 2
[[preprocessing]]
scaler = "ppf-zscore"
hiding_bits = {bits}
[[preprocessing]]
scaler = "ppf-robust"
hiding_bits = {bits}
"""


@pytest.fixture
def warned(tmp_path, monkeypatch):
    rows = np.arange(200)
    frame = {"age": rows % 70, "income": rows * 10.0, "label": np.where(rows % 2, "y", "n")}
    pd.DataFrame(frame).to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def of(high, bits):
        (tmp_path / "audit.toml").write_text(AUDIT.format(high=high, bits=bits))
        told = CliRunner().invoke(main, ["validate", "audit.toml", "--json"])
        assert told.exit_code == 0, told.output
        return [w for w in json.loads(told.stdout)["warnings"] if "constant" in w]

    return of


def test_a_column_that_a_search_cannot_tell_apart_is_named(tmp_path, monkeypatch):
    rows = np.arange(200)
    frame = {"small": rows * 1e-9, "same": 0.3, "wide": rows * 10.0, "label": np.where(rows % 2, "y", "n")}
    frame["tailed"] = np.where(rows % 20, rows % 7 * 1e-6, 1000.0)  # quartiles of 1e-6 and 5e-6
    frame["none"] = np.where(rows % 20, 0.0, 1000.0)  # of which both quartiles are 0, and found so
    pd.DataFrame(frame).to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.chdir(tmp_path)
    audit = '[data]\nsource = "table.csv"\ntarget = "label"\n[partition]\nparties = 2\n[[preprocessing]]\n'

    def warned(scaler, precision):
        (tmp_path / "audit.toml").write_text(f"{audit}scaler = {scaler!r}\nsearch_precision = {precision}\n")
        told = CliRunner().invoke(main, ["validate", "audit.toml", "--json"])
        assert told.exit_code == 0, told.output
        return [w for w in json.loads(told.stdout)["warnings"] if "by chance" in w]

    line, tailed = warned("federated-robust", 1e-4)
    assert "'tailed' will be scaled by chance under federated-robust: the distance of its quartiles is below" in tailed
    assert "'small' will be scaled by chance under federated-robust" in line
    assert "search_precision, 0.0001" in line
    assert warned("federated-robust", 1e-10) == []
    ranges = ", ".join(f"{name} = [0, 2000]" for name in frame if name != "label")
    audit = audit.replace("[partition]", f"ranges = {{ {ranges} }}\n[partition]")
    assert len(warned("ppf-robust", 1e-4)) == 2
    audit += 'extremes = "counts"\n'
    assert len(warned("ppf-minmax", 1e-4)) == 1
    audit = audit.replace("counts", "comparisons")
    assert warned("ppf-minmax", 1e-4) == []


def test_a_column_whose_extremes_comparisons_cannot_tell_apart_is_named_and_both_remedies_help(tmp_path, monkeypatch):
    """Incomes from 500 to 700 in a range to a million were shifted and not scaled, and nobody was told."""
    rows = np.arange(200)
    frame = {"income": 500.0 + rows, "label": np.where(rows % 2, "y", "n")}
    pd.DataFrame(frame).to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def warned(high, extremes="comparisons"):
        (tmp_path / "audit.toml").write_text(
            f'[data]\nsource = "table.csv"\ntarget = "label"\n'
            f"ranges = {{ income = [0, {high}] }}\n[partition]\nparties = 3\n"
            f'[[preprocessing]]\nscaler = "ppf-minmax"\nextremes = "{extremes}"\n'
        )
        told = CliRunner().invoke(main, ["validate", "audit.toml", "--json"])
        assert told.exit_code == 0, told.output
        return [w for w in json.loads(told.stdout)["warnings"] if "constant" in w]

    (line,) = warned(1e6)
    assert "'income' will count as constant under ppf-minmax: its extremes are within 0.00048" in line
    assert "declare a narrower range, or set extremes to 'counts'" in line
    assert warned(1e5) == warned(1e6, "counts") == []


def test_a_column_that_will_count_as_constant_is_named_once_and_both_remedies_help(warned):
    (line,) = warned(1e6, 60)
    assert "'income' will count as constant under ppf-zscore" in line
    assert "declare a narrower range, or lower hiding_bits" in line
    assert warned(2e3, 60) == warned(1e6, 40) == []
