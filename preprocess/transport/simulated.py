"""All parties in one process: the way audits run. Every message still goes through bytes, seals and the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from preprocess.federation import Federation
from preprocess.transport.protocol import PartyResult, Protocol, find_protocol, perform
from preprocess.views import Message
from preprocess.wire import decode, encode


class Simulated(Federation):
    """A federation whose parties all live here."""

    def holds(self, party: str) -> bool:
        return True

    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        assert content is not None  # every sender is here
        body = self._seal(header, content)
        self.ledger.append(replace(header, body=body, content=content))
        return self._open(header, body)


def run_simulated(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    seed: int | None,
    server: str = "server",
) -> dict[str, PartyResult]:
    """What each party has after a run in this process, exactly as `projected.run_projected` would give it.

    Inputs, params and results pass through their encoding here too, so that a protocol meets the same values both ways.
    """
    fed = Simulated(clients, server=server, seed=seed)
    results = perform(fed, find_protocol(function), decode(encode(inputs)), decode(encode(params)))
    return {p: replace(r, value=decode(encode(r.value))) for p, r in results.items()}
