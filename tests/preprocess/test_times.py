"""When messages passed: noted on request, outside of all that a run commits to."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transcript import (
    SCHEMA,
    TIMED_SCHEMA,
    TIMES,
    TranscriptError,
    read_transcript,
    verify_transcript,
    write_transcript,
)
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.protocol import merged_ledger, perform
from leakledger.preprocess.transport.simulated import Simulated, run_simulated
from leakledger.preprocess.views import PublicFacts
from tests.preprocess import protocols
from tests.preprocess.notes import noted, tell

PUBLIC = PublicFacts(("a", "b"), "server")
Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def ticking() -> Callable[[], float]:
    """A clock that is read once a second."""
    seconds = count(100)
    return lambda: float(next(seconds))


def run(clock: Callable[[], float] | None = None) -> Ledger:
    """Four public keys of two hops and two of one, then: a -> b sealed by the server, a -> b, b -> server."""
    fed = Simulated(["a", "b"], secret=pinned(1), clock=clock)
    tell(fed, fed.at("a", 1), "b", "note", via="server", sealed=True)
    tell(fed, fed.at("a", 2), "b", "note")
    tell(fed, fed.at("b", 3), "server", "answer")
    return fed.ledger


@pytest.fixture
def timed() -> Ledger:
    return run(ticking())


def test_without_a_clock_no_time_is_noted() -> None:
    assert run().times == {}
    assert run().view({"server"}, PUBLIC).times == {}


def test_every_end_of_a_message_that_lives_here_has_its_time_since_the_federation_began(timed: Ledger) -> None:
    assert timed.times == {m.sequence: dict.fromkeys(m.ends, 1.0 + i) for i, m in enumerate(timed)}
    assert {m.ends for m in timed} >= {("a", "server", "b"), ("a", "b"), ("b", "server")}


def test_times_change_no_message_and_no_head(timed: Ledger) -> None:
    assert (tuple(timed), timed.head) == (tuple(run()), run().head)
    timed.note_time(0, "a", 7.0)
    assert timed.head == run().head


@given(st.sets(st.sampled_from(["a", "b", "server"]), min_size=1))
def test_a_view_has_the_times_of_the_messages_in_it_and_no_others(observers: set[str]) -> None:
    view = run(ticking()).view(observers, PUBLIC)
    assert list(view.times) == [m.sequence for m in view.messages]
    assert view == run().view(observers, PUBLIC)


def test_the_time_of_a_coalition_is_that_of_its_member_who_had_the_message_first() -> None:
    ledger, sealed = Ledger(run()), 6
    for party, seconds in {"a": 5.0, "server": 1.0, "b": 3.0}.items():
        ledger.note_time(sealed, party, seconds)
    seen = {p: ledger.view(p.split("+"), PUBLIC).times for p in ("a", "server", "b", "server+b", "a+b", "a+server+b")}
    assert [t[sealed] for t in seen.values()] == [5.0, 1.0, 3.0, 1.0, 5.0, 5.0]
    assert all(set(t) == {sealed} for t in seen.values())


def test_a_restricted_view_has_the_times_of_what_is_left_if_they_are_asked_for_and_none_otherwise(
    timed: Ledger,
) -> None:
    view, notes = timed.view({"b"}, PUBLIC), noted("note")
    kept = view.restricted(lambda kind: kind is notes, times=True)
    assert kept.times == {m.sequence: view.times[m.sequence] for m in kept.messages}
    assert 0 < len(kept.times) < len(view.times)
    assert view.restricted(lambda kind: kind is notes).times == {}


@given(st.lists(st.floats(0, 1e6), min_size=27, max_size=27), st.sets(st.integers(0, 26)))
@settings(deadline=None, max_examples=20)
def test_any_times_survive_in_a_transcript(tmp_path_factory: Any, seconds: list[float], missing: set[int]) -> None:
    ledger, ends = run(), [(m.sequence, p) for m in run() for p in m.ends]
    for i, (sequence, party) in enumerate(ends):
        if i not in missing:
            ledger.note_time(sequence, party, seconds[i])
    path = tmp_path_factory.mktemp("times") / "run.parquet"
    write_transcript(path, ledger, PUBLIC)
    stored = read_transcript(path).ledger
    assert stored.times == ledger.times
    assert tuple(stored) == tuple(run())
    assert verify_transcript(path, run().head) == run().head


def test_a_transcript_without_times_has_the_bytes_that_it_always_had(tmp_path: Path, timed: Ledger) -> None:
    for name, ledger in (("plain", run()), ("timed", timed)):
        write_transcript(tmp_path / name, ledger, PUBLIC)
    assert pq.read_schema(tmp_path / "plain").remove_metadata().equals(SCHEMA)
    assert b"times" not in pq.read_metadata(tmp_path / "plain").metadata
    assert read_transcript(tmp_path / "plain").ledger.times == {}
    assert pq.read_table(tmp_path / "timed").drop_columns(list(TIMES)).equals(pq.read_table(tmp_path / "plain"))


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [r | {"sent_at": 0.5} if i == 7 else r for i, r in enumerate(rows)],
        lambda rows: [r | {"received_at": None} if i == 7 else r for i, r in enumerate(rows)],
        lambda rows: [r | {"relayed_at": 1.0} if i == 7 else r for i, r in enumerate(rows)],
        lambda rows: [r | dict.fromkeys(TIMES) for r in rows],
    ],
    ids=["changed", "dropped", "made up", "all dropped"],
)
def test_changed_times_are_refused(tmp_path: Path, timed: Ledger, change: Change) -> None:
    path = tmp_path / "run.parquet"
    write_transcript(path, timed, PUBLIC)
    facts = {k: v for k, v in pq.read_metadata(path).metadata.items() if k != b"ARROW:schema"}
    rows = change(pq.read_table(path).to_pylist())
    with pq.ParquetWriter(path, TIMED_SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, TIMED_SCHEMA))
        writer.add_key_value_metadata(facts)
    with pytest.raises(TranscriptError, match="public facts or metadata were changed"):
        read_transcript(path)


@pytest.fixture(scope="module")
def parties() -> Iterator[PartyProcesses]:
    with PartyProcesses(["a", "b"], times=True) as processes:
        yield processes


def test_in_processes_every_party_notes_its_own_time_and_all_else_is_the_same(parties: PartyProcesses) -> None:
    inputs, params = {"a": 1, "b": 2}, {"via": "server", "sealed": True}
    expected = run_simulated(protocols.secure_sum, ["a", "b"], inputs, params, secret=pinned(1))
    results = parties.run(protocols.secure_sum, inputs, params, secret=pinned(1))
    assert results == expected
    for result in results.values():
        assert list(result.times) == [m.sequence for m in result.messages]
        assert all(0 <= one <= other for one, other in pairwise(result.times.values()))
    merged = merged_ledger(results)
    assert merged.head == merged_ledger(expected).head
    assert merged.times == {m.sequence: {p: results[p].times[m.sequence] for p in m.ends} for m in merged}
    assert merged_ledger(expected).times == {}
    assert merged.view({"server"}, PUBLIC).times == results["server"].times


def test_a_party_that_is_late_has_a_later_time_and_one_that_waits_does_too(parties: PartyProcesses) -> None:
    params = {"late": 0, "seconds": 0.4}  # `b` takes its time between its first message and its answer
    results = parties.run(protocols.sleeps, {"a": 1, "b": 2}, params, secret=pinned(1))
    first, second, third = 0, 1, 2
    assert results["b"].times[third] - results["b"].times[second] >= 0.4
    assert results["a"].times[third] - results["a"].times[first] >= 0.4
    assert replace(results["a"], times={}) == results["a"]


def test_simulated_parties_have_one_clock(timed: Ledger) -> None:
    fed = Simulated(["a", "b"], secret=pinned(1), clock=ticking())
    results = perform(fed, protocols.secure_sum, {"a": 1, "b": 2}, {"via": None, "sealed": False})
    assert merged_ledger(results).times == fed.ledger.times
    assert all(len(set(noted.values())) == 1 for noted in fed.ledger.times.values())
