"""What a message is made of: one frozen class per kind, which says what it discloses and about whom.

A kind is a subclass of `Payload`: its fields are what travels, its `topic` names it in the ledger, `discloses` says how
it may be read and `about` whose rows it speaks of. Everything that crosses from one party to another is an instance of
a kind, so nothing can travel that no reader knows how to look at: whoever writes a protocol declares its kinds, and the
attacks that read by disclosure read them from their first day.

What a kind claims to hide it must hold in the types made for that: a kind that discloses shares or ciphertexts has no
field of another type. Whether it does hide is checked in every audit (`audit.hiding`), not believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self, get_type_hints

from leakledger.preprocess.messages.declared import check_declared
from leakledger.preprocess.messages.schema import SchemaError, check
from leakledger.preprocess.wire import decode


class Disclosure(StrEnum):
    """How a message may be read."""

    VALUE = "value"  # values of rows, or which of them a party holds, in the clear
    AGGREGATE = "aggregate"  # numbers over several rows: sums, means, extremes, counts, parts that estimate them
    NOISED = "noised"  # aggregates under noise of a stated distribution, never the numbers themselves
    SIZE = "size"  # how many: rows, values, identifiers
    IDENTIFIER = "identifier"  # numbers or positions that stand for values
    UPDATE = "update"  # gradients, weights, models: functions of rows
    SHARE = "share"  # secret shares: any too few of them are independent of what they share
    CIPHERTEXT = "ciphertext"  # encrypted or blinded under a key that the recipient lacks, or alone has
    CONTROL = "control"  # how the protocol goes on; drawn or derived from public facts, never from rows


class About(StrEnum):
    """Whose rows a message speaks of."""

    SENDER = "sender"
    SEVERAL = "several"  # the sender and some others, as an intermediate sum
    EVERYONE = "everyone"  # all clients together
    NOBODY = "nobody"


class OpenedBy(StrEnum):
    """Who can open what a message hides, of those who get it."""

    NOBODY = "nobody"  # blinded, or one of several shares that only count together
    RECIPIENT = "recipient"  # encrypted under its key, or the last share that it needs
    CLIENTS = "clients"  # under a key that all clients have


HIDING = frozenset({Disclosure.SHARE, Disclosure.CIPHERTEXT})


class MessageFormatError(ValueError):
    """Bytes that are no message of their kind; the text names the kind and shows nothing of the content."""


class UnknownKind(MessageFormatError):
    """A topic that no installed kind has: a transcript of another version, or of a plugin that is not installed."""


@dataclass(frozen=True)
class Share:
    """One share of a secret: any plain value. Only these hide in kinds that disclose shares."""

    value: Any


@dataclass(frozen=True)
class Ciphertext:
    """Something encrypted or blinded: bytes, or lists of them. Only these hide in kinds that disclose ciphertexts."""

    value: Any


@dataclass(frozen=True)
class Payload:
    """One kind of message. A subclass is a frozen dataclass with `topic`, `discloses` and `about`, in every field a
    type that `schema.check` knows.

    A kind with `bare` has one field, and its encoding is that of the field; otherwise it is a mapping by field name.
    `opened_by`: who gets at what it hides, if it hides anything; for them that it hides is no evidence of safety.
    """

    topic: ClassVar[str] = ""
    opened_by: ClassVar[OpenedBy] = OpenedBy.NOBODY
    discloses: ClassVar[Disclosure]
    about: ClassVar[About]
    bare: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Registers a kind by its topic. Raises TypeError for one that does not say what it is, or takes a topic that
        another kind has.
        """
        super().__init_subclass__(**options)
        if "topic" not in cls.__dict__:
            return  # a family of kinds, which never travels itself
        for name in ("discloses", "about"):
            if not hasattr(cls, name):
                raise TypeError(f"{cls.__name__} ({cls.topic}) does not say {name!r}: see Disclosure and About")
        known = KINDS.setdefault(cls.topic, cls)
        if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"the topic {cls.topic!r} is that of {known.__module__}.{known.__name__}; choose another")
        KINDS[cls.topic] = cls

    def to_plain(self) -> Any:
        """Plain data for the wire."""
        plain = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return next(iter(plain.values())) if self.bare else plain

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """The payload that plain data stands for. Raises MessageFormatError, naming kind and field, for anything else:
        a field too many or too few, or of another type.
        """
        hints = _field_types(cls)
        if cls.bare:
            plain = {next(iter(hints)): plain}
        if not isinstance(plain, Mapping) or plain.keys() != hints.keys():
            raise MessageFormatError(f"it is no {cls.__name__}: {_difference(plain, hints)}")
        values = {}
        for name, hint in hints.items():
            try:
                values[name] = _wrapped(hint, plain[name])
            except SchemaError as error:
                raise MessageFormatError(f"it is no {cls.__name__}: {name} is {error}") from None
        return cls(**values)


KINDS: dict[str, type[Payload]] = {}
"""Every kind that is imported, by topic."""

_TYPES: dict[type[Payload], dict[str, Any]] = {}


def _field_types(kind: type[Payload]) -> dict[str, Any]:
    """Field -> type, of which each is one that messages may have, and what claims to hide has nothing else. Raises
    TypeError where that is not so.
    """
    if kind not in _TYPES:
        hints = get_type_hints(kind, include_extras=True)
        types = {f.name: hints[f.name] for f in fields(kind)}
        check_hiding(kind, types)
        check_declared(kind.__name__, types)
        _TYPES[kind] = types
    return _TYPES[kind]


def check_kind(kind: type[Payload]) -> None:
    """Raises TypeError for a kind whose fields are declared as they must not be."""
    _field_types(kind)


def check_hiding(kind: type[Payload], types: Mapping[str, Any]) -> None:
    """Raises TypeError for a kind that discloses shares or ciphertexts and has a field of another type."""
    hiding = {Disclosure.SHARE: Share, Disclosure.CIPHERTEXT: Ciphertext}.get(kind.discloses)
    for name, hint in types.items():
        if hiding is not None and hint is not hiding:
            raise TypeError(f"{kind.__name__}.{name} is {hint}, but what discloses a {kind.discloses} is {hiding}")


def kind_of(topic: str) -> type[Payload]:
    """The kind of a topic. Raises UnknownKind."""
    if topic not in KINDS:
        raise UnknownKind(f"no installed kind of message has the topic {topic!r}; install what wrote it, or update")
    return KINDS[topic]


def decode_payload(topic: str, content: bytes) -> Payload:
    """The payload that travelled on `topic`. Raises UnknownKind, MessageFormatError, or WireError for bytes that encode
    nothing.
    """
    return kind_of(topic).from_plain(decode(content))


def _plain(value: Any) -> Any:
    if isinstance(value, Share | Ciphertext):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _wrapped(hint: Any, plain: Any) -> Any:
    if hint in (Share, Ciphertext):
        return hint(plain)
    return check(hint, plain)


def _difference(plain: Any, hints: Mapping[str, Any]) -> str:
    """Which fields are missing, and how many are too many; names of fields that came from outside are not repeated."""
    if not isinstance(plain, Mapping):
        return f"fields {', '.join(hints)} were expected, not {type(plain).__name__}"
    missing, more = [n for n in hints if n not in plain], len(plain.keys() - hints.keys())
    parts = [f"{', '.join(missing)} missing"] if missing else []
    return ", ".join([*parts, *([f"{more} field{'s' if more > 1 else ''} too many"] if more else [])])


__all__ = [
    "HIDING",
    "KINDS",
    "About",
    "Ciphertext",
    "Disclosure",
    "MessageFormatError",
    "OpenedBy",
    "Payload",
    "Share",
    "UnknownKind",
    "check_hiding",
    "check_kind",
    "decode_payload",
    "kind_of",
]
