import sqlite3
from dataclasses import replace

import pytest

from leakledger.audit.case import cases
from leakledger.audit.provenance import run_facts
from leakledger.audit.records import VERSION, CaseRecord, Trial, UtilityRow
from leakledger.audit.store import FILE, Store, StoreError, only_writer
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
    with pytest.raises(sqlite3.IntegrityError):
        store.add(RECORD)
    db = sqlite3.connect(tmp_path / FILE)
    for statement in ("DELETE FROM cases", "UPDATE cases SET seed = 7", "UPDATE run SET value = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


def test_opening_again_continues_the_same_run_and_keeps_its_start(tmp_path, facts):
    Store.create(tmp_path, facts, "first").add(RECORD)
    again = Store.create(tmp_path, facts, "second")
    assert (again.created(), again.finished()) == ("first", {CASE.id})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f: replace(f, config=config(audit={"seeds": [9]}).in_force()), "another audit.seeds.0"),
        (lambda f: replace(f, data=replace(f.data, fingerprint="other")), "on other data"),
        (lambda f: replace(f, versions={**f.versions, "torch": "0"}), "other versions of torch"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_the_difference(tmp_path, facts, change, expected):
    Store.create(tmp_path, facts, "now")
    with pytest.raises(StoreError, match=expected):
        Store.create(tmp_path, change(facts), "now")


def test_a_folder_without_a_run_and_a_file_that_is_no_record_are_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no run"):
        Store.read(tmp_path)
    (tmp_path / FILE).write_text("not a database, but long enough to look at" * 10)
    with pytest.raises(StoreError, match="cannot be read"):
        Store.read(tmp_path)


def test_a_damaged_document_is_named(tmp_path, facts):
    store = Store.create(tmp_path, facts, "now")
    db = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    db.execute("INSERT INTO cases VALUES ('x', 's', 0, '{')")
    db.close()
    with pytest.raises(StoreError, match="case x is damaged"):
        list(store.cases())


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
