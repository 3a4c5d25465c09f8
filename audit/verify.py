"""Checks all files of a run's folder against the record, and the record against itself and its signature."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from leakledger.audit import signature, store
from leakledger.audit.signature import Signature, SignatureError, read_signature
from leakledger.audit.store import DOCUMENTS, REPORT, RESULTS, SECRETS, TRANSCRIPTS, Store, transcript_name
from leakledger.preprocess.atomic_file import ENDING
from leakledger.preprocess.transcript import verify_transcript

UNRECORDED = "not in the record"
LATE = "not signed: written after the signature; `leakledger run --sign` signs anew"


@dataclass(frozen=True)
class Checked:
    """One file of a run: `ok` unless it is damaged, missing, or not what was signed; `status` says which."""

    file: str
    status: str
    ok: bool = True


def verify_run(folder: Path, key: str | None = None) -> list[Checked]:
    """One row per file of the run. With `key`, the record must be signed, all of it, by that public key.

    Raises StoreError, in one line, where the record itself is damaged, for nothing can be told by it then.
    """
    with closing(Store.read(folder)) as record:
        signed, row = _signature(record, key)
        rows = [Checked(store.FILE, f"intact: head {record.head}"), *([row] if row else [])]
        heads = {transcript_name(c.id): c.transcript_head for c in (*record.aborted(), *record.cases())}
        kept = record.facts().transcripts
        missing = [n for n in heads if kept and not record.digests(n)]
        rows += [Checked(n, "damaged: the record has its case, but not its digest", False) for n in missing]
        for name in dict.fromkeys(e.name for e in record.entries if not e.name.startswith(DOCUMENTS)):
            rows.append(_file(record, name, heads.get(name), signed))
        late = record.entries[signed.entries :] if signed else ()
        rows += [Checked(e.name, f"in the record, but {LATE}", False) for e in late if e.name.startswith(DOCUMENTS)]
        if not record.complete and not (folder / RESULTS).exists():
            rows.append(Checked(RESULTS, "absent: the run is not finished"))
        return rows + list(_others(record, {r.file for r in rows}))


def _signature(record: Store, key: str | None) -> tuple[Signature | None, Checked | None]:
    """The signature of the record, if it is one, and the row that says so."""
    try:
        signed = read_signature(record)
    except SignatureError as error:
        return None, Checked(signature.FILE, f"damaged: {error}", False)
    if signed is None:
        return None, None if key is None else Checked(signature.FILE, "missing: not signed by the given key", False)
    if key not in (None, signed.key):
        return signed, Checked(signature.FILE, f"signed by another key, {signed.key}", False)
    whose = "the given key" if key else f"{signed.key}; whose key that is, --verify-key can tell"
    return signed, Checked(signature.FILE, f"intact: signed by {whose}")


def _file(record: Store, name: str, head: str | None, signed: Signature | None) -> Checked:
    """The row of a file that the record has; `head` is that of a transcript."""
    path = record.folder / name
    if not path.is_file():
        return _absent(name)
    try:
        if head is not None:
            verify_transcript(path, bytes.fromhex(head))  # says which message is wrong
        digest = record.check_file(name)
    except (ValueError, OSError) as error:
        return Checked(name, f"damaged: {' '.join(str(error).split())}", False)
    covered = record.entries if signed is None else record.entries[: signed.entries]
    if (name, digest) not in {(e.name, e.digest) for e in covered}:
        return Checked(name, LATE, False)
    return Checked(name, "intact")


def _absent(name: str) -> Checked:
    if name == SECRETS:
        return Checked(name, "absent: only a replay needs it, or to go on with an unfinished run")
    again = {REPORT: "`leakledger report` writes it again", RESULTS: "the command of the run writes it again"}
    return Checked(name, f"missing: {again.get(name, 'nothing of it is left')}", False)


def _others(record: Store, known: set[str]) -> Iterator[Checked]:
    """Files of the folder that the record does not have."""
    own = {store.LOCK, signature.FILE, store.FILE}
    for path in sorted(p for p in record.folder.rglob("*") if p.is_file()):
        name = path.relative_to(record.folder).as_posix()
        if name in known | own:
            continue
        if name.endswith(ENDING) or name.startswith(f"{store.FILE}-"):
            yield Checked(name, "left by a process that was killed, or in use; the next run removes it")
        elif name in (RESULTS, REPORT, SECRETS) or name.startswith(f"{TRANSCRIPTS}/"):
            yield Checked(name, UNRECORDED, not record.complete)
        else:
            yield Checked(name, f"{UNRECORDED}: no file of the run")
