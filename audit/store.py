"""`record.sqlite`: the facts of one run and one document per finished case. Append-only, one transaction per case.

A run that is killed loses at most the cases it was working on: the next run of the same configuration into the same
folder finds the finished ones here and does the rest. The configuration in force is the first thing written and never
changes.
"""

import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from leakledger.audit.records import VERSION, CaseRecord, RunFacts

FILE = "record.sqlite"
_CASE, _RUN = TypeAdapter(CaseRecord), TypeAdapter(RunFacts)
_TABLES = """
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE cases (id TEXT PRIMARY KEY, setting TEXT NOT NULL, seed INTEGER NOT NULL, document TEXT NOT NULL) STRICT;
CREATE TABLE aborted (id TEXT NOT NULL, document TEXT NOT NULL) STRICT;
CREATE TRIGGER cases_stay BEFORE UPDATE ON cases BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
CREATE TRIGGER cases_remain BEFORE DELETE ON cases BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
CREATE TRIGGER run_stays BEFORE UPDATE ON run BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
"""


class StoreError(ValueError):
    """A record that cannot be opened, or that belongs to another run."""


class Store:
    """The record of one run. Make one with `Store.create` or `Store.read`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection

    @classmethod
    def create(cls, folder: Path, facts: RunFacts, created: str) -> "Store":
        """The store of this run in `folder`: a new one, or the one an interrupted run left.

        Raises StoreError when the folder cannot be written or holds a run of another configuration or other data.
        """
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, isolation_level=None)
            db.execute("PRAGMA journal_mode = WAL")
            if not _has_tables(db):
                _initialise(db, facts, created)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path}: cannot be written ({error}); choose another folder with --output") from None
        store = cls(folder, db)
        store._must_match(facts)
        return store

    @classmethod
    def read(cls, folder: Path) -> "Store":
        """The store that a run left in `folder`. Raises StoreError when there is none, or none of this format."""
        path = folder / FILE
        if not path.is_file():
            raise StoreError(f"{folder}: holds no run (no {FILE}); `leakledger list runs` shows those there are")
        try:
            db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
            if not _has_tables(db):
                raise StoreError(f"{path}: is not the record of a run")
        except sqlite3.Error as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None
        store = cls(folder, db)
        if store._value("version") != str(VERSION):
            store.close()
            raise StoreError(f"{path}: was written by another version of the record format; run the audit again")
        return store

    def add(self, record: CaseRecord) -> None:
        """Appends a finished case, in one transaction."""
        row = (record.id, record.setting.id, record.seed, _CASE.dump_json(record).decode())
        self._db.execute("INSERT INTO cases VALUES (?, ?, ?, ?)", row)

    def finished(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT id FROM cases")}

    def cases(self) -> Iterator[CaseRecord]:
        """The finished cases. Raises StoreError, naming the case, for a document that is not one."""
        for name, document in self._db.execute("SELECT id, document FROM cases ORDER BY id"):
            try:
                yield _CASE.validate_json(document)
            except ValueError as error:
                raise StoreError(f"{self.folder / FILE}: case {name} is damaged: {_first_line(error)}") from None

    def add_aborted(self, record: CaseRecord) -> None:
        """Appends a case that a party ended. It is not finished: the next run plays it again."""
        self._db.execute("INSERT INTO aborted VALUES (?, ?)", (record.id, _CASE.dump_json(record).decode()))

    def aborted(self) -> list[CaseRecord]:
        """The cases that ended so when they were last played, and have not finished since. Raises StoreError, naming
        the case, for a document that is not one.
        """
        if not _has_tables(self._db, "aborted"):  # a record that was begun before such cases were kept
            return []
        last, finished = dict(self._db.execute("SELECT id, document FROM aborted ORDER BY rowid")), self.finished()
        return [_aborted(self.folder, n, document) for n, document in sorted(last.items()) if n not in finished]

    def facts(self) -> RunFacts:
        try:
            return _RUN.validate_json(self._value("facts"))
        except ValueError as error:
            raise StoreError(f"{self.folder / FILE}: its run facts are damaged: {_first_line(error)}") from None

    def created(self) -> str:
        return self._value("created")

    def close(self) -> None:
        self._db.close()

    def _value(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM run WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise StoreError(f"{self.folder / FILE}: has no {key}")
        return str(row[0])

    def _must_match(self, facts: RunFacts) -> None:
        """Raises StoreError, naming the first difference, unless this record was made by the same run."""
        mine, wanted = self.facts(), facts
        if self._value("version") != str(VERSION):
            raise StoreError(f"{self.folder}: was written by another version of the record format; use --output")
        difference = _first_difference(json.loads(json.dumps(mine.config)), json.loads(json.dumps(wanted.config)))
        if difference:
            raise StoreError(
                f"{self.folder}: holds a run with another {difference}; choose another folder with --output"
            )
        if mine.data.fingerprint != wanted.data.fingerprint:
            raise StoreError(f"{self.folder}: holds a run on other data under the same name; choose another --output")
        if mine.versions != wanted.versions:
            changed = sorted(k for k in wanted.versions if mine.versions.get(k) != wanted.versions[k])
            raise StoreError(
                f"{self.folder}: was begun with other versions of {', '.join(changed)}; choose another --output"
            )


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the run's folder for this process; the lock goes when the process does. Raises StoreError if it is
    taken.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder with --output"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{folder}: another process is writing this run; wait for it or use --output") from None
        yield


def _has_tables(db: sqlite3.Connection, *needed: str) -> bool:
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return set(needed or ("run", "cases")) <= names


def _aborted(folder: Path, name: str, document: str) -> CaseRecord:
    try:
        return _CASE.validate_json(document)
    except ValueError as error:
        raise StoreError(f"{folder / FILE}: aborted case {name} is damaged: {_first_line(error)}") from None


def _initialise(db: sqlite3.Connection, facts: RunFacts, created: str) -> None:
    values = {"version": str(VERSION), "facts": json.dumps(asdict(facts)), "created": created}
    db.execute("BEGIN IMMEDIATE")
    for statement in _statements():
        db.execute(statement)
    db.executemany("INSERT INTO run VALUES (?, ?)", values.items())
    db.execute("COMMIT")


def _statements() -> list[str]:
    return [line for line in _TABLES.strip().splitlines() if line]


def _first_difference(a: Any, b: Any, where: str = "") -> str:
    """The dotted name of the first place where two plain values differ; empty if nowhere."""
    if isinstance(a, dict) and isinstance(b, dict):
        return next((d for k in sorted({*a, *b}) if (d := _first_difference(a.get(k), b.get(k), f"{where}.{k}"))), "")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return next((d for i, (x, y) in pairs if (d := _first_difference(x, y, f"{where}.{i}"))), "")
    return "" if a == b else where.lstrip(".") or "configuration"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
