from collections.abc import Iterator
from contextlib import suppress
from time import sleep

import pytest
import zmq

from leakledger.preprocess.transport.channels import FRAMING, NONCE_BYTES, Channels

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


class Endless:
    """An inbox in which there is always one more message of `a`, in place of a flood that no machine sends for sure."""

    late = 0  # messages that were asked for in the last millisecond of patience or after it

    def poll(self, milliseconds: int) -> int:
        self.late += milliseconds == 0
        assert self.late < 100_000, "a flood goes on for ever"
        return 1

    def recv(self, copy: bool) -> "Endless":
        return self

    bytes = bytes(NONCE_BYTES + 4)

    def get(self, name: str) -> str:
        return "key of a"


def test_a_flood_of_another_party_does_not_put_off_the_end_of_patience() -> None:
    with Channels(backlog=2**40) as b:
        b.admit({"a": {"endpoint": "", "key": "key of a"}, "c": {"endpoint": "", "key": "key of c"}})
        real, b._inbox = b._inbox, Endless()
        try:
            assert b.receive("c", 0.05) is None
        finally:
            b._inbox = real


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
        with suppress(zmq.Again):  # refused before it could send, and the socket has nobody left to send to
            socket.send_multipart([b"forged", b"forged"], zmq.NOBLOCK)
        assert b.receive("a", NEVER) is None
        a.send("b", b"true", b"true")
        assert b.receive("a", SOON) == (b"true", b"true")


def test_who_is_refused_is_told_so_and_does_not_wait_for_ever() -> None:
    with Channels() as a, Channels() as b:
        a.admit({"b": {"endpoint": b.endpoint, "key": b.key}})
        with pytest.raises(ConnectionRefusedError, match="b refuses connections of this party"):  # noqa: PT012
            for _ in range(1000):  # until the handshake has failed
                a.send("b", b"early", b"")
                sleep(SOON / 1000)


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


RUN, OTHER = b"r" * NONCE_BYTES, b"o" * NONCE_BYTES


def test_what_is_left_of_another_run_is_dropped(pair: tuple[Channels, Channels]) -> None:
    a, b = pair
    for channels in pair:
        channels.begin(OTHER)
    for i in range(3):
        a.send("b", b"stale", b"%d" % i)
    assert b.receive("a", SOON) == (b"stale", b"0")
    assert b.receive("a", SOON) == (b"stale", b"1")
    for channels in pair:
        channels.begin(RUN)
    a.send("b", b"new", b"")
    assert b.receive("a", SOON) == (b"new", b"")
    with pytest.raises(ValueError, match="the nonce of a run has 16 bytes, not 3"):
        a.begin(b"run")


def test_a_backlog_holds_so_many_bytes_of_each_party() -> None:
    with Channels() as a, Channels() as b, Channels(backlog=10_000) as c:
        here = {n: {"endpoint": p.endpoint, "key": p.key} for n, p in {"a": a, "b": b, "c": c}.items()}
        c.admit({n: here[n] for n in "ab"})
        for party in (a, b):
            party.admit({"c": here["c"]})
        for _ in range(3):  # what was taken makes room
            for _ in range(2):
                a.send("c", b"", bytes(4_500))
            assert c.receive("b", 0.1) is None
            assert [c.receive("a", SOON) for _ in range(2)] == [(b"", bytes(4_500))] * 2
        a.send("c", b"", bytes(100_000))  # a single message always finds room
        assert c.receive("a", SOON) == (b"", bytes(100_000))
        for _ in range(3):
            a.send("c", b"", bytes(4_500))
        with pytest.raises(ValueError, match="a sent 3 messages ahead of their turn, beyond 10000 bytes"):
            c.receive("b", SOON)


@pytest.mark.parametrize("frame", [b"", bytes(3), bytes(15), bytes(NONCE_BYTES) + b"\x00\x00\x00\x05four"])
def test_anything_else_than_a_header_and_a_body_is_refused(pair: tuple[Channels, Channels], frame: bytes) -> None:
    a, b = pair
    a.send("b", b"header", b"body")
    a._outboxes["b"].send(frame)
    assert b.receive("a", SOON) == (b"header", b"body")
    with pytest.raises(ValueError, match=f"a sent {len(frame)} bytes, fewer than a header and a body"):
        b.receive("a", SOON)
