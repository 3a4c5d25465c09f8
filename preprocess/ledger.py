"""The ledger: every message in order, as a hash chain, and its projection onto what a set of observers saw.

Beside the messages it holds who aborted the run, if anyone did, and when messages passed, if anyone took the time.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.views import Abort, Message, PublicFacts, View
from leakledger.preprocess.wire import encode

GENESIS = bytes(32)


class Ledger:
    """An append-only list of messages, and of aborts after them. `head` commits to all, in order: change one bit and it
    differs. `times` is no part of what it commits to: number of a message -> party -> seconds since that party began,
    at its own clock.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = []
        self._head, self._linked = GENESIS, 0  # of the first so many messages
        self.aborts: tuple[Abort, ...] = ()
        self.times: dict[int, dict[str, float]] = {}
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        self._messages.append(message)

    def abort(self, abort: Abort) -> None:
        """Records that a party could not go on. It stands after all messages, whenever it happened."""
        self.aborts = (*self.aborts, abort)

    def note_time(self, sequence: int, party: str, seconds: float) -> None:
        """Records when `party` sent, passed on or took up a message: at its own clock, since it began."""
        self.times.setdefault(sequence, {})[party] = seconds

    @property
    def head(self) -> bytes:
        """SHA-256 over the head of the messages and the encoded aborts; the former alone where there are none.

        Computed when it is asked for: messages cannot change, and recording stays cheap.
        """
        hashed: dict[int, bytes] = {}  # a value that is told to many is one object, and hashed once
        for message in self._messages[self._linked :]:
            body = message.body
            digest = hashed.get(id(body)) or hashed.setdefault(id(body), hashlib.sha256(body).digest())
            self._head = link(self._head, message, digest)
        self._linked = len(self._messages)
        if not self.aborts:
            return self._head
        return hashlib.sha256(self._head + encode([a.to_plain() for a in self.aborts])).digest()

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def view(
        self,
        observers: Iterable[str],
        public: PublicFacts,
        *,
        inputs: Mapping[str, Any] | None = None,
        coins: Any = None,
    ) -> View:
        """What `observers` hold together. `inputs` and `coins` may name any party: only the observers' own are kept."""
        who = frozenset(observers)
        if unknown := who - {*public.clients, public.server}:
            everyone = [*public.clients, public.server]
            near = closest(min(unknown), everyone)
            named = ", ".join(map(repr, sorted(unknown)))
            raise ValueError(f"{named} took no part{near}; the parties are {', '.join(everyone)}")
        seen = tuple(m.as_seen_by(who) for m in self._messages if m.involves(who))
        return View(
            observers=who,
            messages=seen,
            public=public,
            inputs={p: v for p, v in (inputs or {}).items() if p in who},
            coins={p: v for p, v in (coins or {}).items() if p in who},
            aborts=self.aborts,
            times={m.sequence: t for m in seen if (t := self._time_of(m, who)) is not None},
        )

    def _time_of(self, message: Message, observers: Iterable[str]) -> float | None:
        """When the first of the message's ends that is an observer had it."""
        noted = self.times.get(message.sequence, {})
        return next((noted[p] for p in message.ends if p in observers and p in noted), None)


def link(head: bytes, message: Message, body_hash: bytes | None = None) -> bytes:
    """The head after `message`: SHA-256 over the previous head, the header, the hash of the body (`body_hash`, where it
    is known), and the hash of the content of a sealed message where it is known."""
    parts = [head, encode(message.header()), body_hash or hashlib.sha256(message.body).digest()]
    if message.sealed and message.content is not None:
        parts.append(hashlib.sha256(message.content).digest())
    return hashlib.sha256(b"".join(parts)).digest()
