"""What one party or coalition saw in a stored run, as rows of plain values: shapes and sizes, never the data itself."""

from pathlib import Path
from typing import Any

from audit.observe import describe
from audit.store import Store
from preprocess.transcript import read_transcript
from preprocess.views import Message, View


def view_rows(folder: Path, party: str, case: str | None, messages: bool) -> list[dict[str, Any]]:
    """One row per topic and sender, or per message. Raises ValueError for an unknown case or party."""
    view = stored_view(folder, party, case)
    if messages:
        return [_row(m, view) | {"messages": 1, "bytes": m.size, "rounds": str(m.round)} for m in view.messages]
    groups: dict[tuple[str, ...], list[Message]] = {}
    for m in view.messages:
        groups.setdefault(tuple(_row(m, view).values()), []).append(m)
    return [
        _row(ms[0], view) | {"messages": len(ms), "bytes": sum(m.size for m in ms), "rounds": _span(ms)}
        for ms in groups.values()
    ]


def _span(messages: list[Message]) -> str:
    first, last = messages[0].round, messages[-1].round
    return str(first) if first == last else f"{first} to {last}"


def stored_view(folder: Path, party: str, case: str | None) -> View:
    """The view of `party` ("server+P2" for a coalition) in one case of a stored run; its transcript is verified
    first.
    """
    store = Store.read(folder)
    known = sorted(store.finished())
    store.close()
    if not known:
        raise ValueError(f"{folder}: no case has finished yet")
    if case is not None and case not in known:
        raise ValueError(f"{case}: no such case in {folder}; there are {', '.join(known)}")
    transcript = read_transcript(folder / "transcripts" / f"{case or known[0]}.parquet")
    return transcript.ledger.view(party.split("+"), transcript.public)


def _row(m: Message, view: View) -> dict[str, Any]:
    inside = m.sender in view.observers
    role = "sent" if inside else "received" if m.recipient in view.observers else "relayed"
    return {
        "step": m.step,
        "topic": m.topic,
        "from": m.sender,
        "to": m.recipient if inside or role == "relayed" else "",
        "seen as": f"{role} {'plaintext' if m.content is not None else 'ciphertext'}",
        "content": describe(m.payload) if m.content is not None else "sealed",
    }
