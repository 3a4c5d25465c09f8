"""What one party or coalition saw in a stored run, as rows of plain values: shapes and sizes, never the data itself."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from leakledger.audit.observe import content_of, public_names
from leakledger.audit.store import Store, transcript_name
from leakledger.preprocess.messages import KINDS
from leakledger.preprocess.transcript import read_transcript
from leakledger.preprocess.views import Abort, Message, View


def view_rows(folder: Path, party: str, case: str | None, messages: bool) -> list[dict[str, Any]]:
    """One row per topic and sender, or per message, as a program wants it: `to` lists the recipients (null of an
    abort, which nobody was sent), `rounds` the rounds. Raises ValueError for an unknown case or party.
    """
    view = stored_view(folder, party, case)
    aborts = [_abort_row(a, view) for a in view.aborts]
    names = public_names(view.public)
    if messages:
        rows = [{"message": m.sequence} | _group_row([m], view, names) for m in view.messages]
        return [*rows, *({"message": None} | row for row in aborts)]
    groups: dict[tuple[str, ...], list[Message]] = {}
    for m in view.messages:
        groups.setdefault(tuple(_row(m, view, names).values()), []).append(m)
    return [*(_group_row(ms, view, names) for ms in groups.values()), *aborts]


def as_table(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `view_rows` as they are printed: of what was received the recipient is who looks."""
    return [dict(row) | _printed(row) for row in rows]


def _printed(row: Mapping[str, Any]) -> dict[str, Any]:
    received = str(row["seen as"]).startswith("received")
    ends = [str(r) for r in dict.fromkeys((row["rounds"][0], row["rounds"][-1]))]
    told = {"to": "" if received or row["to"] is None else ", ".join(row["to"]), "rounds": " to ".join(ends)}
    return told | ({"message": ""} if row.get("message", "") is None else {})


def case_shown(folder: Path, case: str | None) -> str:
    """The case that `view_rows` shows, and of how many it is one. Raises ValueError for an unknown one."""
    with closing(Store.read(folder)) as store:
        known = _cases(store, folder, case)
    return (case or known[0]) + (f" (one of {len(known)} cases)" if len(known) > 1 else "")


def _abort_row(abort: Abort, view: View) -> dict[str, Any]:
    """A row with the keys of a message's: who ended the run, where, and for which named reason."""
    what = {"step": abort.step, "topic": "(abort)", "from": abort.party, "to": None, "seen as": "abort"}
    return what | {"content": abort.reason} | _counts([], view) | {"rounds": [abort.round]} | _times([], view)


def _group_row(messages: list[Message], view: View, names: Collection[str]) -> dict[str, Any]:
    """Of messages that share their `_row`."""
    to = {"to": list(dict.fromkeys(m.recipient for m in messages))}
    return _row(messages[0], view, names) | to | _counts(messages, view) | _times(messages, view)


def _counts(messages: list[Message], view: View) -> dict[str, Any]:
    """How many, how large (`bytes` of bodies; `wire bytes` of what the observers saw pass, headers included), when."""
    hops = [m.hops_seen(view.observers) for m in messages]
    return {
        "messages": len(messages),
        "bytes": sum(m.size for m in messages),
        "hops": sum(hops),
        "wire bytes": sum(n * m.wire_size for n, m in zip(hops, messages, strict=True)),
        "rounds": sorted({m.round for m in messages}),
    }


def _times(messages: list[Message], view: View) -> dict[str, str]:
    """From when to when, at the observer's own clock; nothing of a run that noted no times."""
    if not view.times:
        return {}
    noted = [f"{view.times[m.sequence]:.6f}" for m in messages if m.sequence in view.times]
    return {"seconds": " to ".join(dict.fromkeys(noted[:1] + noted[-1:]))}


def stored_view(folder: Path, party: str, case: str | None) -> View:
    """The view of `party` ("server+P2" for a coalition) in one case of a stored run.

    Its transcript is verified first. Raises ValueError for one that is damaged or not the one that the record has.
    """
    with closing(Store.read(folder)) as store:
        known = _cases(store, folder, case)
        name = transcript_name(case or known[0])
        if not store.digests(name):
            raise ValueError(
                f"{folder}: kept no transcript of {case or known[0]} (--no-transcripts); to see one, run it without "
                "that option and with another --output"
            )
        transcript = read_transcript(folder / name)
        store.check_file(name)
    if any(m.topic not in KINDS for m in transcript.ledger):
        import_module("leakledger.audit.plugins")  # which registers their kinds, and takes seconds
    return transcript.ledger.view(party.split("+"), transcript.public)


def _cases(store: Store, folder: Path, case: str | None) -> list[str]:
    """All that ran, by name. Raises ValueError where none did, or this one did not."""
    known = sorted(store.finished() | {c.id for c in store.aborted()})
    if not known:
        raise ValueError(f"{folder}: no case has run yet")
    if case is not None and case not in known:
        raise ValueError(f"{case}: no such case in {folder}; there are {', '.join(known)}")
    return known


def _row(m: Message, view: View, names: Collection[str]) -> dict[str, Any]:
    """What messages of one row share; `names`: what parts of their contents are called by."""
    inside = m.sender in view.observers
    role = "sent" if inside else "received" if m.recipient in view.observers else "relayed"
    return {
        "step": m.step,
        "topic": m.topic,
        "from": m.sender,
        "to": m.recipient if inside or role == "relayed" else "",
        "seen as": f"{role} {'plaintext' if m.content is not None else 'ciphertext'}",
        "content": content_of(m, names),
    }
