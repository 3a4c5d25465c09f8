"""A protocol as a named function, and what each party holds after a run: alike for simulated and projected runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

from leakledger.preprocess.federation import At, Federation, FederationError
from leakledger.preprocess.frozen import freeze
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import derive, new_secret
from leakledger.preprocess.views import Message
from leakledger.preprocess.wire import encode

Protocol = Callable[[Federation, dict[str, At[Any]], dict[str, Any]], dict[str, At[Any]]]
"""`protocol(fed, inputs, params)`: inputs and results by the party that they live at, params public and plain."""


@dataclass(frozen=True)
class PartyResult:
    """What one party has after a run: its own result, and the messages it sent, received or passed on.

    `head` is the head of the ledger of exactly these messages. `times`: when the party had each, by number and at its
    own clock, where they were noted; results that differ only in them are equal.
    """

    value: Any = field(repr=False)
    messages: tuple[Message, ...]
    head: bytes
    times: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)

    def to_plain(self) -> dict[str, Any]:
        parts = [(m.header(), m.body, m.content if m.sealed else None) for m in self.messages]
        return {"value": self.value, "messages": parts, "head": self.head, "times": list(self.times.items())}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "PartyResult":
        parts = plain["messages"]
        messages = (Message(**h, body=body, content=content if h["sealed"] else body) for h, body, content in parts)
        return cls(plain["value"], tuple(messages), plain["head"], dict(plain["times"]))


def merged_ledger(results: Mapping[str, PartyResult], *, whole: bool = True) -> Ledger:
    """All messages of a run, from what each party holds of it; contents are those that the sender kept, times each
    party's own.

    Raises FederationError where two parties hold one message differently, or none holds it (unless the run is not
    `whole`: it ended before its time).
    """
    merged: dict[int, Message] = {}
    for party, result in results.items():
        for m in result.messages:
            known = merged.setdefault(m.sequence, m)
            if (m.header(), m.body) != (known.header(), known.body):
                raise FederationError(f"{party} holds another message {m.sequence} than {known.sender}")
            if m.sender == party:
                merged[m.sequence] = m
    if whole and (missing := sorted({*range(len(merged))} - merged.keys())):
        raise FederationError(f"no party holds message {missing[0]}")
    ledger = Ledger(merged[n] for n in sorted(merged))
    for party, result in results.items():
        for sequence, seconds in result.times.items():
            ledger.note_time(sequence, party, seconds)
    return ledger


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


def party_secrets(secret: bytes, clients: Sequence[str], server: str) -> dict[str, bytes]:
    """The secret of each party of the federation that has `secret`."""
    return {p: derive(secret, "party", list(clients), server, p) for p in (*clients, server)}


def protocol_secret(
    secret: bytes | None,
    protocol: str | Protocol,
    clients: Sequence[str],
    server: str,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
) -> bytes:
    """The secret of one run of `protocol`: other parties, inputs or params have another. None: drawn afresh."""
    if secret is None:
        return new_secret()
    name = protocol if isinstance(protocol, str) else f"{protocol.__module__}:{protocol.__qualname__}"
    given = sha256(encode([dict(inputs), dict(params)])).digest()
    return derive(secret, "protocol", name, list(clients), server, given)


def perform(
    fed: Federation, protocol: Protocol, inputs: Mapping[str, Any], params: dict[str, Any]
) -> dict[str, PartyResult]:
    """Runs `protocol`; what each party that this process holds has afterwards."""
    with fed.running():
        outcome = protocol(fed, {p: fed.at(p, v) for p, v in inputs.items()}, freeze(params))
    return {p: _result(fed, outcome, p) for p in fed.everyone if fed.holds(p)}


def _result(fed: Federation, outcome: Mapping[str, At[Any]], party: str) -> PartyResult:
    located = outcome.get(party)
    if located is not None and located.party != party:
        raise FederationError(f"the result of {party} is a value that lives at {located.party}")
    return held_by(party, fed.ledger, None if located is None else fed.own(located))


def held_by(party: str, ledger: Ledger, value: Any = None) -> PartyResult:
    """What `party` has of a run with this ledger, finished or not."""
    messages = tuple(m.as_seen_by({party}) for m in tuple(ledger) if m.involves({party}))
    times = {n: noted[party] for n, noted in dict(ledger.times).items() if party in noted}
    return PartyResult(value, messages, Ledger(messages).head, times)
