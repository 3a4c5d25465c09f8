"""The ledger: every message in order, as a hash chain, and its projection onto what a set of observers saw."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from preprocess.views import Message, PublicFacts, View
from preprocess.wire import encode

GENESIS = bytes(32)


class Ledger:
    """An append-only list of messages. `head` commits to all of them, in order: change one bit and it differs."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = []
        self.head = GENESIS
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        self.head = link(self.head, message)
        self._messages.append(message)

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
            raise ValueError(f"{sorted(unknown)} took no part; the parties are {[*public.clients, public.server]}")
        return View(
            observers=who,
            messages=tuple(m.as_seen_by(who) for m in self._messages if m.involves(who)),
            public=public,
            inputs={p: v for p, v in (inputs or {}).items() if p in who},
            coins={p: v for p, v in (coins or {}).items() if p in who},
        )


def link(head: bytes, message: Message) -> bytes:
    """The head after `message`: SHA-256 over the previous head, the header, the hash of the body, and the hash of the
    content of a sealed message where it is known."""
    parts = [head, encode(message.header()), hashlib.sha256(message.body).digest()]
    if message.sealed and message.content is not None:
        parts.append(hashlib.sha256(message.content).digest())
    return hashlib.sha256(b"".join(parts)).digest()
