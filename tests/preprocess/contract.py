"""The contract of every protocol: run with a process per party, it gives what it gives in one process."""

import atexit
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.protocol import PartyResult, Protocol
from leakledger.preprocess.transport.simulated import run_simulated
from leakledger.preprocess.wire import encode


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
    simulated = run_simulated(function, clients, inputs, params, secret=pinned(seed), server=server)
    projected = _processes(tuple(clients), server).run(function, inputs, params, secret=pinned(seed))
    assert projected.keys() == simulated.keys()
    for party, expected in simulated.items():
        found = projected[party]
        assert [m.header() for m in found.messages] == [m.header() for m in expected.messages], party
        for one, other in zip(found.messages, expected.messages, strict=True):
            assert (one.body, one.content) == (other.body, other.content), (party, one)
        assert found.head == expected.head, party
        assert encode(found.value) == encode(expected.value), party
    return simulated


def assert_same_whatever_the_coins(
    function: str | Protocol,
    clients: Sequence[str],
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    server: str = "server",
) -> int:
    """Runs `function` both ways under secrets of their own: they agree in what does not depend on coins.

    That is what some simulated runs under different secrets agree in: headers, contents, results. Returns how many
    contents that were.
    """
    runs = [run_simulated(function, clients, inputs, params, secret=pinned("own", i), server=server) for i in range(4)]
    projected = _processes(tuple(clients), server).run(function, inputs, params, secret=pinned("own", "projected"))
    compared = 0
    for party, found in projected.items():
        results = [run[party] for run in runs]
        assert len({len(r.messages) for r in results}) == 1, party
        assert len(found.messages) == len(results[0].messages), party
        for message, *others in zip(found.messages, *(r.messages for r in results), strict=True):
            assert message.header() in [m.header() for m in others], party
            if len({m.content for m in others}) == 1 and others[0].content is not None:
                assert message.content == others[0].content, (party, message)
                compared += 1
        if len({encode(r.value) for r in results}) == 1:
            assert encode(found.value) == encode(results[0].value), party
    return compared


@cache
def _processes(clients: tuple[str, ...], server: str) -> PartyProcesses:
    processes = PartyProcesses(clients, server=server)
    atexit.register(processes.close)
    return processes
