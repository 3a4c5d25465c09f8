"""Stores a ledger as one Parquet file, and verifies every message of it on reading.

One row per message: its header, route and size, the digest of its body, the head of the chain after it, body and
content. Bytes that occurred before in the file (a broadcast, an unchanged model) are stored once: later rows keep only
the digest. The content of an open message is its body; a sealed one has a content of its own, where it is known. The
public facts, `meta` and the aborts, if any, are in the file's key-value metadata, as base64 of their wire encoding.

Where a run noted times, three more columns have them: seconds at the sender, the relay and the recipient, each at its
own clock. They are outside the chain and outside the digest, and have a digest of their own: the head of a run is the
same with them and without.

What a reader can rely on: the file is whole and unchanged since it was written. That the run really had these messages
only a head from elsewhere can tell (`expected_head`), because whoever rewrites a file can compute its chain anew.
"""

import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from leakledger.preprocess.atomic_file import PRIVATE, atomic_file
from leakledger.preprocess.ledger import GENESIS, Ledger, link
from leakledger.preprocess.views import Abort, Message, PublicFacts
from leakledger.preprocess.wire import decode, encode

FORMAT = b"leakledger-transcript-2"
OLDER = (b"leakledger-transcript-1",)  # messages without kinds, public facts with display labels
NO_ABORTS = b64encode(encode([]))
GROUP_ROWS, GROUP_BYTES = 4096, 2**24  # a row group ends at the first of the two, so that memory stays bounded
HEADER = {
    "sequence": pa.int64(),
    "step": pa.string(),
    "round": pa.int64(),
    "topic": pa.string(),
    "sender": pa.string(),
    "recipient": pa.string(),
    "relay": pa.string(),
    "sealed": pa.bool_(),
}
DERIVED = {"route": pa.string(), "size": pa.int64(), "digest": pa.string(), "head": pa.string()}
OPTIONAL = {"content_digest": pa.string(), "body": pa.large_binary(), "content": pa.large_binary()}
COLUMNS = HEADER | DERIVED | OPTIONAL
TIMES = {"sent_at": "sender", "relayed_at": "relay", "received_at": "recipient"}  # column -> whose clock
DAMAGE = (pa.ArrowException, OSError, ValueError)  # what the libraries raise for a damaged file
SCHEMA = pa.schema([pa.field(n, kind, nullable=n in OPTIONAL or n == "relay") for n, kind in COLUMNS.items()])
TIMED_SCHEMA = pa.schema([*SCHEMA, *(pa.field(name, pa.float64()) for name in TIMES)])


class TranscriptError(ValueError):
    """A file that is not a whole, unchanged transcript; the text names file, first bad message and fault."""


@dataclass(frozen=True)
class Transcript:
    """A stored run: its messages, what was public in it, and what else its writer noted."""

    ledger: Ledger
    public: PublicFacts
    meta: Mapping[str, str] = field(default_factory=dict)


def write_transcript(
    path: str | os.PathLike[str], ledger: Ledger, public: PublicFacts, meta: Mapping[str, str] | None = None
) -> None:
    """Writes a run to `path`, all of it or nothing: a file that was there stays until the new one is complete.

    Raises ValueError for an open message whose content is not its body.
    """
    facts = _facts(ledger, encode(public.to_plain()), encode(meta or {}))
    with atomic_file(path, PRIVATE) as file:
        _write(file, ledger, facts)


def read_transcript(path: str | os.PathLike[str]) -> Transcript:
    """The stored run. Raises TranscriptError for a file that was changed, cut, reordered, or is no transcript, and for
    public facts of another form than this version writes.
    """
    ledger, public, meta = _whole(path)
    try:
        return Transcript(ledger, PublicFacts.from_plain(public), meta)
    except Exception:  # what is read of facts of another form raises any type
        raise TranscriptError(
            f"{path} is whole, but has public facts that this version of leakledger cannot read; read it with the "
            "version that wrote it, or run the audit again"
        ) from None


def verify_transcript(path: str | os.PathLike[str], expected_head: bytes | None = None) -> bytes:
    """The head of the stored run, whichever version wrote its public facts. Raises TranscriptError for a file that was
    changed, cut, reordered, or is no transcript, or when the head is not the expected.
    """
    head = _whole(path)[0].head
    if expected_head is not None and head != expected_head:
        raise TranscriptError(f"{path} is another run: its head is {head.hex()}, expected {expected_head.hex()}")
    return head


def _whole(path: str | os.PathLike[str]) -> tuple[Ledger, Any, Any]:
    """The messages, and the public facts and metadata as plain data."""
    with _opened(path) as parquet:
        facts = parquet.metadata.metadata or {}
        if facts.get(b"format") in OLDER:
            raise TranscriptError(
                f"{path} has the older format {facts[b'format'].decode()}, whose messages have no kinds; run the audit "
                "again to have it written anew"
            )
        if facts.get(b"format") != FORMAT or not parquet.schema_arrow.equals(_schema(b"times" in facts)):
            raise TranscriptError(f"{path} is not a transcript of format {FORMAT.decode()}")
        ledger = _read_messages(parquet, path)
        public, meta = b64decode(facts[b"public"], validate=True), b64decode(facts[b"meta"], validate=True)
        for abort in decode(b64decode(facts.get(b"aborts", NO_ABORTS), validate=True)):
            ledger.abort(Abort(**abort))
        if (count := int(facts[b"messages"])) != len(ledger):
            last = max((m.sequence for m in ledger), default=None)
            raise TranscriptError(f"{path} has {len(ledger)} of {count} messages: the last is message {last}")
        own = _facts(ledger, public, meta)
        if own.items() - facts.items() or (b"times" in facts) != (b"times" in own):
            raise TranscriptError(f"{path}: its head, public facts or metadata were changed")
        return ledger, decode(public), decode(meta)


# Writing --------------------------------------------------------------------------------------------------------


def _facts(ledger: Ledger, public: bytes, meta: bytes) -> dict[bytes, bytes]:
    """The file's metadata; its digest covers the head, the public facts and `meta`."""
    some = {b"aborts": b64encode(encode([a.to_plain() for a in ledger.aborts]))} if ledger.aborts else {}
    if ledger.times:
        some[b"times"] = _digest(encode([[m.sequence, *_times(m, ledger).values()] for m in ledger])).encode()
    return some | {
        b"format": FORMAT,
        b"messages": str(len(ledger)).encode(),
        b"head": ledger.head.hex().encode(),
        b"public": b64encode(public),
        b"meta": b64encode(meta),
        b"digest": _digest(ledger.head + hashlib.sha256(public).digest() + hashlib.sha256(meta).digest()).encode(),
    }


def _schema(timed: bool) -> pa.Schema:
    return TIMED_SCHEMA if timed else SCHEMA


def _times(message: Message, ledger: Ledger) -> dict[str, float | None]:
    """The columns of a message's times; None where there is no such end, or it noted none."""
    noted = ledger.times.get(message.sequence, {})
    return {column: noted.get(getattr(message, end)) for column, end in TIMES.items()}


def _write(file: BinaryIO, ledger: Ledger, facts: dict[bytes, bytes]) -> None:
    schema = _schema(bool(ledger.times))
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=["step", "topic", "sender", "recipient", "relay", "route"],
        write_statistics=["sequence", "round", "topic", "size"],
        write_page_checksum=True,
    ) as writer:
        for group in _groups(ledger):
            writer.write_table(pa.Table.from_pylist(group, schema))
        writer.add_key_value_metadata(facts)


def _groups(ledger: Ledger) -> Iterator[list[dict[str, Any]]]:
    """The rows, in groups that fit memory."""
    group: list[dict[str, Any]] = []
    size, head = 0, GENESIS
    seen: set[str] = set()
    for message in ledger:
        if not message.sealed and message.content != message.body:
            raise ValueError(f"message {message.sequence} is open, yet its content is not its body")
        head = link(head, message)
        group.append(_row(message, head, seen) | (_times(message, ledger) if ledger.times else {}))
        size += message.size
        if len(group) == GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    yield group


def _row(message: Message, head: bytes, seen: set[str]) -> dict[str, Any]:
    digest, body = _once(message.body, seen)
    content_digest, content = _once(message.content if message.sealed else None, seen)
    return {
        **message.header(),
        "route": message.route,
        "size": message.size,
        "digest": digest,
        "head": head.hex(),
        "content_digest": content_digest,
        "body": body,
        "content": content,
    }


def _once(data: bytes | None, seen: set[str]) -> tuple[str | None, bytes | None]:
    """The digest of `data`, and `data` itself the first time that it is seen."""
    if data is None:
        return None, None
    digest = _digest(data)
    new = digest not in seen
    seen.add(digest)
    return digest, data if new else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Reading --------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[pq.ParquetFile]:
    """The Parquet file. Whatever the libraries raise of a damaged one becomes a TranscriptError without their text,
    which may quote what they read. Nothing is read by threads: one that still holds a buffer of a Python file aborts a
    process that ends just then.
    """
    with open(path, "rb") as file:
        try:
            yield pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        except TranscriptError:
            raise
        except Exception:  # of damaged metadata, the libraries and what is read from it raise any type
            raise TranscriptError(
                f"{path} is not a whole transcript: no Parquet file, or a damaged one; copy it again, or run the audit "
                "again to have it written anew"
            ) from None


def _read_messages(parquet: pq.ParquetFile, path: str | os.PathLike[str]) -> Ledger:
    ledger = Ledger()
    stored: dict[str, bytes] = {}
    for i in range(parquet.num_row_groups):
        for row in _rows(parquet, i, ledger, path):
            try:
                ledger.append(_message(row, stored))
                _note_times(row, ledger)
                if ledger.head.hex() != row["head"]:
                    raise ValueError("it does not follow the message before it: changed, moved, or one is missing")
            except ValueError as error:
                raise TranscriptError(f"{path}: message {row['sequence']} was tampered with: {error}") from None
    return ledger


def _rows(parquet: pq.ParquetFile, group: int, before: Ledger, path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = parquet.read_row_group(group, use_threads=False).to_pylist()
        return rows
    except DAMAGE:
        last = max((m.sequence for m in before), default=None)
        where = "from its first message on" if last is None else f"after message {last}"
        raise TranscriptError(
            f"{path} is damaged {where}; copy it again, or run the audit again to have it written anew"
        ) from None


def _message(row: Mapping[str, Any], stored: dict[str, bytes]) -> Message:
    """The message of a row. Raises ValueError, saying what is wrong, where the row contradicts itself."""
    body = _fetch(row["digest"], row["body"], stored)
    content: bytes | None = body
    if row["sealed"]:
        known = row["content_digest"] is not None
        content = _fetch(row["content_digest"], row["content"], stored) if known else None
    elif row["content_digest"] is not None:
        raise ValueError("it is open, yet has a content of its own")
    message = Message(**{name: row[name] for name in HEADER}, body=body, content=content)
    if (message.route, message.size) != (row["route"], row["size"]):
        raise ValueError(f"it is {message.route} of {message.size} bytes, not {row['route']} of {row['size']}")
    return message


def _note_times(row: Mapping[str, Any], ledger: Ledger) -> None:
    for column, end in TIMES.items():
        if row.get(column) is not None:
            ledger.note_time(row["sequence"], row[end], row[column])


def _fetch(digest: str, data: bytes | None, stored: dict[str, bytes]) -> bytes:
    """The bytes with this digest: given, or stored by an earlier row."""
    if data is None and digest not in stored:
        raise ValueError("its bytes are missing")
    if data is not None and _digest(data) != digest:
        raise ValueError("its bytes do not have their digest")
    return stored.setdefault(digest, data) if data is not None else stored[digest]
