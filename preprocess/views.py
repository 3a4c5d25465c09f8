"""What an observer sees, and what everyone knows: the leaf that protocols, attacks and defenses share.

`Message` is one thing that one party told another. `View` is everything a set of observers holds after a run: their own
inputs and coins, every message that one of them sent, received or passed on, and the public facts. An attack is given a
view and declared auxiliary knowledge, and nothing else.

The public facts matter as much as the messages: a method's encoding defines what an adversary who sees gradients knows
about the columns. `FeatureLayout` states it, block by block.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages import Payload, decode_payload, kind_of
from leakledger.preprocess.messages.shapes import broken
from leakledger.preprocess.options import option
from leakledger.preprocess.power import inverse, slope, yeo_johnson
from leakledger.preprocess.wire import encode

Floats = NDArray[np.floating[Any]]
Task = Literal["binary", "multiclass", "regression"]
Norm = Literal["none", "batch", "layer", "group", "instance"]
RegressionLoss = Literal["mse", "mae"]
K = TypeVar("K", bound=Payload)


class MalformedMessage(ValueError):
    """A message whose content is none of its kind; the text names the message and shows nothing of the content."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as one observer holds it.

    `body` is what travelled: the encoding of the value, or its ciphertext when `sealed`. `content` is the encoding
    where this observer can read it, and None where a sealed message was only passed on.
    """

    sequence: int
    step: str
    round: int
    topic: str
    sender: str
    recipient: str
    relay: str | None
    sealed: bool
    body: bytes = field(repr=False)
    content: bytes | None = field(repr=False)

    @property
    def route(self) -> Literal["direct", "relay"]:
        return "relay" if self.relay else "direct"

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)

    @property
    def wire_size(self) -> int:
        """Bytes of one transmission: the encoded header and the body. What sockets add to them is not counted."""
        return len(encode(self.header())) + len(self.body)

    @property
    def hops(self) -> tuple[tuple[str, str], ...]:
        """Who handed it to whom, in order: two transmissions where it was relayed."""
        if self.relay is None:
            return ((self.sender, self.recipient),)
        return (self.sender, self.relay), (self.relay, self.recipient)

    def hops_seen(self, observers: Iterable[str]) -> int:
        """How many of its transmissions one of `observers` sent or received. A relay sees it come and go."""
        who = frozenset(observers)
        return sum(not who.isdisjoint(hop) for hop in self.hops)

    @property
    def name(self) -> str:
        """In words, for errors about it."""
        return f"message {self.sequence} ({self.topic}, from {self.sender})"

    @property
    def kind(self) -> type[Payload]:
        """The class of the payload. Raises UnknownKind where nothing installed has this topic."""
        return kind_of(self.topic)

    @property
    def payload(self) -> Any:
        """The payload, of the message's kind. Raises ValueError where this observer holds only the ciphertext, and
        MalformedMessage where the content is no message of its kind.
        """
        if self.content is None:
            raise ValueError(f"message {self.sequence} ({self.topic}) is sealed for {self.recipient}")
        try:
            payload = decode_payload(self.topic, self.content)
            wrong = broken(payload)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            raise MalformedMessage(f"{self.name}: {wrong}")
        return payload

    @property
    def ends(self) -> tuple[str, ...]:
        """Who held it, in order: the sender, the relay if there is one, the recipient."""
        return (self.sender, self.recipient) if self.relay is None else (self.sender, self.relay, self.recipient)

    def involves(self, observers: Iterable[str]) -> bool:
        return not {self.sender, self.recipient, self.relay}.isdisjoint(observers)

    def as_seen_by(self, observers: Iterable[str]) -> "Message":
        """This message without its content, unless it was open or one of `observers` is an end of it."""
        if not self.sealed or not {self.sender, self.recipient}.isdisjoint(observers):
            return self
        return Message(**{**self.header(), "body": self.body, "content": None})

    def carrying(self, payload: Payload) -> "Message":
        """This message as if it had carried `payload` to its recipient, open and direct: what an observer worked out
        of it.
        """
        content = encode(payload.to_plain())
        return replace(self, topic=payload.topic, relay=None, sealed=False, body=content, content=content)

    def header(self) -> dict[str, Any]:
        """Every field but the body and the content."""
        names = ("sequence", "step", "round", "topic", "sender", "recipient", "relay", "sealed")
        return {name: getattr(self, name) for name in names}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Message":
        return self  # nothing in it can be changed


@dataclass(frozen=True, slots=True)
class Abort:
    """That `party` could not go on, which ends a run. Every other party notices it.

    `reason` names the kind of error (`MessageFormatError`, `PartyLost`, ...) and never says more: its text may repeat
    what the party holds. `step` is empty where a party is gone and nobody knows how far it came.
    """

    party: str
    step: str
    round: int
    reason: str

    def to_plain(self) -> dict[str, Any]:
        return {"party": self.party, "step": self.step, "round": self.round, "reason": self.reason}


# What of a column a scaler makes 1: its standard deviation, an estimate of that through noise, the distance of its
# extremes or of its quartiles; "" where the method does not say.
Unit = Literal["", "deviation", "noised deviation", "range", "quartiles"]
UNITS: Final[tuple[str, ...]] = get_args(Unit)


@dataclass(frozen=True)
class NumericBlock:
    """One numeric feature in one column: encoded = (curve(raw) - shift) / scale, an increasing map.

    The curve is that of Yeo and Johnson with `power`, and none where that is None: then the map is affine. `shift` and
    `scale` are None where no party publishes them (each party scaled by its own statistics). `low` and `high` are
    public bounds of the raw value, where there are any. `integer` says that raw values are whole numbers. `unit` says
    what of the column became 1 when it was scaled, published or not.

    Whoever reads a scaled number back goes through `raw`, `encoded` and `slope`. Where nothing can be read back, the
    encoded column's own units stand for the raw ones, and all three are those of the identity.
    """

    feature: str
    start: int
    shift: float | None = None
    scale: float | None = None
    low: float | None = None
    high: float | None = None
    integer: bool = False
    power: float | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"{self.feature}: the unit {self.unit!r} is none of {UNITS}")

    @property
    def width(self) -> int:
        return 1

    @property
    def scaled(self) -> bool:
        """Whether raw values can be told from encoded ones."""
        return self.shift is not None and self.scale is not None

    @property
    def affine(self) -> bool:
        """Whether sums of encoded values are, but for a constant, those of raw values in other units."""
        return self.power is None or not self.scaled

    def encoded(self, raw: Any) -> NDArray[np.float64]:
        """Raw values (...) as the column has them."""
        values = np.asarray(raw, np.float64)
        if self.shift is None or self.scale is None:
            return values
        bent = values if self.power is None else yeo_johnson(values, self.power)
        return np.asarray((bent - self.shift) / self.scale)

    def raw(self, encoded: Any) -> NDArray[np.float64]:
        """What values of the column (...) stand for; the inverse of `encoded`."""
        values = np.asarray(encoded, np.float64)
        if self.shift is None or self.scale is None:
            return values
        image = np.asarray(values * self.scale + self.shift)
        return image if self.power is None else inverse(image, self.power)

    def slope(self, encoded: Any) -> NDArray[np.float64]:
        """By how much raw values (...) grow with those of the column: the derivative of `raw`."""
        if self.shift is None or self.scale is None:
            return np.ones(np.shape(encoded))
        steps = np.full(np.shape(encoded), self.scale)
        return steps if self.power is None else np.asarray(steps / slope(self.raw(encoded), self.power))

    def to_plain(self) -> dict[str, Any]:
        """Plain data, without what only some scalers have: transcripts of others stay as they were."""
        rare = {"power": None, "quartiles": False}
        return {"kind": "numeric", **{k: v for k, v in self.__dict__.items() if k not in rare or v != rare[k]}}


@dataclass(frozen=True, eq=False)
class CategoricalBlock:
    """One categorical feature in `width` columns: encoded = (code of the value - shift) / scale.

    `codes` (candidates, width) is the public codebook: one row per candidate value; None means one-hot. `values` names
    the candidates in the same order; None means that they are pseudonymous: candidate k is known only as number k.
    `shift` and `scale` (width,) are set where the encoded columns were scaled too, with public statistics.
    """

    feature: str
    start: int
    size: int
    values: tuple[str, ...] | None = None
    codes: Floats | None = None
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.values is not None and len(self.values) != self.size:
            raise ValueError(f"{self.feature}: {len(self.values)} values for {self.size} candidates")
        if self.codes is not None and (self.codes.ndim != 2 or len(self.codes) != self.size):
            raise ValueError(f"{self.feature}: a codebook of shape {self.codes.shape} for {self.size} candidates")

    @property
    def width(self) -> int:
        return self.size if self.codes is None else int(self.codes.shape[1])

    def plain_codes(self) -> NDArray[np.float64]:
        """(candidates, width): the codes of the candidates before any scaling; one-hot where there is no codebook."""
        return np.eye(self.size) if self.codes is None else np.asarray(self.codes, np.float64)

    def codebook(self) -> NDArray[np.float64]:
        """(candidates, width): what each candidate looks like in the encoded columns, scaling included."""
        codes = self.plain_codes()
        if self.shift is not None and self.scale is not None:
            codes = (codes - np.asarray(self.shift)) / np.asarray(self.scale)
        return codes

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "categorical", **self.__dict__}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CategoricalBlock) and encode(self.to_plain()) == encode(other.to_plain())

    def __hash__(self) -> int:
        return hash(encode(self.to_plain()))


Block = NumericBlock | CategoricalBlock


@dataclass(frozen=True)
class FeatureLayout:
    """What is public about each encoded column: blocks in column order, one per source feature.

    A feature that a method spreads over several columns without public candidates has a numeric block per column; where
    features share columns, so do their blocks.
    """

    blocks: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Columns of the encoded table: the model's input width."""
        return max((b.start + b.width for b in self.blocks), default=0)

    @property
    def numeric(self) -> tuple[NumericBlock, ...]:
        return tuple(b for b in self.blocks if isinstance(b, NumericBlock))

    @property
    def categorical(self) -> tuple[CategoricalBlock, ...]:
        return tuple(b for b in self.blocks if isinstance(b, CategoricalBlock))

    def block(self, feature: str) -> Block:
        """The block of `feature`. Raises KeyError with the known features."""
        for b in self.blocks:
            if b.feature == feature:
                return b
        raise KeyError(f"{feature!r} is not among {[b.feature for b in self.blocks]}")

    def to_plain(self) -> list[dict[str, Any]]:
        return [b.to_plain() for b in self.blocks]

    @classmethod
    def from_plain(cls, plain: Iterable[Mapping[str, Any]]) -> "FeatureLayout":
        """The layout that `to_plain` described. Raises ValueError for an unknown kind of block."""
        return cls(tuple(_block_from_plain(dict(p)) for p in plain))


def _block_from_plain(plain: dict[str, Any]) -> Block:
    kind = plain.pop("kind", None)
    if kind == "numeric":
        return NumericBlock(**plain)
    if kind != "categorical":
        raise ValueError(f"a block of kind {kind!r} is neither numeric nor categorical")
    for name in ("values", "shift", "scale"):
        if plain.get(name) is not None:
            plain[name] = tuple(plain[name])
    if plain.get("codes") is not None:
        codes = np.asarray(plain["codes"])
        plain["codes"] = codes if np.issubdtype(codes.dtype, np.floating) else codes.astype(np.float64)
    return CategoricalBlock(**plain)


@dataclass(frozen=True)
class ModelSpec:
    """A multilayer perceptron: the widths of its layers and the function between them.

    `outputs` is the number of classes, one logit each (two for a binary target), or 1 for regression. A binary target
    may have 1 too: the logit of the positive class. In training each hidden unit is left out of a row with probability
    `dropout`, and the others are scaled up. `norm` stands between each hidden linear layer and its activation
    (`preprocess.activation_norms`), group norm with `norm_groups` groups. `loss` is that of a regression: the mean
    squared or the mean absolute error; classifiers minimise cross-entropy.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (100, 100)
    activation: str = "relu"
    task: Task = "binary"
    dropout: float = 0.0
    norm: Norm = "none"
    norm_groups: int = 2
    loss: RegressionLoss = "mse"

    @property
    def single_logit(self) -> bool:
        """Whether the two classes of a binary target have one logit between them."""
        return self.task == "binary" and self.outputs == 1

    @property
    def classes(self) -> int:
        """How many classes a classifier tells apart."""
        return 2 if self.single_logit else self.outputs

    def to_plain(self) -> dict[str, Any]:
        """Plain data; of what came later only what is set, so that transcripts without it stay as they are."""
        later = {"norm": "none", "norm_groups": 2, "loss": "mse"}
        plain = {name: value for name, value in self.__dict__.items() if later.get(name) != value}
        return {**plain, "hidden": list(self.hidden)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "ModelSpec":
        return cls(**{**plain, "hidden": tuple(plain["hidden"])})


def none_for_zero(value: Any) -> Any:
    """0 in a file, which has no none, stands for all rows."""
    return None if value == 0 and value is not False else value


@dataclass(frozen=True)
class TrainingSpec:
    """The training that all parties agreed on: the options of the training algorithms.

    Training stops after `patience` rounds without a better validation loss (None: never); the validation rows are a
    share `validation` of each client's training rows, and only taken when `patience` is set.

    `sampling` of FedSGD: a batch of exactly `batch_size` rows, or Poisson sampling, where a batch has `batch_size` rows
    in expectation. Clients then send the sum of their gradients divided by `batch_size`, and never say how many rows
    were drawn.
    """

    algorithm: Literal["fedsgd", "fedavg"] = "fedsgd"
    rounds: int = option(100, at_least=1, help="rounds of training")
    learning_rate: float = option(0.1, above=0, help="step of the server (fedsgd) or of the clients (fedavg)")
    batch_size: int | None = option(8, at_least=1, read=none_for_zero, help="rows of a client per step; 0: all of them")
    local_epochs: int = option(1, at_least=1, only=("fedavg",), help="passes over a client's rows per round")
    optimizer: Literal["sgd", "adam"] = option(
        "sgd", only=("fedavg",), help="of local steps; adam begins anew each round"
    )
    proximal: float = option(
        0.0, at_least=0, only=("fedavg",), help="mu of FedProx: local steps are drawn to the round's first model"
    )
    sampling: Literal["fixed", "poisson"] = option(
        "fixed", only=("fedsgd",), help='"poisson": each row is drawn with probability batch_size / rows of the client'
    )
    participation: float = option(1.0, above=0, at_most=1, help="share of the clients that is drawn for a round")
    patience: int | None = option(None, at_least=1, help="stop after so many rounds without a better validation loss")
    validation: float = option(0.1, above=0, below=1, help="share of a client's rows held back where patience is set")

    def to_plain(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Method:
    """An encoder or a scaler as all parties agreed on it: its name in the registry, and the values of its options."""

    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return {"name": self.name, "options": dict(self.options)}


@dataclass(frozen=True)
class Mechanism:
    """One thing that is done to what leaves a party: the kind of a defense, and its parameters. Public knowledge."""

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return {"kind": self.kind, "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class PublicFacts:
    """What every party and every observer of a run knows before the first message, and what was made public in it.

    `mechanisms`: what is done to updates, in order; empty where nothing is. `statistics`: the noise on each number or
    table of preprocessing that a client sends; its parameters name the topic, the statistic and the feature.
    `aggregation`: how updates become their mean, and its options. `features`: how features are engineered, where they
    are. `held_out`: the agreed share of its rows that each client evaluates models on and trains on no others; None
    where that is not known.
    """

    clients: tuple[str, ...]
    server: str
    encoder: Method = Method()
    scaler: Method = Method()
    mechanisms: tuple[Mechanism, ...] = ()
    statistics: tuple[Mechanism, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=dict)
    layout: FeatureLayout | None = None
    model: ModelSpec | None = None
    training: TrainingSpec | None = None
    aggregation: Method = Method("plain")
    features: Method = Method()
    held_out: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """Plain data, for a transcript's header."""
        parts = {name: getattr(self, name) for name in ("layout", "model", "training")}
        return {
            "clients": list(self.clients),
            "server": self.server,
            "encoder": self.encoder.to_plain(),
            "scaler": self.scaler.to_plain(),
            "mechanisms": [m.to_plain() for m in self.mechanisms],
            "statistics": [m.to_plain() for m in self.statistics],
            "schema": dict(self.schema),
            "aggregation": self.aggregation.to_plain(),
            **({"features": self.features.to_plain()} if self.features.name else {}),
            **({"held_out": self.held_out} if self.held_out is not None else {}),
            **{name: part and part.to_plain() for name, part in parts.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "PublicFacts":
        return cls(
            clients=tuple(plain["clients"]),
            server=plain["server"],
            encoder=Method(**plain["encoder"]),
            scaler=Method(**plain["scaler"]),
            mechanisms=tuple(Mechanism(**m) for m in plain["mechanisms"]),
            statistics=tuple(Mechanism(**m) for m in plain.get("statistics", ())),
            schema=plain["schema"],
            layout=None if plain["layout"] is None else FeatureLayout.from_plain(plain["layout"]),
            model=ModelSpec.from_plain(plain["model"]) if plain["model"] else None,
            training=TrainingSpec(**plain["training"]) if plain["training"] else None,
            aggregation=Method(**plain.get("aggregation", {"name": "plain"})),  # older transcripts know no other
            features=Method(**plain.get("features", {})),
            held_out=_share(plain.get("held_out")),
        )


def _share(plain: Any) -> float | None:
    if plain is not None and not (isinstance(plain, float) and 0 < plain < 1):
        raise ValueError("held_out is no share between 0 and 1")
    return plain


@dataclass(frozen=True)
class View:
    """Everything that `observers` together hold after a run.

    `inputs` and `coins` map each observer to its own plain input and to the secret of 32 bytes that its own coins and
    keys follow from (`secret.generator`, `secret.KeyStream`). No secret leads to another party's. `aborts`: who ended
    the run, where something went wrong, and for which named reason.

    `times`: seconds by the number of a message, where the run was told to note them, else empty. Each is at the clock
    of the first of sender, relay and recipient who is an observer, and counts from when that party began: clocks of
    several observers are not aligned. It says when a message was sent or taken up, which may be later than it arrived.
    Two views that differ only in times are equal.
    """

    observers: frozenset[str]
    messages: tuple[Message, ...]
    public: PublicFacts
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    coins: Mapping[str, Any] = field(default_factory=dict, repr=False)
    aborts: tuple[Abort, ...] = ()
    times: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def topics(self) -> frozenset[str]:
        return frozenset(self._by_topic)

    @cached_property
    def kinds(self) -> frozenset[type[Payload]]:
        """The kinds of message in the view. Raises UnknownKind for a topic that nothing installed has."""
        return frozenset(map(kind_of, self.topics))

    @cached_property
    def _by_topic(self) -> Mapping[str, Sequence[Message]]:
        groups: dict[str, list[Message]] = {}
        for m in self.messages:
            groups.setdefault(m.topic, []).append(m)
        return groups

    def has(self, *kinds: type[Payload]) -> bool:
        """Whether a message of one of these kinds, or of a kind derived from one, is in the view."""
        return any(issubclass(k, kinds) for k in self.kinds)

    def on(self, kind: type[Payload], *, sender: str | None = None, recipient: str | None = None) -> Iterator[Message]:
        """The messages of `kind` and of kinds derived from it, in order, of one sender or recipient if given."""
        topics = [k.topic for k in self.kinds if issubclass(k, kind)]
        found = self._by_topic[topics[0]] if len(topics) == 1 else self.messages if topics else ()
        for m in found:
            if sender in (None, m.sender) and recipient in (None, m.recipient) and m.topic in topics:
                yield m

    def readable(self, kind: type[Payload], *, recipient: str | None = None) -> Iterator[Message]:
        """Those of `on` whose content the observers hold, their own included."""
        return (m for m in self.on(kind, recipient=recipient) if m.content is not None)

    def received(self, kind: type[Payload]) -> Iterator[Message]:
        """Those of `on` from outside that the observers can read: received, or relayed in the clear."""
        return (m for m in self.on(kind) if m.sender not in self.observers and m.content is not None)

    def of(self, kind: type[K]) -> Iterator[K]:
        """The payloads of `received`."""
        return (m.payload for m in self.received(kind))

    def restricted(self, reads: Callable[[type[Payload]], bool], *, times: bool = False) -> "View":
        """This view with only the messages whose kind `reads` accepts, and their times where `times` is set. Inputs,
        secrets and public facts stay.
        """
        wanted = {k.topic for k in self.kinds if reads(k)}
        kept = tuple(m for m in self.messages if m.topic in wanted)
        clock = {m.sequence: self.times[m.sequence] for m in kept if m.sequence in self.times} if times else {}
        return replace(self, messages=kept, times=clock)
