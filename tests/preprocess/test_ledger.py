from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.ledger import GENESIS, Ledger, link
from leakledger.preprocess.views import Abort, Message, PublicFacts

PARTIES = ("a", "b", "c", "server")
PUBLIC = PublicFacts(PARTIES[:-1], PARTIES[-1])


def message(sequence: int = 0, **changes: Any) -> Message:
    plain = Message(sequence, "step", 0, "topic", "a", "b", None, False, b"body", b"body")
    return replace(plain, **changes)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Messages between any parties, open or sealed, direct or relayed."""
    messages = []
    for sequence in range(draw(st.integers(0, 8))):
        sender, recipient = draw(st.permutations(PARTIES))[:2]
        relay = draw(st.sampled_from([None, *(p for p in PARTIES if p not in (sender, recipient))]))
        sealed, body = draw(st.booleans()), draw(st.binary(max_size=4))
        content = draw(st.binary(max_size=4)) if sealed else body
        messages.append(Message(sequence, "step", 0, "topic", sender, recipient, relay, sealed, body, content))
    return Ledger(messages)


def test_an_empty_ledger_starts_at_genesis() -> None:
    assert (Ledger().head, len(Ledger()), GENESIS) == (bytes(32), 0, bytes(32))


def test_the_head_depends_on_messages_and_order_only() -> None:
    one, two = message(0), message(1, topic="other")
    assert Ledger([one, two]).head == Ledger([replace(one), replace(two)]).head
    assert len({Ledger(m).head for m in ([one, two], [two, one], [one], [two], [one, two, two])}) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 9},
        {"step": "Step"},
        {"round": 1},
        {"topic": "topi"},
        {"sender": "c"},
        {"recipient": "c"},
        {"relay": "server"},
        {"sealed": True},
        {"body": b"bodz"},
        {"body": b""},
    ],
)
def test_the_head_changes_with_any_field(change: dict[str, Any]) -> None:
    assert link(GENESIS, message(0)) != link(GENESIS, message(**change))
    assert link(b"\x01" + bytes(31), message(0)) != link(GENESIS, message(0))


def test_the_head_changes_with_the_content_of_a_sealed_message() -> None:
    heads = {link(GENESIS, message(0, sealed=True, content=c)) for c in (b"one", b"two", b"", None)}
    assert len(heads) == 4


@given(ledgers(), st.data())
@settings(deadline=None)
def test_the_head_changes_with_any_bit_of_any_body(ledger: Ledger, data: st.DataObject) -> None:
    messages = list(ledger)
    candidates = [i for i, m in enumerate(messages) if m.body]
    if candidates:
        i = data.draw(st.sampled_from(candidates))
        body = bytearray(messages[i].body)
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        messages[i] = replace(messages[i], body=bytes(body))
        assert Ledger(messages).head != ledger.head


@given(ledgers(), st.sets(st.sampled_from(PARTIES), min_size=1))
@settings(deadline=None)
def test_the_view_of_a_coalition_is_the_union_of_its_members_views(ledger: Ledger, coalition: set[str]) -> None:
    members = [ledger.view({p}, PUBLIC).messages for p in coalition]
    together = ledger.view(coalition, PUBLIC).messages
    assert [m.sequence for m in together] == sorted({m.sequence for view in members for m in view})
    readable = {m.sequence for view in members for m in view if m.content is not None}
    assert {m.sequence for m in together if m.content is not None} == readable


@given(ledgers(), st.sampled_from(PARTIES))
@settings(deadline=None)
def test_an_observer_sees_exactly_the_messages_it_is_part_of(ledger: Ledger, party: str) -> None:
    seen = ledger.view({party}, PUBLIC).messages
    assert [m.sequence for m in seen] == [m.sequence for m in ledger if party in (m.sender, m.recipient, m.relay)]
    for m in seen:
        assert (m.content is None) == (m.sealed and party == m.relay)


def test_a_view_holds_the_inputs_and_coins_of_its_observers_only() -> None:
    everything = {p: p.upper() for p in PARTIES}
    view = Ledger().view({"a", "server"}, PUBLIC, inputs=everything, coins=everything)
    assert view.inputs == view.coins == {"a": "A", "server": "SERVER"}
    assert view.public is PUBLIC


def test_an_abort_changes_the_head_and_every_observer_knows_of_it() -> None:
    ledger, before = Ledger([message()]), Ledger([message()]).head
    abort = Abort("a", "fit", 3, "WireError")
    ledger.abort(abort)
    heads = {before, ledger.head}
    for changed in (replace(abort, party="b"), replace(abort, step="x"), replace(abort, round=4)):
        other = Ledger([message()])
        other.abort(changed)
        heads.add(other.head)
    ledger.abort(abort)
    assert len(heads | {ledger.head}) == 6
    assert [ledger.view({p}, PUBLIC).aborts for p in PARTIES] == [(abort, abort)] * len(PARTIES)
    assert ledger.view({"c"}, PUBLIC).restricted(lambda kind: False).aborts == (abort, abort)


def test_an_observer_that_took_no_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^'mallory' took no part; the parties are a, b, c, server$"):
        Ledger().view({"a", "mallory"}, PUBLIC)


def test_the_head_is_the_same_however_often_it_is_asked_for_and_whichever_objects_the_bodies_are() -> None:
    body = b"\x01"
    messages = [replace(message(i), body=b, content=b) for i, b in enumerate([body, b"\x02", body, bytes([1])])]
    whole, stepwise, heads = Ledger(messages), Ledger(), []
    for m in messages:
        stepwise.append(m)
        heads.append(stepwise.head)
        assert stepwise.head == heads[-1]
    expected = [GENESIS]
    for m in messages:
        expected.append(link(expected[-1], m))
    assert heads == expected[1:]
    assert whole.head == heads[-1]
