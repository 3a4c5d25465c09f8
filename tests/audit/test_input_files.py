"""Every case of a run reads the same files, or the run says that it did not."""

import json

import pytest

from leakledger.audit import run as run_module
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.input_files import by_key, check_unchanged, digest_of, digests, input_files
from leakledger.audit.provenance import run_facts
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
    with pytest.raises(ValueError, match=r"was begun with another content of data\.source \(.*table\.csv\); put back"):
        run_audit(settings, folder)
    table.write_text(TABLE)
    assert run_audit(settings, folder).missing == 0
    assert len(json.loads((folder / "results.json").read_text())["run"]["seeds"]) == 3


def test_a_row_that_the_first_seed_does_not_draw_may_not_change_while_a_run_is_interrupted(tmp_path, monkeypatch):
    settings, table, folder = config(tmp_path, rows=30), tmp_path / "table.csv", tmp_path / "run"

    def fingerprint():
        return run_facts(settings, cases(settings), "run", "").data.fingerprint

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "keep_results", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_audit(settings, folder)
    first, lines = fingerprint(), TABLE.splitlines(keepends=True)
    for i, line in enumerate(lines[1:], 1):
        table.write_text("".join([*lines[:i], line.replace(line[0], "8"), *lines[i + 1 :]]))
        if fingerprint() == first:
            break
    assert (fingerprint(), table.read_text() != TABLE) == (first, True)
    with pytest.raises(ValueError, match=r"another content of data\.source \(.*table\.csv\)"):
        run_audit(settings, folder)
    table.write_text(TABLE)
    assert run_audit(settings, folder).missing == 0


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_schema_that_comes_after_a_run_is_named_by_its_table(tmp_path):
    settings, schema, folder = config(tmp_path), tmp_path / "table.schema.toml", tmp_path / "run"
    run_audit(settings, folder)
    schema.write_text('target = "label"\ncategorical = ["city"]\nnumeric = ["age"]\n')
    with pytest.raises(ValueError, match=r"another content of schema beside data\.source \(.*table\.csv\)"):
        run_audit(settings, folder)


def test_a_schema_that_comes_while_cases_run_is_a_change_too(tmp_path):
    settings, schema = config(tmp_path), tmp_path / "table.schema.toml"
    with pytest.raises(ValueError, match=r"table\.schema\.toml: was changed"):
        run_audit(settings, tmp_path / "run", progress=lambda *_: schema.write_text('target = "label"\n'))


def test_a_table_of_aliases_is_an_input_file(tmp_path):
    (tmp_path / "names.toml").write_text("")
    partition = {"kind": "schemas", "aliases": str(tmp_path / "names.toml")}
    aligned = Config.model_validate({"partition": partition, "alignment": {"encoder": "random"}})
    assert list(digests(aligned)) == [str(tmp_path / "names.toml")]
    assert list(input_files(aligned)) == ["partition.0.aliases"]


def test_models_that_turn_words_into_vectors_are_input_files(tmp_path):
    (model := tmp_path / "words.bin").write_bytes(b"one")
    encoder = {"encoder": "fasttext", "fasttext_model": str(model)}
    settings = Config.model_validate({"preprocessing": [{"encoder": "local"}, encoder]})
    before = digests(settings)
    assert by_key(settings, before) == {"preprocessing.1.fasttext_model": before[str(model)]}
    model.write_bytes(b"two")
    with pytest.raises(ValueError, match=r"words\.bin: was changed"):
        check_unchanged(settings, before)


def test_a_folder_of_an_encoder_is_one_input_by_all_its_files(tmp_path):
    (weights := tmp_path / "tiny" / "model.safetensors").parent.mkdir()
    weights.write_bytes(b"one")
    (weights.parent / "config.json").write_text("{}")
    encoder = {"encoder": str(tmp_path / "tiny")}
    aligned = Config.model_validate({"partition": {"kind": "schemas"}, "alignment": encoder})
    before = digests(aligned)
    assert list(by_key(aligned, before)) == ["alignment.0.encoder"]
    for change in (lambda: weights.write_bytes(b"two"), lambda: (tmp_path / "tiny" / "vocab.txt").write_text("")):
        change()
        with pytest.raises(ValueError, match="tiny: was changed"):
            check_unchanged(aligned, before)
        weights.write_bytes(b"one")
    assert digest_of(tmp_path) == ""  # who names a folder as a table by mistake does not wait until it is read
    assert digest_of("/dev/null") == ""  # nor who names a device, of which some have no end


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


def test_no_more_rows_are_promised_than_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"data\.rows: is 61, and .*table\.csv has 60; ask for no more"):
        run_audit(config(tmp_path, rows=61), tmp_path / "run")
    settings = config(tmp_path, rows=60)
    assert run_facts(settings, cases(settings), "run", "run").data.rows == 60


def test_rows_are_not_drawn_from_files_of_parties(tmp_path):
    whole = config(tmp_path)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(TABLE)
    files = {**whole.model_dump(by_alias=True, exclude_unset=True), "partition": {"kind": "files"}}
    files["data"] |= {"source": [str(tmp_path / name) for name in ("a.csv", "b.csv")], "rows": 50}
    with pytest.raises(ValueError, match=r"data\.rows: is drawn from one table, and each party has a file"):
        run_audit(Config.model_validate(files), tmp_path / "run")
    assert not (tmp_path / "run").exists()
