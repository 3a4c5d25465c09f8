"""A baseline: what one run measured, accepted by somebody for a reason, in a file to keep beside the configuration.

The file has a history: one entry each time that it was moved, with author, reason, the run, the head of its record
(`audit.chain`) and, where one was given, the policy under which it is accepted, each under the digest of all before it;
the last one covers the numbers. So it moves by `leakledger baseline save` alone: a file that was edited is refused. Who
can write the file can also compute the chain anew; the head of the record, noted elsewhere or signed, tells that apart.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from leakledger.audit.chain import Entry, canonical, digest_of, extended
from leakledger.audit.gate.policy import KeptPolicy, Policy
from leakledger.audit.gate.snapshot import Snapshot, Subject
from leakledger.audit.gate_records import BaselineNote
from leakledger.audit.limits import LARGEST
from leakledger.audit.records import metric_title, plural
from leakledger.audit.summary import ROUNDED, limits_of
from leakledger.preprocess import strict_json
from leakledger.preprocess.atomic_file import atomic_file

FORMAT, VERSION = "leakledger-baseline", 3
READ = (1, 2, VERSION)  # 1 held less (`UNKEPT`), 2 no policies
UNKEPT = (
    "the baseline has version 1 of its format, which holds nothing of single columns and whole rows, nor of whom "
    "findings are: these are not compared until `leakledger baseline save` writes it anew"
)
OF_DATA = ("name", "rows", "first_seed", "fingerprint")
MOST = 1 + ROUNDED  # of a series: all of what there is to know
SHOWN = 3  # settings whose methods changed
GENESIS = digest_of(b"LeakLedger: the chain of a baseline, format 1")
_SNAPSHOT = TypeAdapter(Snapshot)


class BaselineError(ValueError):
    """A file that is no baseline, or one that was changed; the text names it."""


@dataclass(frozen=True)
class Move:
    """One time that the baseline was moved, and the digest of what it became."""

    author: str
    reason: str
    created: str
    run: str
    record_head: str
    content: str
    head: str
    policy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Baseline:
    snapshot: Snapshot
    history: tuple[Move, ...]

    @property
    def last(self) -> Move:
        return self.history[-1]

    @property
    def policy(self) -> KeptPolicy | None:
        """The last policy that it was saved with; None for none. Raises ValueError for what is no policy."""
        kept = next((m.policy for m in reversed(self.history) if m.policy is not None), None)
        return None if kept is None else KeptPolicy.model_validate(kept)


_HISTORY = TypeAdapter(tuple[Move, ...])


def moved(
    snapshot: Snapshot,
    author: str,
    reason: str,
    before: Sequence[Move] = (),
    now: str = "",
    policy: Policy | None = None,
) -> Baseline:
    """A baseline of this run after those `before`, accepted under a policy. Raises ValueError for one that nobody
    vouches for, or that is of an unfinished run.
    """
    for name, text in (("author", author), ("reason", reason)):
        if not text.strip():
            raise ValueError(f"--{name}: a baseline moves with an author and a reason; {name} is empty")
    if snapshot.incomplete:
        raise ValueError(
            f"{snapshot.run}: {plural(snapshot.incomplete, 'case')} did not run to the end; finish the run first"
        )
    content = digest_of(canonical(_SNAPSHOT.dump_python(snapshot, mode="json")))
    created = now or datetime.now(UTC).isoformat(timespec="seconds")
    asked = None if policy is None else policy.model_dump(mode="json")
    move = Move(author, reason, created, snapshot.run, snapshot.head, content, "", asked)
    return Baseline(snapshot, (*before, replace(move, head=_entry(move, before).head)))


def _entry(move: Move, before: Sequence[Move]) -> Entry:
    """The link of a move after others: its name is all that it says but its head."""
    said = {name: text for name, text in asdict(move).items() if name not in ("content", "head") and text is not None}
    head = before[-1].head if before else GENESIS
    return extended(head, [(canonical(said).decode(), move.content)])[0]


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Writes the file, whole or not at all."""
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "history": [asdict(m) for m in baseline.history],
        "snapshot": _SNAPSHOT.dump_python(baseline.snapshot, mode="json"),
    }
    with atomic_file(path) as file:
        file.write(f"{json.dumps(plain, indent=1, allow_nan=False)}\n".encode())


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file. Raises BaselineError for one that is missing, is none, or was changed by hand."""
    try:
        plain = strict_json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BaselineError(f"{path}: no such file; `leakledger baseline save RUN -o {path}` writes one") from None
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested too deeply
        raise BaselineError(f"{path}: cannot be read as a baseline: {error}") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise BaselineError(f"{path}: is no baseline; `leakledger baseline save` writes one")
    if plain.get("version") not in READ:
        raise BaselineError(f"{path}: has version {plain.get('version')!r} of the format, this tool {VERSION}")
    try:
        baseline = Baseline(_SNAPSHOT.validate_python(plain["snapshot"]), _HISTORY.validate_python(plain["history"]))
        content = digest_of(canonical(plain["snapshot"]))  # as it stands there: another version has other fields
        _ = baseline.policy  # which says so where it is none
    except (ValueError, KeyError) as error:
        raise BaselineError(f"{path}: is damaged: {str(error).splitlines()[0]}") from None
    _check_chain(path, baseline, content)
    if problem := _unsound(baseline.snapshot):
        raise BaselineError(f"{path}: is damaged: {problem}")
    return baseline


def _unsound(s: Snapshot) -> str:
    """What no run measured, in words; empty for what one may have."""
    if not s.seeds:
        return "it is of no seed"
    if absent := [name for name in OF_DATA if name not in s.data]:
        return f"it does not say the {absent[0]} of its data"
    for m in (*s.measures, *(s.columns or ())):
        if not all(
            c.seed in s.seeds and -LARGEST <= min(c.value, c.prior) <= max(c.value, c.prior) < MOST for c in m.clusters
        ):
            what = "a figure that it cannot have, or a seed that is none of its run"
            return f"a series of {metric_title(m.metric)} has {what}"
    for metric, by_seed in ((metric, of) for found in s.utility.values() for metric, of in found.items()):
        low, high = limits_of(metric) or (-LARGEST, LARGEST)
        if not all(low <= value < high + ROUNDED for value in by_seed.values()):
            return f"{metric_title(metric)} is not from {low:g} to {high:g}"
    return ""


def _check_chain(path: Path, baseline: Baseline, content: str) -> None:
    for k, move in enumerate(baseline.history):
        if _entry(move, baseline.history[:k]).head != move.head:
            raise BaselineError(f"{path}: entry {k + 1} of its history was changed; a baseline moves by command alone")
    if not baseline.history or baseline.last.content != content:
        raise BaselineError(f"{path}: was changed by hand; a baseline moves by `leakledger baseline save` alone")


def matched(now: Sequence[Subject], before: Sequence[Subject]) -> dict[str, str] | None:
    """Setting of the candidate -> setting of the baseline: by name where there is one of that name, each of the others
    with the one that it has most in common with, those as like in their order; None where they are not as many.
    """
    if len(now) != len(before):
        return None
    mine, theirs = ([s.id for s in of] for of in (now, before))
    likest = sorted(product(now, before), key=lambda pair: -_in_common(*pair))  # stable: in their order
    found = {s: s for s in mine if s in theirs}
    for a, b in likest:
        if a.id not in found and b.id not in found.values():
            found[a.id] = b.id
    return {s: found[s] for s in mine}


def _in_common(a: Subject, b: Subject) -> int:
    """How many parts of two settings are the same, and how many are of one kind, as their first words say."""
    pairs = list(zip(a.parts, b.parts, strict=False))  # of a file of before there were parts: none
    return sum(x == y for x, y in pairs) + sum(x.split()[:1] == y.split()[:1] for x, y in pairs)


def note_on(now: Snapshot, baseline: Baseline, path: str) -> BaselineNote:
    """What a reader must know of the baseline: what changed since, and why it may be stale."""
    before, last = baseline.snapshot, baseline.last
    sections = [f"[{name}]" for name in now.subject if now.subject[name] != before.subject.get(name)]
    changed = [*sections, *_renamed(now.subjects, before.subjects)]
    libraries = _differing(now.versions, before.versions, ("leakledger", "instrument"))
    notes = [f"other versions of {', '.join(libraries)} than before"] if libraries else []
    if now.head == last.record_head:
        notes.append("This run is the one that it is compared with: that nothing grew says nothing of a change.")
    if before.columns is None:
        notes.append(UNKEPT)
    if set(now.seeds) != set(before.seeds):
        notes.append("other seeds than before, so runs are compared as two samples, not in pairs")
    if now.data["first_seed"] != before.data["first_seed"] and "files" in _seed_bound(now, before):
        notes.append("the first seed differs, so that the rows are the same was not checked, only the table's form")
    return BaselineNote(
        path=path,
        run=before.run,
        head=last.record_head,
        author=last.author,
        reason=last.reason,
        created=last.created,
        changed=tuple(changed),
        stale=tuple(_stale(now, before)),
        notes=tuple(notes),
    )


def _renamed(now: Sequence[Subject], before: Sequence[Subject]) -> list[str]:
    """What settings are called by their methods and options, before and now, where that differs; a few of them."""
    words, matches = {s.id: s.words for s in before}, matched(now, before) or {}
    pairs = dict.fromkeys((words[matches[s.id]], s.words) for s in now if s.id in matches)
    found = [f"{old} -> {new}" for old, new in pairs if old != new]
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"{len(found) - SHOWN} more"]


def _stale(now: Snapshot, before: Snapshot) -> list[str]:
    """Why these two are not to be compared; nothing where they may be."""
    found = []
    if conditions := _differing(now.conditions, before.conditions):
        found.append(f"it was measured under another configuration: {', '.join(f'[{c}]' for c in conditions)}")
    if (first := before.data["first_seed"]) != now.data["first_seed"] and set(now.seeds) == set(before.seeds):
        found.append(
            f"the rows are compared under the first seed: run the seeds in the order that they had, {first} first"
        )
    if data := _differing(now.data, before.data, without=_seed_bound(now, before)):
        found.append(f"it was measured on other data: {', '.join(data)}")
    if now.versions.get("leakledger") != before.versions.get("leakledger"):
        found.append(f"it was measured by version {before.versions.get('leakledger')} of this tool")
    if not now.versions.get("instrument") or not before.versions.get("instrument"):
        found.append(
            "by which attacks and scoring it or this run was measured is not in the record: run that audit again"
        )
    elif now.versions["instrument"] != before.versions["instrument"]:
        found.append("it was measured by other attacks or another scoring than this run")
    if matched(now.subjects, before.subjects) is None:
        found.append(f"it has {plural(len(before.subjects), 'setting')}, this run {len(now.subjects)}")
    if before.incomplete:
        found.append("its run was not finished")
    return found


def _seed_bound(now: Snapshot, before: Snapshot) -> tuple[str, ...]:
    """What of the data is not compared: of other first seeds the fingerprint, and files that one record lacks."""
    if now.data["first_seed"] == before.data["first_seed"]:
        return "first_seed", "schema", "files"
    known = now.data.get("files") and before.data.get("files")
    return ("first_seed", "fingerprint") if known else ("first_seed", "fingerprint", "files")


def _differing(a: Mapping[str, Any], b: Mapping[str, Any], without: Sequence[str] = ()) -> list[str]:
    return [k for k in sorted({*a, *b} - set(without)) if a.get(k) != b.get(k)]
