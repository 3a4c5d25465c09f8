"""What is left of a projected run that failed: the messages of the parties that were still there, and how it ended."""

from io import BytesIO
from queue import SimpleQueue
from typing import Any

import pytest

from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.party import HOLDINGS, Reports, _listen
from leakledger.preprocess.transport.pipes import read_frame, write_frame
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.protocol import PartyResult, Protocol, merged_ledger
from leakledger.preprocess.transport.simulated import run_simulated
from leakledger.preprocess.views import Abort
from leakledger.preprocess.wire import encode
from tests.preprocess import protocols

TO_B = [("a", "server"), ("server", "b")]


def secure_sum() -> dict[str, PartyResult]:
    params = {"via": None, "sealed": False}
    return run_simulated(protocols.secure_sum, ["a", "b"], {"a": 1, "b": 2}, params, secret=pinned(1))


@pytest.mark.parametrize(
    ("function", "inputs", "route", "abort", "ends"),
    [
        (protocols.dies, {"a": 1, "b": 2}, TO_B, Abort("b", "", 0, "PartyLost"), [{"a", "server"}, {"server"}]),
        (protocols.one_field_too_many, {}, [("a", "b")], Abort("b", "means", 2, "MessageFormatError"), [{"a", "b"}]),
    ],
    ids=["a party is gone", "a party refuses"],
)
def test_the_parties_that_are_left_hand_in_what_they_held(
    function: Protocol, inputs: dict[str, Any], route: list[Any], abort: Abort, ends: list[set[str]]
) -> None:
    with PartyProcesses(["a", "b"], times=True) as parties, pytest.raises(FederationError) as caught:
        parties.run(function, inputs, {}, secret=pinned(1))
    ledger = caught.value.ledger
    assert ledger is not None
    assert [(m.sender, m.recipient) for m in ledger] == route
    assert ledger.aborts == (abort,) == (caught.value.abort,)
    assert [set(ledger.times[m.sequence]) for m in ledger] == ends  # who is gone took its times along


@pytest.mark.parametrize("begun", [False, True])
def test_a_party_that_has_not_begun_a_run_holds_nothing_of_the_one_before(begun: bool) -> None:
    whole = secure_sum()
    told, answers = BytesIO(), BytesIO()
    for frame in [{"job": 1}] * begun + [{HOLDINGS: "a"}, None]:
        write_frame(told, encode(frame))
    told.seek(0)
    reports = Reports(answers)
    reports.ledger = merged_ledger(whole)
    _listen(told, SimpleQueue(), reports)
    answers.seek(0)
    held = PartyResult.from_plain(read_frame(answers)["held"])
    assert held.messages == (() if begun else whole["a"].messages)


def test_what_is_left_of_a_run_may_have_gaps_where_a_whole_run_may_not() -> None:
    whole = secure_sum()
    left = {"a": whole["a"]}
    with pytest.raises(FederationError, match="no party holds message"):
        merged_ledger(left)
    assert tuple(merged_ledger(left, whole=False)) == whole["a"].messages
