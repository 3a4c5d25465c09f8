"""A finished, signed run for tests of its record: small, with two cases, all files, and a key to check it by."""

import json
import sqlite3
from pathlib import Path

from click.testing import CliRunner

from leakledger.audit.chain import GENESIS, digest_of, digest_of_file, extended
from leakledger.audit.cli import main
from leakledger.audit.store import _SCHEMA, FILE, Store
from leakledger.audit.terminal import ITSELF

AUDIT = """
[data]
source = "fair"
rows = 120
[partition]
kind = "divergent"
parties = 3
[[preprocessing]]
encoder = "server-dictionary"
scaler = "federated-minmax"
[model]
hidden = [8]
[training]
rounds = 1
batch_size = 4
[attacks]
use = ["plaintext", "vocabulary"]
[audit]
seeds = [0, 1]
jobs = 1
baseline_draws = 2
"""


def call(*args, unforeseen=False):
    """The outcome of a command; an error that it did not foresee is one of the test, or what the test is about."""
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert (ITSELF in result.stderr) == unforeseen, result.stderr
    return result


def checked(folder, *args):
    """What `verify` says: its exit code, and the status of each file that is not as it should be, or its one line."""
    result = call("verify", folder, "--json", *args)
    if result.exit_code == 2:
        (line,) = result.stderr.strip().splitlines()
        return 2, {FILE: line}
    rows = json.loads(result.stdout)
    assert result.exit_code == (0 if all(r["ok"] for r in rows) else 1)
    return result.exit_code, {r["file"]: r["status"] for r in rows if not r["ok"]}


def made(folder: Path) -> Path:
    """Makes `folder/run`, signed with `folder/key`, of `folder/audit.toml`; the path of the run."""
    (folder / "audit.toml").write_text(AUDIT)
    call("keygen", folder / "key")
    result = call("run", folder / "audit.toml", "-o", folder / "run", "--sign", folder / "key")
    assert result.exit_code == 0, result.output
    return folder / "run"


def forge(folder, change=lambda name, document: document):
    """What a careful forger does: changes documents, takes the files as they are now, and computes the chain anew."""
    with_documents = []
    db = sqlite3.connect(folder / FILE, isolation_level=None)
    for name, document in db.execute("SELECT name, document FROM entries ORDER BY position").fetchall():
        document = document if document is None else change(name, document)
        digest = digest_of_file(folder / name) if document is None else digest_of(document.encode())
        with_documents.append((name, digest, document))
    entries = extended(GENESIS, [(name, digest) for name, digest, _ in with_documents])
    for name in ("entries_stay", "entries_remain"):
        db.execute(f"DROP TRIGGER {name}")
    for position, (entry, (*_, document)) in enumerate(zip(entries, with_documents, strict=True), 1):
        db.execute(
            "UPDATE entries SET digest = ?, head = ?, document = ? WHERE position = ?",
            (entry.digest, entry.head, document, position),
        )
    for name in ("entries_stay", "entries_remain"):
        db.execute(_SCHEMA[name])
    db.close()
    Store.read(folder).close()
