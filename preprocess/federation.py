"""Located values: where every value of a protocol lives, and the only way from one party to another.

A protocol is one function over a `Federation` that reads like the paper's algorithm: `local` computes at one party
from what lives there, `send` and `broadcast` move values as messages. Nothing else holds protocol data and nothing else
moves it, so the ledger is complete by construction. The same function runs *simulated* (`transport.simulated`, all
parties in one process) and *projected* (`transport.projected`, one process per party, in which the others' values are
absent).

Rules that keep the two runs equal: control flow depends on `Public` values only; functions given to `local` touch
nothing but their arguments, and carry nothing that can be changed; randomness comes from the party's own `coins` and
`key_stream`. `protocol_rules` finds what breaks them in source code.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from leakledger.preprocess.frozen import MUTABLE, first_mutable, freeze
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.located import FEDERATION, At, FederationError, PartyLost, Public
from leakledger.preprocess.messages import Payload, PublicKey, decode_payload
from leakledger.preprocess.sealing import Identity, checked_key, filled, new_identity, open_box, seal_box, unfilled
from leakledger.preprocess.secret import KeyStream, checked, generator
from leakledger.preprocess.views import Abort, Message
from leakledger.preprocess.wire import WireError, encode

T = TypeVar("T")
P = TypeVar("P", bound=Payload)
R = TypeVar("R")

CASE_STEPS = frozenset(["schema", "impute", "encode", "scale", "train", "evaluate"])
"""Steps that follow each other in a case; a method that opens steps within one of them names them otherwise."""

__all__ = ["CASE_STEPS", "At", "Federation", "FederationError", "PartyLost", "Public", "describe", "returned_kind"]


class Federation(ABC):
    """The parties of one run, their secrets, and the ledger of what they tell each other.

    `secrets` has the secret of each party that this process holds: its coins and keys follow from it alone. One set of
    secrets is for one federation (`secret.derive` gives another for the next): a second one with other messages would
    use keys and nonces again. `server` is one more party: it computes and can pass messages on, but holds no rows.

    `clock` tells seconds; with it the ledger notes when messages passed, counted from now. None: it notes no times.
    """

    def __init__(
        self,
        clients: Sequence[str],
        *,
        server: str = "server",
        secrets: Mapping[str, bytes],
        clock: Callable[[], float] | None = None,
    ) -> None:
        everyone = (*clients, server)
        if len(clients) < 2:
            raise FederationError(f"a federation needs at least two clients, got {list(clients)}")
        if len(set(everyone)) < len(everyone) or not all(isinstance(p, str) and p for p in everyone):
            raise FederationError(f"parties need distinct, non-empty names, got {list(everyone)}")
        self.clients = tuple(clients)
        self.server = server
        self.everyone = everyone
        self.step, self.round = "start", 0
        self._case_step = ""  # the one of `CASE_STEPS` that is open
        self._depth = 0  # of protocol code that is running
        self._ledger = Ledger()
        self._sequence = 0
        self._values: WeakKeyDictionary[At[Any], Any] = WeakKeyDictionary()
        self._secrets = {p: checked(s) for p, s in secrets.items() if self.holds(p)}
        self._coins = {p: self.at(p, generator(s)) for p, s in self._secrets.items()}
        self._streams = {p: self.at(p, KeyStream(s)) for p, s in self._secrets.items()}
        self._encoded: dict[str, tuple[At[Any], bytes]] = {}  # the value that each party sent last
        self._identities: dict[str, At[Identity]] = {}
        self._keys: dict[str, bytes] = {}
        self._sealed_bytes = 0  # to which sealed messages are filled up; 0: not at all
        self._clock = clock
        self._began = clock() if clock else 0.0

    # Where values live ------------------------------------------------------------------------------------------

    @abstractmethod
    def holds(self, party: str) -> bool:
        """Whether this process holds the values of `party`."""

    def at(self, party: str, value: T, kind: type[Payload] | None = None) -> At[T]:
        """`value` as an input that lives at `party`; in a process that does not hold the party, it is dropped."""
        self._known(party)
        located: At[T] = At(party, kind)
        if self.holds(party):
            self._values[located] = value
        return located

    def coins(self, party: str) -> At[np.random.Generator]:
        """The generator of `party`, for samples, orders and noise."""
        self._known(party)
        return self._coins.get(party, At(party))

    def key_stream(self, party: str) -> At[KeyStream]:
        """The bytes from which `party` makes its keys, shares and blindings."""
        self._known(party)
        return self._streams.get(party, At(party))

    # For whoever runs the federation ----------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """Every message that this process knows of. Raises FederationError for protocol code."""
        self._not_for_protocols("the ledger")
        return self._ledger

    def own(self, value: At[T]) -> T:
        """The value itself. Raises FederationError for protocol code, and in a process without it."""
        self._not_for_protocols("a value outside its party")
        return self._read(value)

    def party_secrets(self) -> Mapping[str, bytes]:
        """What regenerates the coins and keys of each party of this process: part of that party's view.

        One party's secret says nothing about another's, nor about the one that both were derived from. Raises
        FederationError for protocol code.
        """
        self._not_for_protocols("a secret")
        return dict(self._secrets)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Protocol code runs inside the block: what is for whoever runs the federation is closed to it."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    # Computing --------------------------------------------------------------------------------------------------

    def local(self, party: str, fn: Callable[..., R], *values: Any) -> At[R]:
        """`fn` of values that live at `party`, public values and plain constants: a value that lives at `party`.

        Raises FederationError when an argument lives elsewhere; names the function, both parties and the step.
        """
        self._known(party)
        name = getattr(fn, "__name__", type(fn).__name__)
        if carried := first_mutable(fn):
            where = f"{name} at {party} carries {carried} (step {self.step})"
            raise FederationError(f"{where}; pass it as an argument, so that no two parties share it")
        for value in values:
            if isinstance(value, At) and value.party != party:
                raise FederationError(f"{name} at {party} reads a value that lives at {value.party} (step {self.step})")
        kind = returned_kind(fn)
        if not self.holds(party):
            return At(party, kind)
        self._encoded.pop(party, None)  # the function may change what lives there
        try:
            with self.running():
                return self.at(party, fn(*(self._inside(v) for v in values)), kind)
        except Exception as error:
            error.add_note(f"in {name} at {party} (step {self.step}, round {self.round})")
            self._abort(party, error)
            raise

    def public(self, fn: Callable[..., R], *values: Any) -> Public[R]:
        """`fn` of public values and constants, which every party computes alike; an error in it is one of each party
        here, and recorded of the first.
        """
        for value in values:
            if isinstance(value, At):
                raise FederationError(f"a public value cannot depend on one at {value.party} (step {self.step})")
        try:
            with self.running():
                return self._public(fn(*(self._inside(v) for v in values)))
        except Exception as error:
            self._abort(next(filter(self.holds, self.everyone)), error)
            raise

    # Telling ----------------------------------------------------------------------------------------------------

    def send(
        self, payload: At[P], to: str, *, via: str | None = None, sealed: bool = False, kind: type[P] | None = None
    ) -> At[P]:
        """The payload as `to` decodes it, after a message from its home: direct, or passed on by `via`.

        Its kind names the topic; it follows from what the function that made it is annotated to return, so that every
        process knows it, or is given. `sealed` encrypts for `to` (libsodium box), so that `via` holds ciphertext only.
        Raises FederationError for a message to oneself, an unknown party, or a value that is no payload.
        """
        header, received = self._tell(payload, to, via, sealed, kind)
        own = payload.kind or kind
        return At(to, own) if received is None else self.at(to, self._decode(header, received), own)

    def broadcast(self, payload: At[P], *, via: str | None = None, kind: type[P] | None = None) -> Public[P]:
        """A public value: its home sends it to every other party. It is what the recipients decode, everywhere.

        It is encoded once, and decoded once in every process.
        """
        told = [self._tell(payload, p, via, False, kind) for p in self.everyone if p != payload.party]
        for header, received in told:
            if received is not None:
                return self._public(self._decode(header, received))
        return self._public(self._decode(told[0][0], self._encode(payload, "all", told[0][0].topic)))

    def gather(
        self,
        payloads: Mapping[str, At[P]],
        to: str,
        *,
        via: str | None = None,
        sealed: bool = False,
        kind: type[P] | None = None,
    ) -> list[At[P]]:
        """Each payload at `to`, in the order given; what already lives there stays without a message."""
        return [p if p.party == to else self.send(p, to, via=via, sealed=sealed, kind=kind) for p in payloads.values()]

    @contextmanager
    def scope(self, step: str, round: int | None = None) -> Iterator[None]:
        """Names the step (and round) that messages and errors inside the block belong to.

        Raises FederationError where one of `CASE_STEPS` is opened within another: by its step one tells which method
        sent a message.
        """
        outer = self._case_step
        if step in CASE_STEPS and outer not in ("", step):
            raise FederationError(
                f"step {step!r} is opened within {outer!r}, and cases have a step of that name; choose another"
            )
        before = self.step, self.round
        self.step, self.round = step, self.round if round is None else round
        self._case_step = step if step in CASE_STEPS else outer
        try:
            with self.running():
                yield
        except Exception as error:
            if not hasattr(error, "__notes__"):  # a note says where already
                error.add_note(f"in step {self.step}, round {self.round}")
            raise
        finally:
            self.step, self.round = before
            self._case_step = outer

    @contextmanager
    def fixed_size(self, size: int) -> Iterator[None]:
        """Sealed messages inside the block are filled up to `size` bytes, whatever they hold; 0: as long as they are.

        One that does not fit is refused with its length, which ends the run: everyone notices that.
        """
        before, self._sealed_bytes = self._sealed_bytes, size
        try:
            yield
        finally:
            self._sealed_bytes = before

    # The seam that transports fill ------------------------------------------------------------------------------

    @abstractmethod
    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        """Moves one message and records it; the content in a process that holds the recipient, else None."""

    def _record(self, message: Message) -> None:
        """Appends to the ledger, with the time for those ends of the message that live here."""
        self._ledger.append(message)
        if self._clock:
            now = self._clock() - self._began
            for party in filter(self.holds, message.ends):
                self._ledger.note_time(message.sequence, party, now)

    def _seal(self, header: Message, content: bytes) -> bytes:
        """The body that travels: the content itself, or its ciphertext for the recipient."""
        if not header.sealed:
            return content
        identity = self._read(self._identities[header.sender])
        if self._sealed_bytes:
            try:
                content = filled(content, self._sealed_bytes)
            except ValueError as error:
                self._abort(header.sender, error)
                raise FederationError(f"{error}; raise sealed_bytes ({describe(header)})") from None
        return seal_box(identity, self._keys[header.recipient], header.sequence, content)

    def _open(self, header: Message, body: bytes) -> bytes:
        """The content that the recipient reads. Raises FederationError when the seal is broken."""
        if not header.sealed:
            return body
        identity = self._read(self._identities[header.recipient])
        try:
            content = open_box(identity, self._keys[header.sender], header.sequence, body)
            return unfilled(content, self._sealed_bytes) if self._sealed_bytes else content
        except ValueError as error:
            self._abort(header.recipient, error)
            raise FederationError(f"{header.recipient} refuses a message: {error} ({describe(header)})") from None

    def _exchange_keys(self) -> None:
        """Every client tells every other its public key, through the server: once, before the first sealed message."""
        if self._keys:
            return
        secrets = {p: self.at(p, self._secrets.get(p)) for p in self.everyone}
        self._identities = {p: self.local(p, new_identity, s) for p, s in secrets.items()}
        keys = {p: self.local(p, _public_key, i) for p, i in self._identities.items()}
        self._keys = {p: self._told_key(p, self.broadcast(k, via=self.server).value) for p, k in keys.items()}

    def _told_key(self, party: str, told: PublicKey) -> bytes:
        """The key of `party`. Raises FederationError for one that is none, which every other party notices."""
        try:
            return checked_key(told.key)
        except ValueError as error:
            refusing = next((p for p in self.everyone if p != party and self.holds(p)), party)
            self._abort(refusing, error)
            raise FederationError(f"{refusing} refuses the public key of {party}: {error} (step {self.step})") from None

    def _tell(
        self, payload: At[Any], to: str, via: str | None, sealed: bool, kind: type[Payload] | None
    ) -> tuple[Message, bytes | None]:
        """Sends and records one message: its header, and the content in a process that holds the recipient."""
        self._known(to)
        if not isinstance(payload, At):
            raise FederationError(f"only located values are sent, not {type(payload).__name__} (step {self.step})")
        topic = self._kind(payload, kind, to).topic
        if via in (payload.party, to):
            via = None
        if payload.party == to:
            raise FederationError(f"{to} sends to itself ({topic}, step {self.step}); keep the value instead")
        if via is not None:
            self._known(via)
        if sealed:
            self._exchange_keys()
        header = Message(self._sequence, self.step, self.round, topic, payload.party, to, via, sealed, b"", None)
        self._sequence += 1
        content = self._encode(payload, to, topic) if self.holds(payload.party) else None
        return header, self._carry(header, content)

    def _kind(self, payload: At[Any], given: type[Payload] | None, to: str) -> type[Payload]:
        """The kind of what is sent: that of its value too, where it is here. Raises FederationError for none."""
        kind, here = given or payload.kind, self.holds(payload.party)
        where = f"{payload.party} to {to}, step {self.step}"
        if kind is None:
            what = type(self._read(payload)).__name__ if here else "a value"
            raise FederationError(
                f"nothing says which kind of message {what} is ({where}): annotate what the function that makes it "
                "returns with its class, or give kind="
            )
        if here and not isinstance(self._read(payload), kind):
            raise FederationError(f"a message of {kind.__name__} is no {type(self._read(payload)).__name__} ({where})")
        return kind

    def _encode(self, payload: At[Any], to: str, topic: str) -> bytes:
        last, encoded = self._encoded.get(payload.party, (None, b""))
        if last is payload:  # one encoding, however many recipients
            return encoded
        try:
            encoded = encode(self._read(payload).to_plain())
        except WireError as error:
            self._abort(payload.party, error)
            raise FederationError(f"{payload.party} cannot send to {to}: {error} ({topic}, step {self.step})") from None
        self._encoded[payload.party] = payload, encoded
        return encoded

    def _decode(self, header: Message, received: bytes) -> Any:
        """The payload at the recipient. Raises FederationError where the content is none of its kind."""
        try:
            return decode_payload(header.topic, received)
        except ValueError as error:
            self._abort(header.recipient, error)
            raise FederationError(
                f"{header.recipient} refuses message {header.sequence}: {error} ({describe(header)})"
            ) from None

    def _inside(self, value: Any) -> Any:
        """What a function meets of an argument; constants that could be changed only as frozen copies."""
        if isinstance(value, At):
            return self._read(value)
        if isinstance(value, Public):
            return value.value
        if isinstance(value, np.random.Generator):
            raise FederationError(f"a generator belongs to one party (step {self.step}); use its `coins`")
        return freeze(value) if isinstance(value, (*MUTABLE, np.ndarray)) else value

    def _read(self, value: At[T]) -> T:
        if value in self._values:
            return cast(T, self._values[value])
        if self.holds(value.party):
            raise FederationError(f"a value of {value.party} is of another federation (step {self.step})")
        raise FederationError(f"a value of {value.party} is not in this process (step {self.step})")

    def _public(self, value: T) -> Public[T]:
        try:
            return Public(value, FEDERATION)
        except ValueError as error:
            raise FederationError(f"{error} (step {self.step})") from None

    def _not_for_protocols(self, what: str) -> None:
        if self._depth:
            raise FederationError(f"a protocol cannot have {what} (step {self.step}); only who runs it can")

    def _abort(self, party: str, error: BaseException) -> None:
        """Records that `party` cannot go on, with the kind of the error behind it."""
        while isinstance(error, FederationError) and error.__context__ is not None:
            error = error.__context__
        self._ledger.abort(Abort(party, self.step, self.round, type(error).__name__))

    def _known(self, party: str) -> None:
        if party not in self.everyone:
            raise FederationError(f"{party!r} is not a party (step {self.step}); the parties are {list(self.everyone)}")


def _public_key(identity: Identity) -> PublicKey:
    return PublicKey(identity.public_bytes())


def returned_kind(fn: Callable[..., Any]) -> type[Payload] | None:
    """The kind of message that `fn` makes: itself, or what it is annotated to return; None where that is no kind."""
    while isinstance(fn, partial):
        fn = fn.func
    if isinstance(fn, type):
        return fn if issubclass(fn, Payload) else None
    noted = getattr(fn, "__annotations__", {}).get("return")
    return noted if isinstance(noted, type) and issubclass(noted, Payload) else None


def describe(header: Message) -> str:
    """A message in an error: who told whom, on which topic, in which step."""
    return f"{header.sender} -> {header.recipient}, {header.topic}, step {header.step}, round {header.round}"
