"""All parties in one process: the way audits run. Every message still goes through bytes, seals and the ledger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leakledger.preprocess.federation import Federation
from leakledger.preprocess.secret import new_secret
from leakledger.preprocess.transport.protocol import (
    PartyResult,
    Protocol,
    find_protocol,
    party_secrets,
    perform,
    protocol_secret,
)
from leakledger.preprocess.views import Message
from leakledger.preprocess.wire import decode, encode


class Simulated(Federation):
    """A federation whose parties all live here.

    Each party's secret is derived from `secret`, 32 bytes; None draws it from the operating system. A secret is for one
    federation: `secret.derive` gives the next one its own, and `secret.pinned` one that is public, for tests and
    benchmarks.

    A message arrives when it is sent: the times that `clock` gives are those of one process and say nothing of a
    network.
    """

    def __init__(
        self,
        clients: Sequence[str],
        *,
        server: str = "server",
        secret: bytes | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        own = new_secret() if secret is None else secret
        super().__init__(clients, server=server, secrets=party_secrets(own, clients, server), clock=clock)

    def holds(self, party: str) -> bool:
        return True

    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        assert content is not None  # every sender is here
        body = self._seal(header, content)
        self._record(replace(header, body=body, content=content))
        return self._open(header, body)


def run_simulated(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    secret: bytes | None,
    server: str = "server",
) -> dict[str, PartyResult]:
    """What each party has after a run in this process, exactly as `projected.run_projected` would give it.

    Inputs, params and results pass through their encoding here too, so that a protocol meets the same values both ways.
    The federation's secret is derived from `secret` (None: drawn), the function and everything that it is given.
    """
    own = protocol_secret(secret, function, clients, server, inputs, params)
    fed = Simulated(clients, server=server, secret=own)
    results = perform(fed, find_protocol(function), decode(encode(inputs)), decode(encode(params)))
    return {p: replace(r, value=decode(encode(r.value))) for p, r in results.items()}
