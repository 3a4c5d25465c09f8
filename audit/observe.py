"""Who saw what: the messages of one case, grouped by observer, topic and sender, described without any of their
values.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from leakledger.audit.records import Observation, plural
from leakledger.preprocess.activation_norms import statistic_shapes
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import KINDS, Ciphertext, Payload, Share
from leakledger.preprocess.models import parameter_shapes
from leakledger.preprocess.views import Message, PublicFacts

MOST_PARTS = 6  # of a message that are described one by one


def observations(ledger: Ledger, public: PublicFacts) -> tuple[Observation, ...]:
    """What each single party saw over the whole run, in order of first appearance."""
    names = public_names(public)
    return tuple(o for party in (*public.clients, public.server) for o in _of_party(ledger, party, names))


def public_names(public: PublicFacts) -> frozenset[str]:
    """What everyone knows the parts of a message by: names of parties, of columns and of the model's tensors."""
    columns = [name for key in ("categorical", "numeric") for name in public.schema.get(key, ())]
    layout = [block.feature for block in public.layout.blocks] if public.layout else []
    tensors = {**parameter_shapes(public.model), **statistic_shapes(public.model)} if public.model else {}
    return frozenset([*public.clients, public.server, *columns, *layout, *tensors])


def _of_party(ledger: Ledger, party: str, names: Collection[str]) -> Iterable[Observation]:
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
            content=content_of(messages[0], names),
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


def content_of(message: Message, names: Collection[str]) -> str:
    """What the holder of `message` can say of its content: shape and type, or why it cannot say."""
    if message.content is None:
        return "sealed"
    if message.topic not in KINDS:
        return "its kind is not installed"
    try:
        payload = message.payload
    except ValueError:  # its recipient refused it too, which ended the run
        return "no message of its kind"
    return describe(payload, names)


def describe(value: Any, names: Collection[str], depth: int = 0) -> str:
    """Shape and type of a payload in words; never a value of it. Parts are called by the names of fields, which a kind
    declares, or by one of the `names`; any other key was sent as data, and is counted with its like.
    """
    if isinstance(value, Share | Ciphertext):
        return describe(value.value, names, depth)
    if isinstance(value, Payload) and value.bare:
        return describe(getattr(value, fields(value)[0].name), names, depth)
    if is_dataclass(value):
        return _parts([(f.name, getattr(value, f.name)) for f in fields(value)], names, depth)
    if isinstance(value, Mapping):
        if any(key not in names for key in value):
            return _entries(value, names)
        return _parts(list(value.items()), names, depth)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{' x '.join(map(str, value.shape))}]" if value.ndim else f"{value.dtype} number"
    if isinstance(value, list | tuple):
        return plural(len(value), "text" if value and all(isinstance(v, str) for v in value) else "item")
    kinds = {str: "text", bytes: "bytes", bool: "yes/no", int: "number", float: "number", type(None): "nothing"}
    return plural(len(value), "byte") if isinstance(value, bytes) else kinds.get(type(value), "value")


def _parts(parts: list[tuple[str, Any]], names: Collection[str], depth: int) -> str:
    """The first of them by their names; in braces below the top."""
    shown = [f"{name}: {describe(part, names, depth + 1)}" for name, part in parts[:MOST_PARTS]]
    rest = [f"and {len(parts) - MOST_PARTS} more"] if len(parts) > MOST_PARTS else []
    told = ", ".join(shown + rest)
    return told if depth == 0 else "{" + told + "}"


def _entries(value: Mapping[str, Any], names: Collection[str]) -> str:
    """How many, and what stands under the first key, which is not told: it may be a value that a party holds."""
    return f"{plural(len(value), 'entry', 'entries')} (first: {describe(next(iter(value.values())), names, 1)})"
