"""The contract of every protocol: run with a process per party, it gives what it gives in one process."""

import atexit
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from preprocess.transport.processes import PartyProcesses
from preprocess.transport.protocol import PartyResult, Protocol
from preprocess.transport.simulated import run_simulated
from preprocess.wire import encode


def assert_same_views(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    seed: int = 20260,
    server: str = "server",
) -> dict[str, PartyResult]:
    """Runs `function`, at the top level of a module, both ways; the results, for further assertions.

    Every party must end with the same value, and must have sent, received and passed on the same messages in the same
    order: headers, bodies and readable contents, byte by byte, sealed ones too. The processes stay for the next call.
    """
    simulated = run_simulated(function, clients, inputs, params, seed=seed, server=server)
    projected = _processes(tuple(clients), server).run(function, inputs, params, seed=seed)
    assert projected.keys() == simulated.keys()
    for party, expected in simulated.items():
        found = projected[party]
        assert [m.header() for m in found.messages] == [m.header() for m in expected.messages], party
        for one, other in zip(found.messages, expected.messages, strict=True):
            assert (one.body, one.content) == (other.body, other.content), (party, one)
        assert found.head == expected.head, party
        assert encode(found.value) == encode(expected.value), party
    return simulated


@cache
def _processes(clients: tuple[str, ...], server: str) -> PartyProcesses:
    processes = PartyProcesses(clients, server=server)
    atexit.register(processes.close)
    return processes
