"""Sockets between the parties' processes: ZeroMQ on the loopback, each connection encrypted and authenticated (CURVE).

Every process draws a key pair of its own for its life; the secret half never leaves it, and only the public halves of
the run's parties are admitted. Whoever else connects is refused in the handshake, and what arrives carries the name of
the party whose key sent it. Messages of one party arrive in the order in which it sent them (one queue per party),
which is what lets a receiver demand that the next one is the one it expects. Security: CurveZMQ, ZeroMQ RFC 26.

Two things bound what a party can do to another. Every message carries the nonce of its run, and what is left of
another run on the same sockets is dropped. And of the messages of one party that are not due yet, no more than a
backlog of bytes is held: a party that goes beyond it ends the run. While its receiver computes, all but `QUEUED`
messages stay with their sender.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from time import monotonic
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

MESSAGE_LIMIT = 2**28
FRAMING = 2**16  # room for a header and for encryption, beyond the limit on bodies
HEADER_LENGTH = 4  # bytes that say how long the header is
NONCE_BYTES = 16
BACKLOG = 2**29  # bytes of one party's messages that wait for their turn
PER_MESSAGE = 256  # of these, for a message of no length
QUEUED = 16  # messages of one party that its receiver's socket takes in by itself


class Channels:
    """One party's sockets: one to receive on, one to send to each other party.

    No body is longer than `limit` bytes, and no party has more than `backlog` bytes waiting here, or one message.
    """

    def __init__(self, limit: int = MESSAGE_LIMIT, backlog: int = BACKLOG) -> None:
        self.limit, self.backlog = limit, backlog
        self._run = bytes(NONCE_BYTES)
        public, self._secret = zmq.curve_keypair()
        self.key = public.decode("ascii")
        self._peers: dict[str, tuple[str, str]] = {}
        self._names: dict[str, str] = {}
        self._outboxes: dict[str, zmq.Socket[bytes]] = {}
        self._arrived: dict[str, deque[tuple[bytes, bytes]]] = defaultdict(deque)
        self._held: dict[str, int] = defaultdict(int)  # bytes of these
        self._context = zmq.Context()
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(credentials_provider=self)
        self._inbox = self._socket(zmq.PULL)
        self._inbox.curve_server = True
        self._inbox.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._inbox.setsockopt(zmq.ZAP_DOMAIN, b"*")
        self._inbox.setsockopt(zmq.MAXMSGSIZE, limit + FRAMING)
        self._inbox.setsockopt(zmq.RCVHWM, QUEUED)
        self._inbox.bind("tcp://127.0.0.1:*")
        self.endpoint = self._inbox.getsockopt_string(zmq.LAST_ENDPOINT)

    def admit(self, peers: Mapping[str, Mapping[str, str]]) -> None:
        """Makes the other parties known: {party: {"endpoint": ..., "key": public key}}. Nobody else can send here."""
        self._peers = {party: (peer["endpoint"], peer["key"]) for party, peer in peers.items()}
        self._names = {key: party for party, (_, key) in self._peers.items()}

    def begin(self, run: bytes) -> None:
        """From here on, only messages of the run with this nonce are sent and received; what is left of others goes."""
        if len(run) != NONCE_BYTES:
            raise ValueError(f"the nonce of a run has {NONCE_BYTES} bytes, not {len(run)}")
        self._run = run
        self._arrived.clear()
        self._held.clear()

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether the holder of `key` may connect (the authenticator asks, in its own thread)."""
        return key.decode("ascii") in self._names

    def send(self, to: str, header: bytes, body: bytes) -> None:
        """Hands a message to the socket; returns at once. Raises ValueError for a body beyond the limit, and
        ConnectionRefusedError where the other party has turned this one away.
        """
        if len(body) > self.limit:
            raise ValueError(f"{len(body)} bytes exceed the limit of {self.limit} bytes on a message")
        if to not in self._outboxes:
            endpoint, key = self._peers[to]
            outbox = self._socket(zmq.PUSH)
            outbox.setsockopt(zmq.CURVE_SERVERKEY, key.encode("ascii"))
            outbox.connect(endpoint)
            self._outboxes[to] = outbox
        # One frame: of a message in several, a connection that breaks can deliver the first ones only.
        frame = self._run + len(header).to_bytes(HEADER_LENGTH, "big") + header + body
        try:
            self._outboxes[to].send(frame, zmq.NOBLOCK)
        except zmq.Again:  # a socket drops a connection that is refused, and would wait for another one for ever
            raise ConnectionRefusedError(f"{to} refuses connections of this party") from None

    def receive(self, sender: str, timeout: float) -> tuple[bytes, bytes] | None:
        """The next (header, body) of `sender`, or None after `timeout` seconds; what others sent meanwhile is kept.

        Raises ValueError for anything else than a header and a body, and for more of it than the backlog holds.
        """
        deadline = monotonic() + timeout
        while not self._arrived[sender]:
            left = deadline - monotonic()
            if not self._inbox.poll(max(0, int(1000 * left))):
                return None
            self._take()
            if left <= 0 and not self._arrived[sender]:
                return None  # others may have more and more
        header, body = self._arrived[sender].popleft()
        self._held[sender] -= _held(header, body)
        return header, body

    def _take(self) -> None:
        """Keeps one message of whoever sent it, unless it is of another run."""
        frame = self._inbox.recv(copy=False)
        # The authenticator vouches for this name: it is the holder of the connection's key.
        origin = self._names[str(frame.get("User-Id"))]
        run, header, body = _parts(frame.bytes, origin)
        if run != self._run:
            return
        waiting = self._arrived[origin]
        waiting.append((header, body))
        self._held[origin] += _held(header, body)
        if len(waiting) > 1 and self._held[origin] > self.backlog:
            raise ValueError(f"{origin} sent {len(waiting)} messages ahead of their turn, beyond {self.backlog} bytes")

    def close(self) -> None:
        for socket in (self._inbox, *self._outboxes.values()):
            socket.close(linger=0)
        self._authenticator.stop()
        self._context.term()

    def __enter__(self) -> "Channels":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _socket(self, kind: int) -> Any:
        socket = self._context.socket(kind)
        # Without a high-water mark a sender never blocks: two parties that send to each other at once cannot deadlock.
        socket.set_hwm(0)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.key.encode("ascii"))
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._secret)
        return socket


def _parts(data: bytes, origin: str) -> tuple[bytes, bytes, bytes]:
    """Nonce, header and body."""
    begin = NONCE_BYTES + HEADER_LENGTH
    end = begin + int.from_bytes(data[NONCE_BYTES:begin], "big")
    if len(data) < end:
        raise ValueError(f"{origin} sent {len(data)} bytes, fewer than a header and a body")
    return data[:NONCE_BYTES], data[begin:end], data[end:]


def _held(header: bytes, body: bytes) -> int:
    """What a message takes while it waits, in bytes; empty ones take room too."""
    return len(header) + len(body) + PER_MESSAGE
