import contextlib
import json
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from leakledger.audit import provenance
from leakledger.audit.assemble import load_record
from leakledger.audit.case import cases
from leakledger.audit.chain import GENESIS, digest_of, extended
from leakledger.audit.provenance import instrument, run_facts
from leakledger.audit.records import VERSION, CaseRecord, Trial, UtilityRow
from leakledger.audit.store import _CASE, _SCHEMA, FILE, Store, StoreError, only_writer
from leakledger.audit.tables import run_name
from tests.audit.example import config

SETTINGS = config()
CASE = cases(SETTINGS)[0]
RECORD = CaseRecord(
    CASE.id,
    CASE.setting,
    CASE.seed,
    trials=(Trial("tableak", ("server",), "records", "accuracy", "P1", 0, "scored", 0.5, 0.25, evidence=(1, 2)),),
    utility=(UtilityRow("f1", 0.5),),
    transcript_head="ab",
    seconds={"attacks": 1.5},
)


@pytest.fixture(scope="module")
def facts():
    return run_facts(SETTINGS, cases(SETTINGS), "r", "leakledger run")


def test_a_finished_case_comes_back_as_it_was(tmp_path, facts):
    Store.create(tmp_path, facts, "now").add(RECORD)
    store = Store.read(tmp_path)
    assert list(store.cases()) == [RECORD]
    assert store.facts() == facts
    assert (store.finished(), store.created()) == ({CASE.id}, "now")


def test_the_record_is_append_only(tmp_path, facts):
    store = Store.create(tmp_path, facts, "now")
    store.add(RECORD)
    with pytest.raises(StoreError, match=f"has another case/{CASE.id} already"):
        store.add(RECORD)
    db = sqlite3.connect(tmp_path / FILE)
    for statement in ("DELETE FROM entries", "UPDATE entries SET document = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


def test_opening_again_continues_the_same_run_and_keeps_its_start(tmp_path, facts):
    Store.create(tmp_path, facts, "first").add(RECORD)
    again = Store.create(tmp_path, facts, "second")
    assert (again.created(), again.finished()) == ("first", {CASE.id})


def test_a_run_goes_on_with_fewer_cases_at_a_time_in_the_same_folder(tmp_path, facts):
    Store.create(tmp_path, facts, "first").close()
    fewer = config(audit={"jobs": 7})
    Store.read(tmp_path).must_match(replace(facts, config=fewer.in_force()))
    assert run_name(fewer, None) == run_name(SETTINGS, None) != run_name(config(audit={"seeds": [9]}), None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f: replace(f, config=config(audit={"seeds": [9]}).in_force()), "another audit.seeds.0"),
        (lambda f: replace(f, data=replace(f.data, fingerprint="other")), "on other data"),
        (lambda f: replace(f, versions={**f.versions, "torch": "0"}), "other versions of torch"),
        (
            lambda f: replace(f, device="NVIDIA H100"),
            "was begun on cpu .*, and this machine computes on NVIDIA H100; go",
        ),
        (lambda f: replace(f, versions={k: v for k, v in f.versions.items() if k != "torch"}), "versions of torch;"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_the_difference(tmp_path, facts, change, expected):
    Store.create(tmp_path, facts, "now")
    with pytest.raises(StoreError, match=expected):
        Store.create(tmp_path, change(facts), "now")


def test_a_run_goes_on_with_the_input_files_that_it_began_with_where_its_record_names_them(tmp_path, facts):
    settings = {**facts.config, "partition": [{"aliases": "names.toml"}]}
    begun = replace(facts, config=settings, inputs={"partition.0.aliases": "aa"})
    changed = replace(begun, inputs={"partition.0.aliases": "bb"})
    Store.create(tmp_path / "new", begun, "now").close()
    Store.read(tmp_path / "new").must_match(begun)
    with pytest.raises(StoreError, match=r"another content of partition\.0\.aliases \(names\.toml\); put back"):
        Store.read(tmp_path / "new").must_match(changed)
    Store.create(tmp_path / "old", replace(begun, inputs={}), "now").close()
    Store.read(tmp_path / "old").must_match(changed)


@pytest.mark.parametrize(
    ("begun", "told"),
    [("other", "other code of attacks, scoring or verdicts"), ("", "code that its record does not name")],
)
def test_a_run_goes_on_with_the_code_that_it_began_with(tmp_path, facts, begun, told):
    assert facts.instrument == instrument() != ""
    with contextlib.suppress(StoreError):  # of a record that names no code, its own maker too
        Store.create(tmp_path, replace(facts, instrument=begun), "now").close()
    with pytest.raises(StoreError, match=f"was begun with {told}; choose another --output"):
        Store.create(tmp_path, facts, "now")


def test_the_code_that_a_run_names_has_what_takes_a_verdict_back_and_which_metrics_speak():
    root = Path(provenance.__file__).parents[1]
    files = {path.relative_to(root).as_posix() for pattern in provenance.MEASURES for path in root.glob(pattern)}
    assert {"audit/aborts.py", "audit/assemble.py", "audit/records/assets.py", "audit/records/case.py"} <= files


def test_a_run_goes_on_with_the_protocols_that_it_began_with(tmp_path, facts):
    assert {"preprocess/scalers", "preprocess/encoders", "defenses", "audit"} <= facts.code.keys()
    other = replace(facts, code={**facts.code, "preprocess/scalers": "other"})
    Store.create(tmp_path / "other", other, "now").close()
    with pytest.raises(StoreError, match="was begun with other code in preprocess/scalers; choose another --output"):
        Store.create(tmp_path / "other", facts, "now")
    with pytest.raises(StoreError, match="was begun with code that its record does not name"):
        Store.create(tmp_path / "older", replace(facts, code={}), "now")


def test_a_folder_without_a_run_and_a_file_that_is_no_record_are_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no run"):
        Store.read(tmp_path)
    (tmp_path / FILE).write_text("not a database, but long enough to look at" * 10)
    with pytest.raises(StoreError, match=f"{FILE}: cannot be used as a record: file is not a database"):
        Store.read(tmp_path)


def test_a_run_that_names_a_method_which_is_not_installed_here_is_refused_in_one_line(tmp_path, facts):
    preprocessing = [{"encoder": "of-a-plugin", "scaler": "local"}]
    Store.create(tmp_path, replace(facts, config={**facts.config, "preprocessing": preprocessing}), "now")
    with pytest.raises(StoreError, match=r"preprocessing.encoder: 'of-a-plugin' is unknown.*plugins are") as told:
        load_record(tmp_path)
    assert str(told.value).startswith(f"{tmp_path}: ")
    assert "\n" not in str(told.value)
    assert "pydantic" not in str(told.value)


def test_a_document_that_is_no_case_is_named(tmp_path, facts):
    store = Store.create(tmp_path, facts, "now")
    store._append([("case/x", digest_of(b"{"), "{")])
    with pytest.raises(StoreError, match="case x is damaged"):
        list(Store.read(tmp_path).cases())


def of_trial(**fields):
    return lambda case: case["trials"][0].update(fields)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (of_trial(value=float("nan")), "validation error"),
        (of_trial(value=float("inf")), "validation error"),
        (of_trial(value=1e308), "a score of accuracy is not from 0 to 1"),
        (of_trial(baseline=-0.5), "a score of accuracy is not from 0 to 1"),
        (of_trial(metric="rmse", value=1e300), r"a score of root mean squared error is not from -1e\+50 to 1e\+50"),
        (of_trial(value=None), "a score of accuracy has no value"),
        (of_trial(metric="fun"), "a score has the metric 'fun', which is none"),
        (lambda case: case["utility"][0].update(value=float("-inf")), "validation error"),
        (lambda case: case["utility"][0].update(metric="fun"), "it has a utility that is none, 'fun'"),
        (lambda case: case.update(id="other"), "it is of another case"),
        (lambda case: case.update(seed=7), "it is of another setting or seed than its name says"),
        (lambda case: case["setting"].update(id="other"), "it is of another setting or seed than its name says"),
        (lambda case: case["setting"].update(reference=True), "it is of another setting or seed than its name says"),
    ],
)
def test_a_case_that_no_run_leaves_is_damaged_and_nothing_is_concluded_from_it(tmp_path, facts, change, told):
    for folder, changed in (("sound", lambda case: None), ("forged", change)):
        plain = json.loads(_CASE.dump_json(RECORD))
        changed(plain)
        text = json.dumps(plain)
        store = Store.create(tmp_path / folder, facts, "now")
        store._append([(f"case/{CASE.id}", digest_of(text.encode()), text)])
        store.close()
    assert load_record(tmp_path / "sound").cases == (RECORD,)
    with pytest.raises(StoreError, match=f"case {CASE.id} is damaged: .*{told}") as error:
        load_record(tmp_path / "forged")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seeds", [(), (0, 1)])
def test_facts_of_other_seeds_than_the_configuration_has_are_damaged(tmp_path, facts, seeds):
    Store.create(tmp_path, replace(facts, seeds=seeds), "now").close()
    with pytest.raises(StoreError, match="its run facts are damaged: seeds are not those of the configuration"):
        load_record(tmp_path)


def altered(folder, statement, *values):
    """Changes the file behind the back of the triggers, which are as they were afterwards."""
    db = sqlite3.connect(folder / FILE, isolation_level=None)
    for name in ("entries_stay", "entries_remain"):
        db.execute(f"DROP TRIGGER {name}")
    db.execute(statement, values)
    for name in ("entries_stay", "entries_remain"):
        db.execute(_SCHEMA[name])
    db.close()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE entries SET document = replace(document, '0.5', '0.6') WHERE name LIKE 'case/%'",
            "case/.* was changed",
        ),
        ("UPDATE entries SET document = replace(document, 'fair', 'Fair') WHERE position = 1", "run/facts was changed"),
        ("UPDATE entries SET document = 'then' WHERE position = 2", "run/created was changed"),
        ("UPDATE entries SET document = NULL WHERE position = 2", "run/created: its document is missing"),
        ("UPDATE entries SET digest = hex(zeroblob(32)) WHERE position = 3", r"entry 3 \(case/.*\) was changed"),
        ("UPDATE entries SET name = 'case/y' WHERE position = 3", r"entry 3 \(case/y\) was changed"),
        ("DELETE FROM entries WHERE position = 2", "entry 2 is missing"),
        ("DELETE FROM entries WHERE position < 3", "entry 1 is missing"),
        ("INSERT INTO entries VALUES (4, 'case/x', '', '', '')", r"entry 4 \(case/x\) was changed"),
        ("CREATE TABLE more (x)", "its tables or the triggers that guard them were changed"),
        ("PRAGMA user_version = 3", "was written by another version"),
    ],
)
def test_no_part_of_a_record_can_be_changed_alone(tmp_path, facts, statement, told):
    store = Store.create(tmp_path, facts, "now")
    store.add(RECORD)
    store.close()
    altered(tmp_path, statement)
    for opened in (lambda: Store.read(tmp_path), lambda: Store.create(tmp_path, facts, "now")):
        with pytest.raises(StoreError, match=told):
            opened()


def test_a_record_without_its_triggers_is_refused(tmp_path, facts):
    Store.create(tmp_path, facts, "now").close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("DROP TRIGGER entries_stay")
    db.close()
    with pytest.raises(StoreError, match="triggers that guard them"):
        Store.read(tmp_path)


def test_entries_follow_those_of_the_interrupted_run_and_of_other_processes(tmp_path, facts):
    first = Store.create(tmp_path, facts, "now")
    other = Store.read(tmp_path)
    first.add(RECORD)
    other.add_file("report.html", b"page")
    first.add_file("results.json", b"{}")
    names = [e.name for e in Store.read(tmp_path).entries]
    assert names == ["run/facts", "run/created", f"case/{CASE.id}", "report.html", "results.json"]


def test_results_are_recorded_once_and_reports_each_time_that_they_differ(tmp_path, facts):
    store = Store.create(tmp_path, facts, "now")
    assert not store.complete
    for content in (b"{}", b"{}"):
        store.add_file("results.json", content)
    with pytest.raises(StoreError, match=r"has another results\.json already"):
        store.add_file("results.json", b"{ }")
    head = store.head
    for page in (b"one", b"two", b"one"):
        store.add_file("report.html", page)
    read = Store.read(tmp_path)
    assert (read.head, read.complete, len(read.entries)) == (head, True, 5)
    assert read.digests("report.html") == {digest_of(b"one"), digest_of(b"two")}


def test_a_file_that_names_no_part_of_a_run_is_never_opened(tmp_path, facts):
    store = Store.create(tmp_path, facts, "now")
    store._append([("transcripts/../../secrets.parquet", digest_of(b""), None)])
    with pytest.raises(StoreError, match="is no part of a run"):
        Store.read(tmp_path)


@pytest.mark.parametrize("missing_or_twice", [[], ["run/facts"], ["run/facts", "run/created", "run/facts"]])
def test_a_chain_that_is_sound_and_no_run_is_refused(tmp_path, facts, missing_or_twice):
    store = Store.create(tmp_path, facts, "now")
    document = store.facts().id
    contents = [(name, digest_of(document.encode())) for name in missing_or_twice]
    store.close()
    altered(tmp_path, "DELETE FROM entries")
    db = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    for position, e in enumerate(extended(GENESIS, contents), 1):
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (position, e.name, e.digest, e.head, document))
    db.close()
    with pytest.raises(StoreError, match="an entry occurs twice, or the facts of the run are missing"):
        Store.read(tmp_path)


def test_a_run_whose_record_is_gone_is_not_begun_anew(tmp_path, facts):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(StoreError, match=r"record.sqlite: is gone or empty, and results\.json is not"):
        Store.create(tmp_path, facts, "now")


def test_what_a_run_writes_is_for_its_owner_alone(tmp_path, facts):
    folder = tmp_path / "runs" / "one"
    with only_writer(folder):
        Store.create(folder, facts, "now").add(RECORD)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [folder, *folder.iterdir()]}
    assert modes == {"one": 0o700, ".lock": 0o600, FILE: 0o600}


def test_only_one_process_writes_a_run(tmp_path):
    with only_writer(tmp_path), pytest.raises(StoreError, match="another process"), only_writer(tmp_path):
        pass
    with only_writer(tmp_path):
        pass


def test_a_record_of_another_format_is_refused_with_what_to_do(tmp_path, facts, monkeypatch):
    Store.create(tmp_path, facts, "now").close()
    monkeypatch.setattr("leakledger.audit.store.VERSION", VERSION + 1)
    with pytest.raises(StoreError, match="another version of the record format; run the audit again"):
        Store.read(tmp_path)
