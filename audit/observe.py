"""Who saw what: the messages of one case, grouped by observer, topic and sender, described without any of their
values.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from leakledger.audit.records import Observation, plural
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import KINDS
from leakledger.preprocess.views import Message, PublicFacts


def observations(ledger: Ledger, public: PublicFacts) -> tuple[Observation, ...]:
    """What each single party saw over the whole run, in order of first appearance."""
    return tuple(o for party in (*public.clients, public.server) for o in _of_party(ledger, party))


def _of_party(ledger: Ledger, party: str) -> Iterable[Observation]:
    groups: dict[tuple[str, str, str, str, str], list[Message]] = defaultdict(list)
    for message in ledger:
        if message.involves([party]):
            seen = message.as_seen_by([party])
            form = "plaintext" if seen.content is not None else "ciphertext"
            groups[seen.topic, seen.step, seen.sender, _role(seen, party), form].append(seen)
    for (topic, step, sender, role, form), messages in groups.items():
        rounds = [m.round for m in messages]
        yield Observation(
            observer=party,
            topic=topic,
            step=step,
            sender=sender,
            role=role,  # type: ignore[arg-type]
            form=form,  # type: ignore[arg-type]
            content=content_of(messages[0]),
            messages=len(messages),
            size=sum(m.size for m in messages),
            first_round=min(rounds),
            last_round=max(rounds),
            hops=sum(m.hops_seen([party]) for m in messages),
            wire_size=sum(m.hops_seen([party]) * m.wire_size for m in messages),
            discloses=str(KINDS[topic].discloses) if topic in KINDS else "",
        )


def _role(message: Message, party: str) -> str:
    if message.sender == party:
        return "sent"
    return "received" if message.recipient == party else "relayed"


def content_of(message: Message) -> str:
    """What the holder of `message` can say of its content: shape and type, or why it cannot say."""
    if message.content is None:
        return "sealed"
    if message.topic not in KINDS:
        return "its kind is not installed"
    try:
        return describe(message.payload.to_plain())
    except ValueError:  # its recipient refused it too, which ended the run
        return "no message of its kind"


def describe(value: Any, depth: int = 0) -> str:
    """Shape and type of a payload in words; never a value of it. Keys are names of features or of protocol fields."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{' x '.join(map(str, value.shape))}]" if value.ndim else f"{value.dtype} number"
    if isinstance(value, Mapping):
        shown = [f"{k}: {describe(v, depth + 1)}" for k, v in list(value.items())[:6]]
        rest = [f"and {len(value) - 6} more"] if len(value) > 6 else []
        return ", ".join(shown + rest) if depth == 0 else "{" + ", ".join(shown + rest) + "}"
    if isinstance(value, list):
        return plural(len(value), "text" if value and all(isinstance(v, str) for v in value) else "item")
    names = {str: "text", bytes: "bytes", bool: "yes/no", int: "number", float: "number", type(None): "nothing"}
    return plural(len(value), "byte") if isinstance(value, bytes) else names.get(type(value), "value")
