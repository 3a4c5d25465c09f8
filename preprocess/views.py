"""What an observer sees, and what everyone knows: the leaf that protocols, attacks and defenses share.

`Message` is one thing that one party told another. `View` is everything a set of observers holds after a run: their own
inputs and coins, every message that one of them sent, received or passed on, and the public facts. An attack is given a
view and declared auxiliary knowledge, and nothing else.

The public facts matter as much as the messages: a method's encoding defines what an adversary who sees gradients knows
about the columns. `FeatureLayout` states it, block by block.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from preprocess.wire import decode, encode

Floats = NDArray[np.floating[Any]]
Task = Literal["binary", "multiclass", "regression"]


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
        """Bytes on the wire."""
        return len(self.body)

    @property
    def payload(self) -> Any:
        """The decoded value. Raises ValueError where this observer holds only the ciphertext."""
        if self.content is None:
            raise ValueError(f"message {self.sequence} ({self.topic}) is sealed for {self.recipient}")
        return decode(self.content)

    def involves(self, observers: Iterable[str]) -> bool:
        return not {self.sender, self.recipient, self.relay}.isdisjoint(observers)

    def as_seen_by(self, observers: Iterable[str]) -> "Message":
        """This message without its content, unless it was open or one of `observers` is an end of it."""
        if not self.sealed or not {self.sender, self.recipient}.isdisjoint(observers):
            return self
        return Message(**{**self.header(), "body": self.body, "content": None})

    def header(self) -> dict[str, Any]:
        """Every field but the body and the content."""
        names = ("sequence", "step", "round", "topic", "sender", "recipient", "relay", "sealed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class NumericBlock:
    """One numeric feature in one column: encoded = (raw - shift) / scale.

    `shift` and `scale` are None where no party publishes them (each party scaled by its own statistics). `low` and
    `high` are public bounds of the raw value, where there are any. `integer` says that raw values are whole numbers.
    """

    feature: str
    start: int
    shift: float | None = None
    scale: float | None = None
    low: float | None = None
    high: float | None = None
    integer: bool = False

    @property
    def width(self) -> int:
        return 1

    @property
    def scaled(self) -> bool:
        """Whether raw values can be told from encoded ones."""
        return self.shift is not None and self.scale is not None

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "numeric", **self.__dict__}


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

    `outputs` is the number of classes, one logit each (two for a binary target), or 1 for regression.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (100, 100)
    activation: str = "relu"
    task: Task = "binary"

    def to_plain(self) -> dict[str, Any]:
        return {**self.__dict__, "hidden": list(self.hidden)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "ModelSpec":
        return cls(**{**plain, "hidden": tuple(plain["hidden"])})


@dataclass(frozen=True)
class TrainingSpec:
    """The training that all parties agreed on.

    `batch_size` None takes all rows of a client at once. `local_epochs` counts for FedAvg only. `participation` is the
    share of clients drawn for a round. Training stops after `patience` rounds without a better validation loss (None:
    never); the validation rows are a share `validation` of each client's training rows, and only taken when `patience`
    is set.
    """

    algorithm: Literal["fedsgd", "fedavg"] = "fedsgd"
    rounds: int = 100
    learning_rate: float = 0.1
    batch_size: int | None = None
    local_epochs: int = 1
    participation: float = 1.0
    patience: int | None = None
    validation: float = 0.1

    def to_plain(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class PublicFacts:
    """What every party and every observer of a run knows before the first message, and what was made public in it."""

    clients: tuple[str, ...]
    server: str
    protocol: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)
    layout: FeatureLayout | None = None
    model: ModelSpec | None = None
    training: TrainingSpec | None = None

    def to_plain(self) -> dict[str, Any]:
        """Plain data, for a transcript's header."""
        parts = {name: getattr(self, name) for name in ("layout", "model", "training")}
        return {
            "clients": list(self.clients),
            "server": self.server,
            "protocol": dict(self.protocol),
            "schema": dict(self.schema),
            **{name: part and part.to_plain() for name, part in parts.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "PublicFacts":
        return cls(
            clients=tuple(plain["clients"]),
            server=plain["server"],
            protocol=plain["protocol"],
            schema=plain["schema"],
            layout=None if plain["layout"] is None else FeatureLayout.from_plain(plain["layout"]),
            model=ModelSpec.from_plain(plain["model"]) if plain["model"] else None,
            training=TrainingSpec(**plain["training"]) if plain["training"] else None,
        )


@dataclass(frozen=True)
class View:
    """Everything that `observers` together hold after a run.

    `inputs` and `coins` map each observer to its own plain input and to the seed of its own generator.
    """

    observers: frozenset[str]
    messages: tuple[Message, ...]
    public: PublicFacts
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    coins: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def topics(self) -> frozenset[str]:
        return frozenset(self._by_topic)

    @cached_property
    def _by_topic(self) -> Mapping[str, Sequence[Message]]:
        groups: dict[str, list[Message]] = {}
        for m in self.messages:
            groups.setdefault(m.topic, []).append(m)
        return groups

    def on(self, topic: str, *, sender: str | None = None, recipient: str | None = None) -> Iterator[Message]:
        """The messages on `topic` in order, of one sender or recipient if given."""
        for m in self._by_topic.get(topic, ()):
            if sender in (None, m.sender) and recipient in (None, m.recipient):
                yield m

    def received(self, topic: str) -> Iterator[Message]:
        """The messages on `topic` from outside that the observers can read: received, or relayed in the clear."""
        return (m for m in self.on(topic) if m.sender not in self.observers and m.content is not None)
