"""A protocol as a named function, and what each party holds after a run: alike for simulated and projected runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

from preprocess.federation import At, Federation, FederationError
from preprocess.ledger import Ledger
from preprocess.views import Message

Protocol = Callable[[Federation, dict[str, At[Any]], dict[str, Any]], dict[str, At[Any]]]
"""`protocol(fed, inputs, params)`: inputs and results by the party that they live at, params public and plain."""


@dataclass(frozen=True)
class PartyResult:
    """What one party has after a run: its own result, and the messages it sent, received or passed on.

    `head` is the head of the ledger of exactly these messages.
    """

    value: Any = field(repr=False)
    messages: tuple[Message, ...]
    head: bytes

    def to_plain(self) -> dict[str, Any]:
        parts = [(m.header(), m.body, m.content if m.sealed else None) for m in self.messages]
        return {"value": self.value, "messages": parts, "head": self.head}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "PartyResult":
        parts = plain["messages"]
        messages = (Message(**h, body=body, content=content if h["sealed"] else body) for h, body, content in parts)
        return cls(plain["value"], tuple(messages), plain["head"])


def protocol_name(protocol: str | Protocol) -> str:
    """`module:qualname`, by which another process finds the function. Raises ValueError where it could not."""
    if isinstance(protocol, str):
        return protocol
    name = f"{protocol.__module__}:{protocol.__qualname__}"
    if protocol.__module__ == "__main__" or find_protocol(name) is not protocol:
        raise ValueError(f"{name} cannot be found by another process; move it to the top level of a module")
    return name


def find_protocol(protocol: str | Protocol) -> Protocol:
    """The function that `module:qualname` names. Raises ValueError when there is none."""
    if not isinstance(protocol, str):
        return protocol
    module, _, qualname = protocol.partition(":")
    try:
        return cast(Protocol, attrgetter(qualname)(import_module(module)))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{protocol!r} names no function ('module:name'): {error}") from None


def perform(
    fed: Federation, protocol: Protocol, inputs: Mapping[str, Any], params: dict[str, Any]
) -> dict[str, PartyResult]:
    """Runs `protocol`; what each party that this process holds has afterwards."""
    outcome = protocol(fed, {p: fed.at(p, v) for p, v in inputs.items()}, params)
    return {p: _result(fed, outcome, p) for p in fed.everyone if fed.holds(p)}


def _result(fed: Federation, outcome: Mapping[str, At[Any]], party: str) -> PartyResult:
    located = outcome.get(party)
    if located is not None and located.party != party:
        raise FederationError(f"the result of {party} is a value that lives at {located.party}")
    messages = tuple(m.as_seen_by({party}) for m in fed.ledger if m.involves({party}))
    return PartyResult(None if located is None else fed.own(located), messages, Ledger(messages).head)
