"""Every case of a run reads the same files, or the run says that it did not."""

import json

import pytest

from leakledger.audit import run as run_module
from leakledger.audit.config import Config
from leakledger.audit.input_files import digests
from leakledger.audit.run import run_audit

TABLE = "age,city,label\n" + "".join(f"{i % 7},{'ab'[i % 2]},{'yn'[i % 3 == 0]}\n" for i in range(60))


def config(folder, **data):
    """A quick audit of `folder/table.csv`, in three cases."""
    (folder / "table.csv").write_text(TABLE)
    return Config.model_validate(
        {
            "data": {"source": str(folder / "table.csv"), "target": "label"} | data,
            "partition": {"parties": 2},
            "model": {"hidden": [4]},
            "training": {"rounds": 1, "batch_size": 2},
            "attacks": {"use": ["plaintext"]},
            "audit": {"seeds": [0, 1, 2], "jobs": 1, "baseline_draws": 2, "observers": ["server"]},
        }
    )


def test_a_case_that_may_have_read_another_table_is_not_kept_and_the_run_goes_on_with_the_first(tmp_path):
    settings, table, folder = config(tmp_path), tmp_path / "table.csv", tmp_path / "run"
    finished = []

    def changed_after_the_first(name, done, total):
        finished.append(name)
        table.write_text(TABLE.replace("6,a,y", "5,a,y"))

    with pytest.raises(ValueError, match=r"table\.csv: was changed while the run read it; the same command goes on"):
        run_audit(settings, folder, progress=changed_after_the_first)
    assert len(finished) == 1
    with pytest.raises(ValueError, match="holds a run on other data"):
        run_audit(settings, folder)
    table.write_text(TABLE)
    assert run_audit(settings, folder).missing == 0
    assert len(json.loads((folder / "results.json").read_text())["run"]["seeds"]) == 3


def test_a_schema_that_comes_while_cases_run_is_a_change_too(tmp_path):
    settings, schema = config(tmp_path), tmp_path / "table.schema.toml"
    with pytest.raises(ValueError, match=r"table\.schema\.toml: was changed"):
        run_audit(settings, tmp_path / "run", progress=lambda *_: schema.write_text('target = "label"\n'))


def test_a_table_of_aliases_is_an_input_file(tmp_path):
    (tmp_path / "names.toml").write_text("")
    partition = {"kind": "schemas", "aliases": str(tmp_path / "names.toml")}
    aligned = Config.model_validate({"partition": partition, "alignment": {"encoder": "hashed"}})
    assert list(digests(aligned)) == [str(tmp_path / "names.toml")]


def test_workers_have_ended_where_a_run_ends_early(tmp_path, monkeypatch):
    settings, ended, real = config(tmp_path), [], run_module.play_cases

    def watched(*given):
        try:
            yield from real(*given)
        finally:
            ended.append(True)

    monkeypatch.setattr(run_module, "play_cases", watched)
    with pytest.raises(ValueError, match="was changed") as raised:
        run_audit(settings, tmp_path / "run", progress=lambda *_: (tmp_path / "table.csv").write_text(TABLE[:-6]))
    assert raised.value.__traceback__ is not None  # which holds what was running
    assert ended == [True]
