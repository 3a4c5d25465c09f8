"""Finished batches of a long benchmark in a file, a line of JSON each, so that it goes on where it was interrupted.

A line has its batch's key, which follows from all that decides what is found: configuration, contents of the tables,
case, and everything else that names the batch, this package's code and the libraries. What other code or another table
has left is not taken for its own, and stays in the file. Timings are of when a batch was played.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from leakledger.audit.benchmarks.base import Options
from leakledger.audit.case import Case
from leakledger.audit.chain import digest_of
from leakledger.audit.config import Config
from leakledger.audit.input_files import digests
from leakledger.audit.plugins import code_digest
from leakledger.audit.pool import each
from leakledger.audit.provenance import versions

Item = TypeVar("Item", bound=NamedTuple)
Found = TypeVar("Found")
BEGINS = b'{"key": "'  # of each line
PACKAGES = ("attacks", "audit", "defenses", "preprocess")


def each_unfinished(
    work: Callable[[Item], tuple[Item, Found]], items: Sequence[Item], kind: type[Found], options: Options
) -> Iterator[tuple[Item, Found]]:
    """What `work` finds of each item: first what `options.resume` holds already, then the others as they are finished,
    each of which is kept there. Raises ValueError for a file with a line that is none of these.
    """
    path, adapter = None if options.resume is None else Path(options.resume), TypeAdapter(kind)
    done = {} if path is None else _read(path, adapter)
    keyed = [("" if path is None else key_of(item), item) for item in items]
    left = [(key, item) for key, item in keyed if key not in done]
    yield from ((item, done[key]) for key, item in keyed if key in done)
    finished = len(items) - len(left)
    options.tell(finished, len(items))
    for key, (item, found) in each(partial(_with_key, work), left, options.jobs):
        if path is not None:
            _append(path, {"key": key, "found": adapter.dump_python(found, mode="json")})
        finished += 1
        options.tell(finished, len(items))
        yield item, found


def _with_key(work: Callable[[Item], tuple[Item, Found]], keyed: tuple[str, Item]) -> tuple[str, tuple[Item, Found]]:
    """What `work` finds of an item, with the item's key: items end in any order."""
    key, item = keyed
    return key, work(item)


def key_of(item: Any) -> str:
    """The same for two items of which the same would be found."""
    parts = {name: _plain(part) for name, part in zip(type(item)._fields, item, strict=True)}
    about = {"of": type(item).__module__, "item": parts, "code": _code(), "versions": versions()}
    return digest_of(json.dumps(about, sort_keys=True).encode())


def _plain(part: object) -> object:
    if isinstance(part, Config):
        return {**part.model_dump(mode="json"), "contents": sorted(digests(part).values())}
    return part.id if isinstance(part, Case) else part


@cache
def _code() -> tuple[str, ...]:
    return tuple(code_digest(f"leakledger.{p}") for p in PACKAGES)


def _read(path: Path, adapter: TypeAdapter[Found]) -> dict[str, Found]:
    """What the file holds, by key; nothing where there is none."""
    if not path.exists():
        return {}
    found = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):  # the last one is empty, or what an interrupt left of a line
        try:
            plain = json.loads(line)
            found[str(plain["key"])] = adapter.validate_json(json.dumps(plain["found"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f"{path}: line {number} is no batch of this benchmark; give --resume a file of its own"
            ) from None
    if lines[-1][: len(BEGINS)] != BEGINS[: len(lines[-1])]:  # `_append` would cut it off
        raise ValueError(f"{path}: its end is no batch of this benchmark; give --resume a file of its own")
    return found


def _append(path: Path, content: dict[str, Any]) -> None:
    """Adds one line, after what is whole of the file."""
    with open(path, "ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(f"{json.dumps(content)}\n".encode())
        file.flush()
        os.fsync(file.fileno())
