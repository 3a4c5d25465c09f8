from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest

from leakledger.preprocess.federation import At, Federation, FederationError, PartyLost
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import generator, pinned
from leakledger.preprocess.transport.channels import Channels
from leakledger.preprocess.transport.projected import Projected, Wait
from leakledger.preprocess.transport.protocol import party_secrets
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Abort, PublicFacts
from leakledger.preprocess.wire import encode
from tests.preprocess import protocols
from tests.preprocess.contract import assert_same_views
from tests.preprocess.notes import spread, tell

CLIENTS = ["a", "b", "c"]
OWN = party_secrets(pinned(1), ["a", "b"], "server")
INPUTS = {"a": 30, "b": 2**60, "c": -7}
TOTAL = (30 + 2**60 - 7) % protocols.MODULUS


@pytest.fixture
def channels() -> Iterator[dict[str, Channels]]:
    """Three parties that know each other, in this process."""
    with ExitStack() as stack:
        parties = {p: stack.enter_context(Channels(limit=1000)) for p in ("a", "b", "server")}
        addresses = {p: {"endpoint": c.endpoint, "key": c.key} for p, c in parties.items()}
        for party, own in parties.items():
            own.admit({p: a for p, a in addresses.items() if p != party})
        yield parties


def projected(channels: dict[str, Channels], me: str, **settings: Any) -> Projected:
    return Projected(me, ["a", "b"], channels[me], **{"secret": OWN[me], "timeout": 0.2} | settings)


def together(channels: dict[str, Channels], protocol: Callable[[Federation], Any]) -> dict[str, Projected]:
    """Runs the protocol at all three parties at once."""
    feds = {p: projected(channels, p, timeout=5.0) for p in channels}
    threads = [Thread(target=protocol, args=(fed,)) for fed in feds.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return feds


@pytest.mark.parametrize(
    "params",
    [{"via": None, "sealed": False}, {"via": "server", "sealed": False}, {"via": "server", "sealed": True}],
    ids=["direct", "relayed open", "relayed sealed"],
)
def test_a_secure_sum_gives_the_same_views_in_processes(params: dict[str, Any]) -> None:
    results = assert_same_views(protocols.secure_sum, CLIENTS, INPUTS, params)
    assert {p: r.value for p, r in results.items()} == {p: {"total": TOTAL} for p in [*CLIENTS, "server"]}
    shares = [m for m in results["server"].messages if m.topic == "sum.share"]
    assert len(shares) == (6 if params["via"] else 0)
    assert all((m.content is None) == params["sealed"] for m in shares)


def test_arrays_and_coins_are_the_same_in_processes() -> None:
    results = assert_same_views(protocols.mean_model, CLIENTS, {}, {})
    assert results["a"].value.shape == (3, 2)
    assert [r.value for p, r in results.items() if p != "a"] == [None, None, None]


def test_a_process_holds_one_party_and_its_coins_only(channels: dict[str, Channels]) -> None:
    fed = projected(channels, "a")
    assert [p for p in fed.everyone if fed.holds(p)] == ["a"]
    assert fed.own(fed.coins("a")).bytes(8) == generator(OWN["a"]).bytes(8)
    assert fed.party_secrets() == {"a": OWN["a"]}
    for absent in (fed.at("b", "secret"), fed.coins("b"), fed.local("b", abs, -1)):
        with pytest.raises(FederationError, match="a value of b is not in this process"):
            fed.own(absent)


def test_a_party_that_is_unknown_has_no_process(channels: dict[str, Channels]) -> None:
    with pytest.raises(FederationError, match="'mallory' is not a party"):
        Projected("mallory", ["a", "b"], channels["a"], secret=pinned(1))


def test_each_ledger_is_the_partys_view_of_the_simulated_one(channels: dict[str, Channels]) -> None:
    def protocol(fed: Federation) -> None:
        at_b = tell(fed, fed.at("a", {"x": [1, 2]}), "b", "note", via="server", sealed=True)
        spread(fed, fed.local("b", lambda v: v["x"], at_b), "answer", via="server")

    simulated = Simulated(["a", "b"], secret=pinned(1))
    protocol(simulated)
    for party, fed in together(channels, protocol).items():
        expected = simulated.ledger.view({party}, PublicFacts(("a", "b"), "server")).messages
        assert tuple(fed.ledger) == expected
        assert fed.ledger.head == Ledger(expected).head


def test_the_course_is_the_same_for_parties_that_follow_the_same_messages(channels: dict[str, Channels]) -> None:
    def protocol(fed: Federation) -> None:
        tell(fed, fed.at("a", 1), "b", "note")

    feds = together(channels, protocol)
    assert len({fed.course for fed in feds.values()}) == 1
    assert {fed.sent for fed in feds.values()} == {1}
    alone = projected(channels, "server")
    tell(alone, alone.at("a", 1), "b", "another note")  # of others: nothing to do for the server
    assert alone.course != feds["server"].course


HEADER = {
    "sequence": 0,
    "step": "start",
    "round": 0,
    "topic": "note",
    "sender": "a",
    "recipient": "b",
    "relay": None,
    "sealed": False,
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sequence": 3}, r"brings message 3 \(a -> b, note, step start, round 0\)"),
        ({"topic": "other"}, r"brings message 0 \(a -> b, other, step start, round 0\)"),
        ({"sender": "server"}, r"brings message 0 \(server -> b, note"),
        ({"recipient": "server"}, r"brings message 0 \(a -> server, note"),
        ({"step": "fit", "round": 7}, r"brings message 0 \(a -> b, note, step fit, round 7\)"),
        ({"sealed": True}, "brings message 0"),
        ({"relay": "server"}, "brings message 0"),
        ({"topic": 1}, "brings message 0"),
    ],
)
def test_a_message_with_another_header_is_refused_naming_both(
    channels: dict[str, Channels], change: dict[str, Any], named: str
) -> None:
    channels["a"].send("b", encode(HEADER | change), encode(1))
    fed = projected(channels, "b", timeout=5.0)
    with pytest.raises(
        FederationError, match=r"b expects message 0 \(a -> b, note, step start, round 0\), but a " + named
    ):
        tell(fed, fed.at("a", None), "b", "note")
    assert len(fed.ledger) == 0
    assert fed.ledger.aborts == (Abort("b", "start", 0, "FederationError"),)


@pytest.mark.parametrize(
    "noise", [b"", b"noise", encode(7), encode([1]), encode({"sequence": 0}), encode(HEADER | {"x": 1})]
)
def test_a_header_that_is_none_is_refused(channels: dict[str, Channels], noise: bytes) -> None:
    channels["a"].send("b", noise, encode(1))
    fed = projected(channels, "b", timeout=5.0)
    with pytest.raises(FederationError, match="a sent something that is not a message"):
        tell(fed, fed.at("a", None), "b", "note")


def test_a_sealed_message_that_the_relay_changed_is_refused(channels: dict[str, Channels]) -> None:
    refused: list[FederationError] = []

    class Meddling(Projected):
        """A relay that flips the last bit of what it passes on."""

        def _pass_on(self, header, body, content, to):  # type: ignore[no-untyped-def]
            super()._pass_on(header, body[:-1] + bytes([body[-1] ^ header.sealed]), content, to)

    def protocol(fed: Federation) -> None:
        try:
            tell(fed, fed.at("a", 1), "b", "note", via="server", sealed=True)
        except FederationError as error:
            refused.append(error)

    server = Meddling("server", ["a", "b"], channels["server"], secret=OWN["server"], timeout=5.0)
    feds: list[Federation] = [projected(channels, "a", timeout=5.0), projected(channels, "b", timeout=5.0), server]
    threads = [Thread(target=protocol, args=(fed,)) for fed in feds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(e) for e in refused] == ["b refuses a message: the seal is broken (a -> b, note, step start, round 0)"]


def test_messages_that_arrive_early_wait_for_their_turn(channels: dict[str, Channels]) -> None:
    channels["server"].send("b", encode(HEADER | {"sender": "server", "sequence": 1}), encode("second"))
    channels["a"].send("b", encode(HEADER), encode("first"))
    fed = projected(channels, "b", timeout=5.0)
    arrived: list[At[Any]] = [tell(fed, fed.at(p, None), "b", "note") for p in ("a", "server")]
    assert [fed.own(v) for v in arrived] == ["first", "second"]


def test_a_silent_party_is_lost_naming_who_waited_for_what(channels: dict[str, Channels]) -> None:
    waits: list[Wait | None] = []
    fed = projected(channels, "b", on_wait=waits.append)
    with (
        fed.scope("fit", round=2),
        pytest.raises(
            PartyLost,
            match=r"a is silent: b waited 0.2 s for it \(message 0: a -> b, note, step fit, round 2\)",
        ),
    ):
        tell(fed, fed.at("a", None), "b", "note")
    assert waits == [Wait("a", "message 0: a -> b, note, step fit, round 2")]


def test_what_a_party_learns_of_one_that_is_silent_is_in_its_view(channels: dict[str, Channels]) -> None:
    fed = projected(channels, "b")
    with fed.scope("fit", round=2), pytest.raises(PartyLost):
        tell(fed, fed.at("a", None), "b", "note")
    view = fed.ledger.view({"b"}, PublicFacts(("a", "b"), "server"))
    assert view.aborts == (Abort("a", "fit", 2, "PartyLost"),)


def test_a_silent_relay_is_lost_not_the_sender(channels: dict[str, Channels]) -> None:
    fed = projected(channels, "b")
    with pytest.raises(PartyLost, match="server is silent: b waited"):
        tell(fed, fed.at("a", None), "b", "note", via="server")


def test_a_relay_waits_for_the_sender(channels: dict[str, Channels]) -> None:
    fed = projected(channels, "server")
    with pytest.raises(PartyLost, match="a is silent: server waited"):
        tell(fed, fed.at("a", None), "b", "note", via="server")


def test_a_message_beyond_the_limit_is_refused_by_its_sender(channels: dict[str, Channels]) -> None:
    fed = projected(channels, "a")
    with pytest.raises(FederationError, match=r"a cannot send to b: \d+ bytes exceed the limit of 1000 bytes .*note"):
        tell(fed, fed.at("a", bytes(2000)), "b", "note")
