import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from leakledger.preprocess.federation import FederationError, PartyLost
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import PartyProcesses, run_projected
from leakledger.preprocess.transport.protocol import PartyResult, Protocol, find_protocol, perform, protocol_name
from leakledger.preprocess.transport.simulated import Simulated, run_simulated
from leakledger.preprocess.views import Abort
from leakledger.preprocess.wire import WireError
from tests.preprocess import protocols
from tests.preprocess.contract import assert_same_views

CLIENTS = ["a", "b"]
EVERYONE = ["a", "b", "server"]
INPUTS = {"a": 1, "b": 2}
OPEN = {"via": None, "sealed": False}


@pytest.fixture(scope="module")
def parties() -> Iterator[PartyProcesses]:
    with PartyProcesses(CLIENTS, timeout=30.0, limit=10_000) as processes:
        yield processes


@pytest.fixture(scope="module")
def impatient() -> Iterator[PartyProcesses]:
    with PartyProcesses(CLIENTS, timeout=1.0) as processes:
        yield processes


def processes_of(parties: PartyProcesses) -> list[int]:
    return [r.value for r in parties.run(protocols.own_process, {}, {}, secret=None).values()]


def ends(pid: int) -> bool:
    """Whether the process ends within some seconds (a child of ours that is not collected yet has ended)."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_every_party_has_a_process_of_its_own_and_keeps_it_between_runs(parties: PartyProcesses) -> None:
    first = processes_of(parties)
    assert len({*first, os.getpid()}) == 4
    assert processes_of(parties) == first


def test_a_single_run_starts_and_ends_its_processes() -> None:
    results = run_projected(protocols.secure_sum, CLIENTS, INPUTS, OPEN, secret=pinned(3), timeout=20.0)
    assert results == run_simulated(protocols.secure_sum, CLIENTS, INPUTS, OPEN, secret=pinned(3))
    pids = [r.value for r in run_projected(protocols.own_process, CLIENTS, {}, {}, secret=pinned(3)).values()]
    assert len(set(pids)) == 3
    assert all(ends(pid) for pid in pids)


def test_a_function_is_found_by_name(parties: PartyProcesses) -> None:
    name = "tests.preprocess.protocols:secure_sum"
    assert protocol_name(protocols.secure_sum) == name
    assert find_protocol(name) is protocols.secure_sum
    expected = run_simulated(name, CLIENTS, INPUTS, OPEN, secret=pinned(3))
    assert parties.run(name, INPUTS, OPEN, secret=pinned(3)) == expected


def test_a_function_that_no_process_could_find_is_refused_before_anything_starts() -> None:
    def local(fed: Any, inputs: Any, params: Any) -> Any:
        return {}

    functions: list[Protocol] = [local, lambda fed, inputs, params: {}]
    for function in functions:
        with pytest.raises(ValueError, match="names no function"):
            PartyProcesses(CLIENTS).run(function, INPUTS, {}, secret=None)
    local.__module__ = "__main__"  # a script's own functions: in another process, __main__ is another module
    with pytest.raises(ValueError, match=r"__main__:.*local.* cannot be found by another process"):
        protocol_name(local)


@pytest.mark.parametrize("name", ["nowhere:run", "tests.preprocess.protocols:nope", "no-colon", ""])
def test_a_name_without_function_fails(parties: PartyProcesses, name: str) -> None:
    with pytest.raises(ValueError, match=r"names no function \('module:name'\)"):
        run_simulated(name, CLIENTS, INPUTS, {}, secret=pinned(1))


def test_parties_inputs_and_parameters_are_checked_before_anything_starts() -> None:
    with pytest.raises(FederationError, match="distinct, non-empty names"):
        PartyProcesses(["a", "a"])
    parties = PartyProcesses(CLIENTS)
    with pytest.raises(FederationError, match=r"inputs for \['mallory'\], but the parties are \['a', 'b', 'server'\]"):
        parties.run(protocols.secure_sum, {"mallory": 1}, {}, secret=None)
    with pytest.raises(WireError, match="object"):
        parties.run(protocols.secure_sum, {"a": object()}, {}, secret=None)
    assert parties._processes == {}


def test_a_run_repeats_with_its_secret_and_differs_with_another(parties: PartyProcesses) -> None:
    one, again, other = (parties.run(protocols.coins_of_the_system, {}, {}, secret=pinned(s)) for s in (1, 1, 2))
    assert one == again
    assert all(one[p].value != other[p].value for p in EVERYONE)


def test_coins_come_from_the_operating_system_without_a_seed(parties: PartyProcesses) -> None:
    runs = [parties.run(protocols.coins_of_the_system, {}, {}, secret=None) for _ in range(2)]
    assert len({r.value for results in runs for r in results.values()}) == 6


def test_what_a_protocol_prints_is_no_report(parties: PartyProcesses, capfd: pytest.CaptureFixture[str]) -> None:
    with PartyProcesses(CLIENTS) as fresh:  # started under the capture, whose stderr it inherits
        results = fresh.run(protocols.prints, {}, {}, secret=None)
    assert {p: r.value for p, r in results.items()} == dict.fromkeys(EVERYONE, "")
    printed = capfd.readouterr()
    assert (printed.out, printed.err.count("printed"), printed.err.count("written")) == ("", 3, 3)


def test_a_result_survives_the_pipe() -> None:
    for result in run_simulated(
        protocols.secure_sum, CLIENTS, INPUTS, {"via": "server", "sealed": True}, secret=pinned(3)
    ).values():
        assert PartyResult.from_plain(result.to_plain()) == result


FAILURES: list[tuple[Protocol, str]] = [
    (
        protocols.touches_another,
        r"failed in step start: FederationError: <lambda> at a carries a dict in its closure \(step start\)",
    ),
    (
        protocols.sends_an_object,
        r"a failed in step start: FederationError: a cannot send to b: .*Projected has no encoding",
    ),
    (protocols.returns_an_object, r"b failed in step start: WireError: .*Projected has no encoding"),
    (protocols.returns_what_lives_elsewhere, "FederationError: the result of a is a value that lives at b"),
    (
        protocols.raises,
        r"^b failed in divide at b \(step scale, round 2\): ZeroDivisionError: LEAKLEDGER_DEBUG=1 shows",
    ),
    (protocols.another_topic, r"b expects message 0 \(a -> b, odd, .*\), but a brings message 0 \(a -> b, even, "),
    (
        protocols.skips_a_message,
        r"b expects message 0 \(a -> b, first, .*\), but a brings message 0 \(a -> b, second, ",
    ),
    (
        protocols.one_more_message,
        r"control flow differs: \w+ and \w+ followed other messages \(.*1 of them.* 2\)|2 of them",
    ),
]
STANDSTILLS: list[tuple[Protocol, str]] = [
    (
        protocols.wait_for_each_other,
        "control flow differs: the parties wait for each other, [ab] too, where [ab] waited",
    ),
    (
        protocols.ends_early,
        r"control flow differs: a has finished, where b waited 1 s for it \(message 0: a -> b, only",
    ),
]


@pytest.mark.parametrize(("function", "text"), FAILURES, ids=lambda f: getattr(f, "__name__", ""))
def test_what_goes_wrong_in_one_party_ends_the_run_by_name(
    parties: PartyProcesses, function: Protocol, text: str
) -> None:
    before = processes_of(parties)
    with pytest.raises(FederationError, match=text) as caught:
        parties.run(function, INPUTS, {}, secret=pinned(3))
    assert not isinstance(caught.value, PartyLost)
    assert all(ends(pid) for pid in before)


@pytest.mark.parametrize(("function", "text"), STANDSTILLS, ids=lambda f: getattr(f, "__name__", ""))
def test_control_flow_that_comes_to_a_standstill_is_told_from_silence(
    impatient: PartyProcesses, function: Protocol, text: str
) -> None:
    with pytest.raises(FederationError, match=text) as caught:
        impatient.run(function, INPUTS, {}, secret=pinned(3))
    assert not isinstance(caught.value, PartyLost)


REFUSALS: list[tuple[Protocol, str]] = [
    (
        protocols.one_field_too_many,
        r"b refuses message 0: it is no LocalMeans: 1 field too many \(a -> b, zscore.mean, step means, round 2\)",
    ),
    (
        protocols.kind_that_is_not_installed,
        r"b refuses message 0: no installed kind of message has the topic 'gone'; install .+ "
        r"\(a -> b, gone, step means, round 2\)",
    ),
    (
        protocols.nested_lists,
        r"b refuses message 0: 200005 bytes hold too many lists, maps and arrays: more than 16 times their size "
        r"\(a -> b, note, step means, round 2\)",
    ),
]


@pytest.mark.parametrize(("function", "text"), REFUSALS, ids=lambda f: getattr(f, "__name__", ""))
def test_a_message_that_its_recipient_cannot_take_is_named_in_one_line_by_both_transports(
    function: Protocol, text: str
) -> None:
    fed = Simulated(["a", "b"], secret=pinned(3))
    with pytest.raises(FederationError, match="^" + text) as simulated:
        perform(fed, function, {}, {})
    with (
        PartyProcesses(["a", "b"]) as parties,
        pytest.raises(
            FederationError, match=r"^b failed in step means, round 2: FederationError: " + text
        ) as projected,
    ):
        parties.run(function, {}, {}, secret=pinned(3))
    (abort,) = fed.ledger.aborts
    assert projected.value.abort == abort
    assert (abort.party, abort.step, abort.round) == ("b", "means", 2)
    for error in (simulated.value, projected.value):
        assert "\n" not in str(error)
        assert "confidential" not in str(error)
        assert "secret" not in str(error)


def test_a_message_beyond_the_limit_is_refused(parties: PartyProcesses) -> None:
    with pytest.raises(FederationError, match="bytes exceed the limit of 10000 bytes on a message"):
        parties.run(protocols.sleeps, {"a": bytes(20_000)}, {"late": 0, "seconds": 0}, secret=pinned(3))


WAITED = r"\(message 2: b -> a, ring.third, step ring, round 3\)"


def test_a_silent_party_is_lost_by_name_even_behind_a_relay(impatient: PartyProcesses) -> None:
    with pytest.raises(PartyLost, match=f"^b is silent: server waited 1 s for it {WAITED}$") as lost:
        impatient.run(protocols.sleeps, INPUTS, {"late": 0.3, "seconds": 60}, secret=pinned(3))
    assert lost.value.abort == Abort("b", "", 0, "PartyLost")


def test_a_party_that_is_only_slow_is_not_lost(parties: PartyProcesses) -> None:
    assert parties.run(protocols.sleeps, INPUTS, {"late": 0, "seconds": 0.3}, secret=pinned(3))["a"].value == 1


@pytest.mark.parametrize(
    ("function", "how"), [(protocols.dies, "killed by SIGKILL"), (protocols.exits, "exit status 3")]
)
def test_a_party_whose_process_ends_is_lost_by_name(parties: PartyProcesses, function: Protocol, how: str) -> None:
    with pytest.raises(PartyLost, match=f"^b ended \\({how}\\) while (server|a) waited for it {WAITED}$"):
        parties.run(function, INPUTS, {}, secret=pinned(3))


def test_a_process_that_ended_between_runs_is_lost_and_replaced(parties: PartyProcesses) -> None:
    os.kill(processes_of(parties)[0], signal.SIGKILL)
    with pytest.raises(PartyLost, match=r"^a ended \(killed by SIGKILL\)"):
        parties.run(protocols.secure_sum, INPUTS, OPEN, secret=pinned(3))
    expected = run_simulated(protocols.secure_sum, CLIENTS, INPUTS, OPEN, secret=pinned(3))
    assert parties.run(protocols.secure_sum, INPUTS, OPEN, secret=pinned(3)) == expected


SURELY = 60.0  # seconds within which what should end by a deadline has surely ended


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What `work` returns or raises; fails where it goes on for longer."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"it goes on after {seconds:g} s"
    return outcome[0]


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [["b"], ["a", "b", "server"]], ids=["one", "all"])
def test_a_party_that_is_stopped_in_its_last_step_is_lost_by_name(stopped: list[str]) -> None:
    with PartyProcesses(CLIENTS, timeout=SURELY * 60, life=3.0) as parties:
        pids = processes_of(parties)
        error = within(SURELY, lambda: parties.run(protocols.stops, INPUTS, {"stopped": stopped}, secret=pinned(3)))
    assert isinstance(error, PartyLost)
    assert re.match(f"({'|'.join(stopped)}) is silent: no sign of life for 3 s", str(error))
    assert error.abort is not None
    assert error.abort.party in stopped
    assert all(ends(pid) for pid in pids)


def test_a_party_that_computes_on_and_on_while_nobody_waits_for_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakledger.preprocess.transport.watch.MARGIN_SECONDS", 0.5)
    with PartyProcesses(CLIENTS, timeout=1.0, life=SURELY * 60) as parties:
        processes_of(parties)
        error = within(SURELY, lambda: parties.run(protocols.never_ends, INPUTS, {}, secret=pinned(3)))
    assert isinstance(error, PartyLost)
    assert str(error) == "b is silent: no party has got any further for 1 s"


def test_a_party_that_is_only_slow_in_its_last_step_is_not_lost(impatient: PartyProcesses) -> None:
    inputs = INPUTS | {"a": 7}
    assert impatient.run(protocols.slow_at_the_end, inputs, {"seconds": 1.5}, secret=pinned(3))["b"].value == 7


@pytest.mark.slow
def test_a_process_that_was_stopped_between_runs_does_not_block_the_driver() -> None:
    with PartyProcesses(CLIENTS, timeout=SURELY * 60, life=3.0) as parties:
        pids = processes_of(parties)
        os.kill(pids[1], signal.SIGSTOP)
        large = INPUTS | {"b": bytes(2**22)}  # more than a pipe takes
        error = within(SURELY, lambda: parties.run(protocols.secure_sum, large, OPEN, secret=pinned(3)))
    assert isinstance(error, PartyLost)
    assert str(error) == "b is silent: it has taken none of its input for 3 s"
    assert all(ends(pid) for pid in pids)


def test_a_process_that_does_not_heed_the_last_word_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakledger.preprocess.transport.processes.STOP_SECONDS", 0.1)
    parties = PartyProcesses(CLIENTS)
    pids = processes_of(parties)
    os.kill(pids[0], signal.SIGSTOP)
    assert within(SURELY, parties.close) is None
    assert all(ends(pid) for pid in pids)


def test_a_flood_does_not_put_off_the_end_of_patience() -> None:
    """Nothing of the flood is due, and all of it small enough for the backlog."""
    with PartyProcesses(CLIENTS, timeout=1.0, backlog=2**40) as parties:
        processes_of(parties)
        params = {"seconds": SURELY * 60, "size": 1}
        error = within(SURELY, lambda: parties.run(protocols.floods, INPUTS, params, secret=pinned(3)))
    assert isinstance(error, PartyLost)
    assert str(error).startswith("b is silent: a waited 1 s for it (message 0")


def test_a_party_that_sends_more_than_the_backlog_ahead_of_its_turn_ends_the_run() -> None:
    with PartyProcesses(CLIENTS, timeout=SURELY * 60, limit=2**16, backlog=2**20) as parties:
        params = {"seconds": SURELY * 60, "size": 2**16}
        error = within(SURELY, lambda: parties.run(protocols.floods, INPUTS, params, secret=pinned(3)))
    assert isinstance(error, FederationError)
    assert not isinstance(error, PartyLost)
    assert "a waits for b, but server sent 16 messages ahead of their turn, beyond 1048576 bytes" in str(error)


def test_what_is_left_of_one_run_is_not_taken_in_the_next(parties: PartyProcesses) -> None:
    once, often = {"times": 1}, {"times": 3}
    for value in (1, 2, 3, 4):
        found = parties.run(protocols.sends_twice, {"a": value, "b": 0}, often, secret=pinned(3))
        assert found["b"].value == value
    assert parties.run(protocols.sends_twice, {"a": 5, "b": 0}, once, secret=pinned(3))["b"].value == 5


def test_a_party_that_reports_what_is_no_report_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with PartyProcesses(CLIENTS) as parties:
        pids = processes_of(parties)
        monkeypatch.setattr("leakledger.preprocess.transport.processes.STOP_SECONDS", 0.1)
        error = within(SURELY, lambda: parties.run(protocols.reports_nonsense, INPUTS, {}, secret=pinned(3)))
    assert isinstance(error, PartyLost)
    assert str(error).startswith("b ended (it runs, but what it reports cannot be read) ")
    assert all(ends(pid) for pid in pids)


def test_processes_end_with_an_exception_in_the_driver() -> None:
    pids: list[int] = []

    def drive() -> None:
        with PartyProcesses(CLIENTS) as parties:
            pids.extend(processes_of(parties))
            raise KeyError

    with pytest.raises(KeyError):
        drive()
    assert len(pids) == 3
    assert all(ends(pid) for pid in pids)


DRIVER = """
import time
from leakledger.preprocess.transport.processes import PartyProcesses
from tests.preprocess import protocols
with PartyProcesses(["a", "b"]) as parties:
    print(*(r.value for r in parties.run(protocols.own_process, {}, {}, secret=None).values()), flush=True)
    parties.run(protocols.sleeps, {"a": 1}, {"late": 0, "seconds": 600}, secret=None)
"""


def test_processes_end_when_their_driver_is_killed() -> None:
    paths = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        driver.kill()
    assert len(pids) == 3
    assert all(ends(pid) for pid in pids)


def test_the_contract_notices_what_differs_between_runs() -> None:
    with pytest.raises(AssertionError):
        assert_same_views(protocols.own_process, ["a", "b", "c"], {}, {})
