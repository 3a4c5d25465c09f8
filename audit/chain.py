"""The hash chain of a record: what was noted, in order, each entry under the digest of all before it.

An entry is a name and the SHA-256 digest of the bytes that it stands for: a document of the record itself, or a file of
the run's folder. Its head is SHA-256 over the canonical JSON (no spaces, ASCII) of `[head before, name, digest]`, so
that the last head commits to every byte in its order. Anyone can compute it again with a few lines in any language.

What a chain proves: nothing that it covers was changed, moved or taken out since by whoever does not know of it, or
since a head was noted elsewhere. Who can write the record can also compute the whole chain anew; only a signature
(`audit.signature`), or a head that is kept elsewhere, tells that one from the first.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GENESIS: Final = hashlib.sha256(b"LeakLedger: the chain of a record, format 1").hexdigest()


class ChainError(ValueError):
    """Entries that do not follow from each other; the text names the first."""


@dataclass(frozen=True)
class Entry:
    """One link. `digest` and `head` are 64 hexadecimal digits."""

    name: str
    digest: str
    head: str


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_of_file(path: Path) -> str:
    """The digest of a file's bytes. Raises OSError for one that cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical(value: object) -> bytes:
    """The one JSON text of a plain value: sorted keys, no spaces, ASCII. Raises ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def extended(head: str, contents: Iterable[tuple[str, str]]) -> list[Entry]:
    """The entries of these names and digests after `head`."""
    entries = []
    for name, digest in contents:
        head = digest_of(canonical([head, name, digest]))
        entries.append(Entry(name, digest, head))
    return entries


def check_chain(entries: Sequence[Entry]) -> None:
    """Raises ChainError at the first entry that does not follow from those before it."""
    again = extended(GENESIS, [(e.name, e.digest) for e in entries])
    for number, (entry, expected) in enumerate(zip(entries, again, strict=True), 1):
        if entry != expected:
            raise ChainError(f"entry {number} ({entry.name}) was changed, moved, or one before it is missing")
