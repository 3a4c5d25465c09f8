"""The federation as one party's own process sees it: only this party's values are here, the others' are absent.

That a protocol gives the same results and the same messages as in a simulated run shows that nothing passed between its
parties beside the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakledger.preprocess.federation import Federation, FederationError, PartyLost, describe
from leakledger.preprocess.ledger import GENESIS, link
from leakledger.preprocess.transport.channels import Channels
from leakledger.preprocess.views import Message
from leakledger.preprocess.wire import WireError, decode, encode

PATIENCE = 0.1  # seconds that a party waits for a message before it says so


@dataclass(frozen=True)
class Wait:
    """A party waits for `hop`, which has to send or pass on the message that `what` describes."""

    hop: str
    what: str


class Projected(Federation):
    """The federation of the party `me`, which has its own `secret` and no other.

    Its ledger holds the messages that `me` sent, received or passed on.

    A message is waited for `timeout` seconds, then the party that should have brought it counts as lost. `on_wait` is
    told of a wait that takes noticeable time, and with None of its end. `course` commits to the header of every message
    of the protocol, of other parties too: parties whose control flow is the same end with the same course. `clock` is
    that of `me`: it notes when `me` hands a message on, or takes it up.
    """

    def __init__(
        self,
        me: str,
        clients: Sequence[str],
        channels: Channels,
        *,
        secret: bytes,
        server: str = "server",
        timeout: float = 60.0,
        on_wait: Callable[[Wait | None], Any] = lambda wait: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.me, self.course = me, GENESIS
        super().__init__(clients, server=server, secrets={me: secret}, clock=clock)
        self._known(me)
        self._channels, self._timeout, self._on_wait = channels, timeout, on_wait

    @property
    def sent(self) -> int:
        """Messages of the protocol so far, this party's or not."""
        return self._sequence

    def holds(self, party: str) -> bool:
        return party == self.me

    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        self.course = link(self.course, header)
        if content is not None:
            body = self._seal(header, content)
            self._pass_on(header, body, content, to=header.relay or header.recipient)
        elif self.me == header.relay:
            body = self._await(header, hop=header.sender)
            self._pass_on(header, body, None if header.sealed else body, to=header.recipient)
        elif self.me == header.recipient:
            body = self._await(header, hop=header.relay or header.sender)
            content = self._open(header, body)
            self._record(replace(header, body=body, content=content))
            return content
        return None

    def _pass_on(self, header: Message, body: bytes, content: bytes | None, to: str) -> None:
        self._record(replace(header, body=body, content=content))
        try:
            self._channels.send(to, encode(header.header()), body)
        except ValueError as error:
            self._abort(self.me, error)
            raise FederationError(f"{self.me} cannot send to {to}: {error} ({describe(header)})") from None

    def _await(self, expected: Message, hop: str) -> bytes:
        """The body of the expected message. Raises FederationError when `hop` brings another, PartyLost when none."""
        patience = min(PATIENCE, self._timeout / 2)
        arrived = self._receive(expected, hop, patience)
        if arrived is None:
            what = f"message {expected.sequence}: {describe(expected)}"
            self._on_wait(Wait(hop, what))
            arrived = self._receive(expected, hop, self._timeout - patience)
            if arrived is None:
                lost = PartyLost(f"{hop} is silent: {self.me} waited {self._timeout:g} s for it ({what})")
                self._abort(hop, lost)
                raise lost
            self._on_wait(None)
        header, body = arrived
        found = _message(header, hop)
        if found != expected:
            other = FederationError(
                f"{self.me} expects message {expected.sequence} ({describe(expected)}), "
                f"but {hop} brings message {found.sequence} ({describe(found)})"
            )
            self._abort(self.me, other)
            raise other
        return body

    def _receive(self, expected: Message, hop: str, seconds: float) -> tuple[bytes, bytes] | None:
        """Raises FederationError where a party sends what is no message, or more than there is room for."""
        try:
            return self._channels.receive(hop, seconds)
        except ValueError as error:
            self._abort(self.me, error)
            raise FederationError(
                f"{self.me} waits for {hop}, but {error} (message {expected.sequence}: {describe(expected)})"
            ) from None


def _message(header: bytes, hop: str) -> Message:
    try:
        return Message(**decode(header), body=b"", content=None)
    except (TypeError, WireError) as error:
        raise FederationError(f"{hop} sent something that is not a message: {error}") from None
