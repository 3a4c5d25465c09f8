"""Located values: where every value of a protocol lives, and the only way from one party to another.

A protocol is one function over a `Federation` that reads like the paper's algorithm: `local` computes at one party
from what lives there, `send` and `broadcast` move values as messages. Nothing else holds protocol data and nothing else
moves it, so the ledger is complete by construction. The same function runs *simulated* (`transport.simulated`, all
parties in one process) and *projected* (`transport.projected`, one process per party, in which the others' values are
absent).

Rules that keep the two runs equal: control flow depends on `Public` values only; functions given to `local` touch
nothing but their arguments; randomness comes from the party's own `coins`.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np

from preprocess.ledger import Ledger
from preprocess.sealing import Identity, new_identity, open_box, seal_box
from preprocess.views import Message
from preprocess.wire import WireError, decode, encode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)  # what lives somewhere can be read there, and is never replaced
R = TypeVar("R")

ELSEWHERE: Final = object()
KEY_TOPIC: Final = "channel.public-key"


class FederationError(ValueError):
    """A protocol broke a rule of the federation, or a party did; the text names party, step and topic."""


class PartyLost(FederationError):
    """A party ended or fell silent in the middle of a projected run."""


@dataclass(frozen=True)
class At(Generic[T_co]):
    """A value that lives at `party`. Only `Federation.local` and `Federation.send` reach it."""

    party: str
    _value: Any

    def __repr__(self) -> str:
        return f"At({self.party})"


@dataclass(frozen=True)
class Public(Generic[T_co]):
    """A value that every party knows."""

    value: T_co


class Federation(ABC):
    """The parties of one run, their coins, and the ledger of what they tell each other.

    `seed` makes every party's coins reproducible (audits); None draws them from the operating system (real use).
    `server` is one more party: it computes and can pass messages on, but holds no rows.
    """

    def __init__(self, clients: Sequence[str], *, server: str = "server", seed: int | None = None) -> None:
        everyone = (*clients, server)
        if len(clients) < 2:
            raise FederationError(f"a federation needs at least two clients, got {list(clients)}")
        if len(set(everyone)) < len(everyone) or not all(isinstance(p, str) and p for p in everyone):
            raise FederationError(f"parties need distinct, non-empty names, got {list(everyone)}")
        self.clients = tuple(clients)
        self.server = server
        self.everyone = everyone
        self.seed = seed
        self.ledger = Ledger()
        self.step, self.round = "start", 0
        self._sequence = 0
        self._coins = {p: self.at(p, self._generator(i)) for i, p in enumerate(everyone) if self.holds(p)}
        self._identities: dict[str, At[Identity]] = {}
        self._keys: dict[str, bytes] = {}

    # Where values live ------------------------------------------------------------------------------------------

    @abstractmethod
    def holds(self, party: str) -> bool:
        """Whether this process holds the values of `party`."""

    def at(self, party: str, value: T) -> At[T]:
        """`value` as an input that lives at `party`; in a process that does not hold the party, it is dropped."""
        self._known(party)
        return At(party, value if self.holds(party) else ELSEWHERE)

    def own(self, value: At[T]) -> T:
        """The value itself, for whoever runs the federation. Raises FederationError in a process without it."""
        if value._value is ELSEWHERE:
            raise FederationError(f"a value of {value.party} is not in this process (step {self.step})")
        return cast(T, value._value)

    def coins(self, party: str) -> At[np.random.Generator]:
        """The generator of `party`: the only randomness its functions may use."""
        self._known(party)
        return self._coins.get(party, At(party, ELSEWHERE))

    def coin_seeds(self) -> Mapping[str, int | None]:
        """What regenerates each party's coins: part of that party's view. None where the operating system drew them.

        One party's seed says nothing about another's, nor about the seed of the run.
        """
        return {p: self._coin_seed(i) for i, p in enumerate(self.everyone)}

    # Computing --------------------------------------------------------------------------------------------------

    def local(self, party: str, fn: Callable[..., R], *values: Any) -> At[R]:
        """`fn` of values that live at `party`, public values and plain constants: a value that lives at `party`.

        Raises FederationError when an argument lives elsewhere; names the function, both parties and the step.
        """
        self._known(party)
        name = getattr(fn, "__name__", type(fn).__name__)
        for value in values:
            if isinstance(value, At) and value.party != party:
                raise FederationError(f"{name} at {party} reads a value that lives at {value.party} (step {self.step})")
        if not self.holds(party):
            return At(party, ELSEWHERE)
        try:
            return At(party, fn(*(self._inside(v) for v in values)))
        except Exception as error:
            error.add_note(f"in {name} at {party} (step {self.step}, round {self.round})")
            raise

    def public(self, fn: Callable[..., R], *values: Any) -> Public[R]:
        """`fn` of public values and constants, which every party computes alike."""
        for value in values:
            if isinstance(value, At):
                raise FederationError(f"a public value cannot depend on one at {value.party} (step {self.step})")
        return Public(fn(*(self._inside(v) for v in values)))

    # Telling ----------------------------------------------------------------------------------------------------

    def send(self, value: At[T], to: str, topic: str, *, via: str | None = None, sealed: bool = False) -> At[T]:
        """The value as `to` decodes it, after a message from its home: direct, or passed on by `via`.

        `sealed` encrypts for `to` (libsodium box), so that `via` holds ciphertext only. Raises FederationError for a
        message to oneself, an unknown party, or a value that has no encoding.
        """
        self._known(to)
        if not isinstance(value, At):
            raise FederationError(
                f"only located values are sent, not {type(value).__name__} ({topic}, step {self.step})"
            )
        if via in (value.party, to):
            via = None
        if value.party == to:
            raise FederationError(f"{to} sends to itself ({topic}, step {self.step}); keep the value instead")
        if via is not None:
            self._known(via)
        if sealed:
            self._exchange_keys()
        header = Message(self._sequence, self.step, self.round, topic, value.party, to, via, sealed, b"", None)
        self._sequence += 1
        content = self._encode(value, to, topic) if self.holds(value.party) else None
        received = self._carry(header, content)
        return At(to, self._decode(header, received) if received is not None else ELSEWHERE)

    def broadcast(self, value: At[T], topic: str, *, via: str | None = None) -> Public[T]:
        """A public value: its home sends it to every other party. It is what the recipients decode, everywhere."""
        arrived = [self.send(value, p, topic, via=via) for p in self.everyone if p != value.party]
        if self.holds(value.party):
            return Public(decode(self._encode(value, "all", topic)))
        return Public(next(a._value for a in arrived if a._value is not ELSEWHERE))

    def gather(
        self, values: Mapping[str, At[T]], to: str, topic: str, *, via: str | None = None, sealed: bool = False
    ) -> list[At[T]]:
        """Each value at `to`, in the order given; what already lives there stays without a message."""
        return [v if v.party == to else self.send(v, to, topic, via=via, sealed=sealed) for v in values.values()]

    @contextmanager
    def scope(self, step: str, round: int | None = None) -> Iterator[None]:
        """Names the step (and round) that messages and errors inside the block belong to."""
        before = self.step, self.round
        self.step, self.round = step, self.round if round is None else round
        try:
            yield
        except Exception as error:
            if not hasattr(error, "__notes__"):  # a note says where already
                error.add_note(f"in step {self.step}, round {self.round}")
            raise
        finally:
            self.step, self.round = before

    # The seam that transports fill ------------------------------------------------------------------------------

    @abstractmethod
    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        """Moves one message and records it; the content in a process that holds the recipient, else None."""

    def _seal(self, header: Message, content: bytes) -> bytes:
        """The body that travels: the content itself, or its ciphertext for the recipient."""
        if not header.sealed:
            return content
        identity = self.own(self._identities[header.sender])
        return seal_box(identity, self._keys[header.recipient], header.sequence, content)

    def _open(self, header: Message, body: bytes) -> bytes:
        """The content that the recipient reads. Raises FederationError when the seal is broken."""
        if not header.sealed:
            return body
        identity = self.own(self._identities[header.recipient])
        try:
            return open_box(identity, self._keys[header.sender], header.sequence, body)
        except ValueError as error:
            raise FederationError(f"{header.recipient} refuses a message: {error} ({describe(header)})") from None

    def _exchange_keys(self) -> None:
        """Every client tells every other its public key, through the server: once, before the first sealed message."""
        if self._keys:
            return
        self._identities = {p: self.local(p, new_identity, self.coins(p), self.seed is not None) for p in self.everyone}
        keys = {p: self.local(p, Identity.public_bytes, i) for p, i in self._identities.items()}
        self._keys = {p: self.broadcast(k, KEY_TOPIC, via=self.server).value for p, k in keys.items()}

    def _encode(self, value: At[Any], to: str, topic: str) -> bytes:
        try:
            return encode(self.own(value))
        except WireError as error:
            raise FederationError(f"{value.party} cannot send to {to}: {error} ({topic}, step {self.step})") from None

    def _decode(self, header: Message, received: bytes) -> Any:
        """The value at the recipient. Raises FederationError where the content is none."""
        try:
            return decode(received)
        except WireError as error:
            raise FederationError(f"{header.recipient} refuses a message: {error} ({describe(header)})") from None

    def _inside(self, value: Any) -> Any:
        if isinstance(value, At):
            return self.own(value)
        return value.value if isinstance(value, Public) else value

    def _known(self, party: str) -> None:
        if party not in self.everyone:
            raise FederationError(f"{party!r} is not a party (step {self.step}); the parties are {list(self.everyone)}")

    def _generator(self, index: int) -> np.random.Generator:
        return np.random.default_rng(self._coin_seed(index))

    def _coin_seed(self, index: int) -> int | None:
        if self.seed is None:
            return None
        return int.from_bytes(hashlib.sha256(f"coins of party {index} under seed {self.seed}".encode()).digest(), "big")


def describe(header: Message) -> str:
    """A message in an error: who told whom, on which topic, in which step."""
    return f"{header.sender} -> {header.recipient}, {header.topic}, step {header.step}, round {header.round}"
