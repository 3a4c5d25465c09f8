"""`record.sqlite`: what one run did, as a hash chain (`audit.chain`). Append-only, one transaction per finished case.

One row is one entry. The first are the facts of the run, which never change; then, for each case as it finishes, its
transcript and its document (of one that a party ended: `aborted/`, until it finishes when it is played again); at last
`results.json`. An entry with a document has the digest of that text; one without
stands for the file of that name in the run's folder. Every time that a record is opened, all of it is checked before
any of it is used.

A run that is killed loses at most the cases it was working on: the next run of the same configuration into the same
folder finds the finished ones here, does the rest, and its entries follow those that were there.
"""

import fcntl
import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, RootModel, TypeAdapter

from leakledger.audit.chain import GENESIS, ChainError, Entry, check_chain, digest_of, digest_of_file, extended
from leakledger.audit.records import VERSION, CaseRecord, RunFacts
from leakledger.preprocess.atomic_file import PRIVATE, private_folder, sync_folder

FILE, RESULTS, REPORT, SECRETS, TRANSCRIPTS = "record.sqlite", "results.json", "report.html", "secrets", "transcripts"
SIGNATURE, LOCK = "signature.json", ".lock"
KEPT = frozenset({RESULTS, REPORT, SECRETS, SIGNATURE, LOCK})
FACTS, CREATED, CASE, ABORTED = "run/facts", "run/created", "case/", "aborted/"
DOCUMENTS = (CASE, ABORTED, "run/")  # how entries begin that are in the record itself; others are files
# What is read of a damaged file may stand in what SQLite says about it, which Python then cannot decode.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
NAMES = re.compile(
    r"run/(facts|created)|(case|aborted)/.+|transcripts/[^/]+\.parquet|results\.json|report\.html|secrets"
)
_CASE, _RUN = TypeAdapter(CaseRecord), TypeAdapter(RunFacts)


class _Document(RootModel[CaseRecord]):
    """A case as it is read; its figures are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


_SCHEMA = {
    "entries": """CREATE TABLE entries (position INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL,
        head TEXT NOT NULL, document TEXT) STRICT""",
    "entries_stay": """CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END""",
    "entries_remain": """CREATE TRIGGER entries_remain BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END""",
}


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration in force what decides results: how many cases run at a time does not, and where there was too
    little memory the rest of a run is to go on with fewer.
    """
    return {**config, "audit": {**config.get("audit", {}), "jobs": None}}


def transcript_name(case: str) -> str:
    """The file that has the transcript of a case, in the run's folder."""
    return f"{TRANSCRIPTS}/{case}.parquet"


def holder_of(path: Path) -> Path | None:
    """The folder of the run whose record answers for the file at `path`, be it there or not; None for any other."""
    whole = path.resolve()
    folder = whole.parent.parent if whole.parent.name == TRANSCRIPTS else whole.parent
    own = whole.parent.name == TRANSCRIPTS or whole.name in KEPT or whole.name.startswith(FILE)
    return folder if own and (folder / FILE).exists() else None


class StoreError(ValueError):
    """A record that cannot be opened, that was changed, or that belongs to another run."""


class NoRecordYet(StoreError):
    """A file without a record in it: of a run that was killed before its first step."""


class Store:
    """The record of one run. Make one with `Store.create` or `Store.read`; either raises StoreError for a damaged one.

    What it gives back is what was checked when it was opened, and what it has added since.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection
        self._entries: list[Entry] = []
        self._documents: dict[str, str] = {}
        try:
            self._load()
        except BaseException:
            connection.close()
            raise

    @classmethod
    def create(cls, folder: Path, facts: RunFacts, created: str) -> "Store":
        """The store of this run in `folder`: a new one, or the one an interrupted run left.

        Raises StoreError when the folder cannot be written or holds a run of another configuration or other data.
        """
        path = folder / FILE
        try:
            private_folder(folder)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE))
            db = _connected(path)
            if _version(db) == 0 and not _schema(db):
                _must_be_new(folder)
                _initialise(db, facts, created)
                sync_folder(folder)
        except (OSError, *SQLITE_ERRORS) as error:
            raise StoreError(f"{path}: cannot be written ({error}); choose another folder with --output") from None
        store = cls(folder, db)
        store.must_match(facts)
        return store

    @classmethod
    def read(cls, folder: Path) -> "Store":
        """The store that a run left in `folder`, which may be read-only. Raises StoreError when there is none."""
        path = folder / FILE
        if not path.is_file():
            raise StoreError(f"{folder}: holds no run (no {FILE}); `leakledger list runs` shows those there are")
        with _named(path):
            db = _connected(path)
        return cls(folder, db)

    def add(self, record: CaseRecord, files: Sequence[str] = ()) -> None:
        """Appends a finished case and what it left in `files` of the run's folder, in one transaction.

        Raises StoreError for a case that is there already.
        """
        document = _CASE.dump_json(record).decode()
        left = [(name, digest_of_file(self.folder / name), None) for name in files]
        self._append([*left, (f"{CASE}{record.id}", digest_of(document.encode()), document)])

    def add_aborted(self, record: CaseRecord, files: Sequence[str] = ()) -> None:
        """Appends a case that a party ended. It is not finished: the next run plays it again."""
        document = _CASE.dump_json(record).decode()
        left = [(name, digest_of_file(self.folder / name), None) for name in files]
        self._append([*left, (f"{ABORTED}{record.id}", digest_of(document.encode()), document)])

    def add_file(self, name: str, content: bytes) -> None:
        """Appends the digest of a file of the run's folder, unless it is there already.

        Raises StoreError where another one is, of a file that is written once only.
        """
        if (digest := digest_of(content)) not in self.digests(name):
            self._append([(name, digest, None)])

    def digests(self, name: str) -> set[str]:
        """What is recorded of a file or document: its last digest, or none; of the report, one for each that was
        written, since each is as good.
        """
        found = [e.digest for e in self._entries if e.name == name]
        return set(found if name == REPORT else found[-1:])

    def check_file(self, name: str) -> str:
        """The digest of a file of the run's folder. Raises StoreError unless it is one that the record has."""
        path = self.folder / name
        try:
            digest = digest_of_file(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
        if digest not in self.digests(name):
            raise StoreError(f"{path}: is not the file that the record has: it was changed since, or put there")
        return digest

    def holds(self, name: str) -> bool:
        """Whether the file of this name is there and one that the record has."""
        try:
            return bool(self.check_file(name))
        except StoreError:
            return False

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def complete(self) -> bool:
        """Whether the run has finished: the record has the results of all its cases, and none is left that a party
        ended.
        """
        ended = {n.removeprefix(ABORTED) for n in self._documents if n.startswith(ABORTED)} - self.finished()
        last = next((e.name for e in reversed(self._entries) if e.name.startswith((RESULTS, CASE))), "")
        return last == RESULTS and not ended

    @property
    def head(self) -> str:
        """What commits to facts, cases, transcripts and, once there are any, results: reports name this one."""
        last = next((e for e in reversed(self._entries) if e.name == RESULTS), self._entries[-1])
        return last.head

    def finished(self) -> set[str]:
        return {name.removeprefix(CASE) for name in self._documents if name.startswith(CASE)}

    def cases(self) -> Iterator[CaseRecord]:
        """The finished cases, by id. Raises StoreError, naming the case, for a document that is not one."""
        for name in sorted(self.finished()):
            yield self._case(f"{CASE}{name}", f"case {name}")

    def aborted(self) -> list[CaseRecord]:
        """The cases that a party ended when they were last played, by id. Raises StoreError as `cases` does."""
        names = sorted(n.removeprefix(ABORTED) for n in self._documents if n.startswith(ABORTED))
        return [self._case(f"{ABORTED}{n}", f"aborted case {n}") for n in names if n not in self.finished()]

    def _case(self, name: str, words: str) -> CaseRecord:
        try:
            found = _Document.model_validate_json(self._documents[name]).root
            if found.id != name.partition("/")[2]:
                raise StoreError("it is of another case")
        except ValueError as error:
            raise StoreError(f"{self.folder / FILE}: {words} is damaged: {_first_line(error)}") from None
        return found

    def facts(self) -> RunFacts:
        try:
            return _RUN.validate_json(self._document(FACTS))
        except ValueError as error:
            raise StoreError(f"{self.folder / FILE}: its run facts are damaged: {_first_line(error)}") from None

    def created(self) -> str:
        return self._document(CREATED)

    def must_match(self, facts: RunFacts) -> None:
        """Raises StoreError, naming the first difference, unless this record was made by the same run. One that keeps
        no messages may go on where they are asked for, and not the other way round.
        """
        mine, wanted = self.facts(), facts
        if difference := configured_otherwise(mine.config, wanted.config):
            raise StoreError(
                f"{self.folder}: holds a run with another {difference}; choose another folder with --output"
            )
        if mine.inputs and (changed := _differing(mine.inputs, wanted.inputs)):  # older records have none
            file = _file_of(changed[0], wanted.config)
            again = "put back what it was, or choose another folder with --output"
            raise StoreError(f"{self.folder}: was begun with another content of {file}; {again}")
        if mine.data.fingerprint != wanted.data.fingerprint:
            raise StoreError(f"{self.folder}: holds a run on other data under the same name; choose another --output")
        if changed := _differing(mine.versions, wanted.versions):
            raise StoreError(
                f"{self.folder}: was begun with other versions of {', '.join(changed)}; choose another --output"
            )
        if mine.device != wanted.device:
            here = f"computes on {wanted.device}; go on where it began, or choose another --output"
            raise StoreError(f"{self.folder}: was begun on {mine.device}, and this machine {here}")
        if not mine.instrument or not mine.code:
            raise StoreError(
                f"{self.folder}: was begun with code that its record does not name; choose another --output"
            )
        if mine.instrument != wanted.instrument:
            raise StoreError(
                f"{self.folder}: was begun with other code of attacks, scoring or verdicts; choose another --output"
            )
        if changed := _differing(mine.code, wanted.code):
            raise StoreError(
                f"{self.folder}: was begun with other code in {', '.join(changed)}; choose another --output"
            )
        if mine.transcripts and not wanted.transcripts:
            go_on = "go on without --no-transcripts, or choose another folder with --output"
            raise StoreError(f"{self.folder}: was begun as a run that keeps all messages; {go_on}")

    def close(self) -> None:
        self._db.close()

    def _document(self, name: str) -> str:
        if name not in self._documents:
            raise StoreError(f"{self.folder / FILE}: has no {name}")
        return self._documents[name]

    def _load(self) -> None:
        """Reads all entries in one transaction and checks them, before any is used."""
        path = self.folder / FILE
        with _named(path):
            _check_format(self._db, path)
            self._db.execute("BEGIN")
            (sound,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            rows = self._db.execute("SELECT position, name, digest, head, document FROM entries ORDER BY 1").fetchall()
            self._db.execute("COMMIT")
        try:
            if sound != "ok":
                raise ChainError(str(sound))
            self._entries, self._documents = _checked(rows)
        except ChainError as error:
            raise StoreError(f"{path}: is damaged: {_first_line(error)}") from None

    def _append(self, contents: Sequence[tuple[str, str, str | None]]) -> None:
        """Appends entries of (name, digest, document) in one transaction."""
        for name, _, _ in contents:
            if self.digests(name) and not _again(name, self._documents):
                raise StoreError(f"{self.folder / FILE}: has another {name} already; choose another --output")
        with _named(self.folder / FILE), _transaction(self._db):
            last = self._db.execute("SELECT position, head FROM entries ORDER BY 1 DESC LIMIT 1").fetchone()
            new = extended(last[1], [(name, digest) for name, digest, _ in contents])
            for position, (entry, (_, _, document)) in enumerate(zip(new, contents, strict=True), last[0] + 1):
                _insert(self._db, position, entry, document)
        self._entries += new
        self._documents |= {name: document for name, _, document in contents if document is not None}


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Holds the run's folder for this process; the lock goes when the process does. Raises StoreError if it is
    taken.
    """
    try:
        private_folder(folder)
        lock = os.fdopen(os.open(folder / LOCK, os.O_CREAT | os.O_WRONLY, PRIVATE), "w")
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


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: for reading alone where it cannot be written."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = EXTRA")  # what was appended stays so where the power fails
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Whatever SQLite says becomes a StoreError that names the file."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise StoreError(f"{path}: cannot be used as a record: {_first_line(error)}") from None


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(*SQLITE_ERRORS):  # some errors have ended the transaction already
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _must_be_new(folder: Path) -> None:
    """Raises StoreError where a run left more than the record that it began with."""
    if left := next((n for n in (RESULTS, TRANSCRIPTS) if (folder / n).exists()), None):
        raise StoreError(f"{folder / FILE}: is gone or empty, and {left} is not; choose another folder with --output")


def _initialise(db: sqlite3.Connection, facts: RunFacts, created: str) -> None:
    documents = {FACTS: json.dumps(asdict(facts)), CREATED: created}
    entries = extended(GENESIS, [(name, digest_of(text.encode())) for name, text in documents.items()])
    with _transaction(db):
        for statement in _SCHEMA.values():
            db.execute(statement)
        for position, entry in enumerate(entries, 1):
            _insert(db, position, entry, documents[entry.name])
        db.execute(f"PRAGMA user_version = {VERSION}")


def _insert(db: sqlite3.Connection, position: int, entry: Entry, document: str | None) -> None:
    row = (position, entry.name, entry.digest, entry.head, document)
    db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _schema(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, sql FROM sqlite_master").fetchall())


def _check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError unless the file is a record of this format."""
    schema = _schema(db)
    if schema and _version(db) != VERSION:
        raise StoreError(
            f"{path}: was written by another version of the record format; run the audit again, or use --output"
        )
    if not schema:
        raise NoRecordYet(f"{path}: is not the record of a run")
    if schema != _SCHEMA:
        raise StoreError(f"{path}: is damaged: its tables or the triggers that guard them were changed")


def _checked(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Entry], dict[str, str]]:
    """Entries and documents of these rows of (position, name, digest, head, document). Raises ChainError."""
    for number, (position, *texts, document) in enumerate(rows, 1):
        if position != number or not all(isinstance(t, str) for t in texts) or not isinstance(document, str | None):
            raise ChainError(f"entry {number} is missing or not in its form")
    entries = [Entry(*texts) for _, *texts, _ in rows]
    check_chain(entries)
    documents = {}
    for entry, (*_, document) in zip(entries, rows, strict=True):
        if document is not None and digest_of(document.encode()) != entry.digest:
            raise ChainError(f"{entry.name} was changed: it does not have its digest")
        if not NAMES.fullmatch(entry.name):
            raise ChainError(f"{entry.name!r} is no part of a run")
        if (document is not None) != entry.name.startswith(DOCUMENTS):
            raise ChainError(f"{entry.name}: its document is missing, or is none")
        if document is not None:
            documents[entry.name] = document
    if _twice(entries) or not {FACTS, CREATED} <= documents.keys():
        raise ChainError("an entry occurs twice, or the facts of the run are missing")
    return entries, documents


def _again(name: str, before: Collection[str]) -> bool:
    """Whether an entry of this name may follow another one, and those named `before`: reports; results once a party has
    ended a case; what such a case leaves each time, until it has finished.
    """
    if name == RESULTS:
        return any(n.startswith(ABORTED) for n in before)
    case = name.removeprefix(ABORTED).removeprefix(f"{TRANSCRIPTS}/").removesuffix(".parquet")
    return name == REPORT or (name.startswith((ABORTED, TRANSCRIPTS)) and f"{CASE}{case}" not in before)


def _twice(entries: Sequence[Entry]) -> bool:
    """Whether an entry occurs again that may not."""
    seen = set[str]()
    for entry in entries:
        if entry.name in seen and not _again(entry.name, seen):
            return True
        seen.add(entry.name)
    return False


def configured_otherwise(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The dotted name of the first thing that decides results and differs in two configurations in force; "" if none
    does.
    """
    return _first_difference(*(json.loads(json.dumps(deciding(config))) for config in (a, b)))


def _first_difference(a: Any, b: Any, where: str = "") -> str:
    """The dotted name of the first place where two plain values differ; empty if nowhere. What only one of them has
    comes last: it follows from another choice, as the options of an attack do.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b}, key=lambda k: (not (k in a and k in b), k))
        return next((d for k in keys if (d := _first_difference(a.get(k), b.get(k), f"{where}.{k}"))), "")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return next((d for i, (x, y) in pairs if (d := _first_difference(x, y, f"{where}.{i}"))), "")
    return "" if a == b else where.lstrip(".") or "configuration"


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    return sorted(k for k in {*a, *b} if a.get(k) != b.get(k))


def _file_of(key: str, config: Any) -> str:
    """An input file by its key, and the path that a configuration in force has there: of a schema, its table's."""
    for name in key.split()[-1].split("."):
        config = config[int(name) if isinstance(config, list) else name]
    return f"{key} ({config})"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
