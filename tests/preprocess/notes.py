"""Messages that only tests send: any plain value, on any topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import About, Disclosure, Payload


@dataclass(frozen=True)
class Noted(Payload):
    """The family of them."""

    discloses = Disclosure.VALUE
    about = About.SENDER
    bare = True

    value: Any = field(repr=False)


@cache
def noted(topic: str) -> type[Noted]:
    """The kind of one topic."""
    return type(f"Note on {topic}", (Noted,), {"topic": topic, "__module__": __name__})


for _topic in (
    "note",
    "another note",
    "answer",
    "numbers",
    "moments",
    "mean",
    "name",
    "update",
    "model",
    "done",
    "open",
):
    noted(_topic)  # so that a transcript can be read by whoever imports this module


def tell(fed: Federation, value: At[Any], to: str, topic: str = "note", **route: Any) -> At[Any]:
    """`fed.send` of a plain value: the value at `to`."""
    arrived = fed.send(fed.local(value.party, noted(topic), value), to, **route)
    return fed.local(to, _value, arrived)


def spread(fed: Federation, value: At[Any], topic: str, **route: Any) -> Public[Any]:
    """`fed.broadcast` of a plain value."""
    return fed.public(_value, fed.broadcast(fed.local(value.party, noted(topic), value), **route))


def collect(fed: Federation, values: Mapping[Any, At[Any]], to: str, topic: str, **route: Any) -> list[At[Any]]:
    """`fed.gather` of plain values."""
    wrapped = {k: fed.local(v.party, noted(topic), v) for k, v in values.items()}
    return [fed.local(to, _value, p) for p in fed.gather(wrapped, to, **route)]


def _value(note: Noted) -> Any:
    return note.value


def plain(message: Any) -> Any:
    """What a message says, as plain data."""
    return message.payload.to_plain()
