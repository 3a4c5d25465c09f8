from collections.abc import Iterator

import pytest
import zmq

from leakledger.preprocess.transport.channels import FRAMING, Channels

SOON = 5.0  # seconds within which a message on the loopback surely arrives
NEVER = 0.3


@pytest.fixture
def pair() -> Iterator[tuple[Channels, Channels]]:
    with Channels(limit=10_000) as a, Channels(limit=10_000) as b:
        addresses = {"a": {"endpoint": a.endpoint, "key": a.key}, "b": {"endpoint": b.endpoint, "key": b.key}}
        a.admit({"b": addresses["b"]})
        b.admit({"a": addresses["a"]})
        yield a, b


def test_messages_arrive_in_order_and_both_ways(pair: tuple[Channels, Channels]) -> None:
    a, b = pair
    for i in range(50):
        a.send("b", b"%d" % i, bytes(i))
        b.send("a", b"%d" % i, b"")
    assert [b.receive("a", SOON) for _ in range(50)] == [(b"%d" % i, bytes(i)) for i in range(50)]
    assert [a.receive("b", SOON) for _ in range(50)] == [(b"%d" % i, b"") for i in range(50)]


def test_what_another_party_sent_meanwhile_is_kept() -> None:
    with Channels() as a, Channels() as b, Channels() as c:
        here = {n: {"endpoint": p.endpoint, "key": p.key} for n, p in {"a": a, "b": b, "c": c}.items()}
        c.admit({n: here[n] for n in "ab"})
        for name, party in (("a", a), ("b", b)):
            party.admit({"c": here["c"]})
            for i in range(3):
                party.send("c", name.encode(), b"%d" % i)
        for name in ("b", "a"):
            assert [c.receive(name, SOON) for _ in range(3)] == [(name.encode(), b"%d" % i) for i in range(3)]


def test_silence_ends_with_the_timeout(pair: tuple[Channels, Channels]) -> None:
    assert pair[0].receive("b", 0.01) is None
    assert pair[0].receive("b", 0.0) is None


def test_a_body_beyond_the_limit_is_not_sent(pair: tuple[Channels, Channels]) -> None:
    a, b = pair
    with pytest.raises(ValueError, match="10001 bytes exceed the limit of 10000 bytes on a message"):
        a.send("b", b"header", bytes(10_001))
    a.send("b", b"header", bytes(10_000))
    assert b.receive("a", SOON) == (b"header", bytes(10_000))


def test_a_body_beyond_the_limit_of_its_recipient_does_not_arrive() -> None:
    with Channels(limit=10**6) as a, Channels(limit=100) as b:
        a.admit({"b": {"endpoint": b.endpoint, "key": b.key}})
        b.admit({"a": {"endpoint": a.endpoint, "key": a.key}})
        a.send("b", b"header", bytes(100 + 2 * FRAMING))
        assert b.receive("a", NEVER) is None


def stranger(context: zmq.Context[zmq.Socket[bytes]], victim: Channels, keys: bool) -> zmq.Socket[bytes]:
    """A socket that knows where the victim listens, and its public key."""
    socket = context.socket(zmq.PUSH)
    socket.linger = 0
    if keys:
        public, secret = zmq.curve_keypair()
        socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, victim.key.encode())
    socket.connect(victim.endpoint)
    return socket


@pytest.mark.parametrize("keys", [True, False], ids=["with keys of its own", "without encryption"])
def test_a_stranger_on_the_loopback_is_not_heard(pair: tuple[Channels, Channels], keys: bool) -> None:
    a, b = pair
    with zmq.Context() as context, stranger(context, b, keys) as socket:
        socket.send_multipart([b"forged", b"forged"])
        assert b.receive("a", NEVER) is None
        a.send("b", b"true", b"true")
        assert b.receive("a", SOON) == (b"true", b"true")


def test_nobody_is_admitted_before_the_parties_are_known() -> None:
    with Channels() as a, Channels() as b:
        a.admit({"b": {"endpoint": b.endpoint, "key": b.key}})
        a.send("b", b"early", b"")
        assert b.receive("a", NEVER) is None


def test_a_party_cannot_speak_for_another() -> None:
    with Channels() as a, Channels() as b, Channels() as c:
        here = {n: {"endpoint": p.endpoint, "key": p.key} for n, p in {"a": a, "b": b, "c": c}.items()}
        c.admit({n: here[n] for n in "ab"})
        a.admit({"c": here["c"]})
        a.send("c", b"I am b", b"")
        assert c.receive("b", NEVER) is None
        assert c.receive("a", SOON) == (b"I am b", b"")


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x05four"])
def test_anything_else_than_a_header_and_a_body_is_refused(pair: tuple[Channels, Channels], frame: bytes) -> None:
    a, b = pair
    a.send("b", b"header", b"body")
    a._outboxes["b"].send(frame)
    assert b.receive("a", SOON) == (b"header", b"body")
    with pytest.raises(ValueError, match=f"a sent {len(frame)} bytes, fewer than a header and a body"):
        b.receive("a", SOON)
