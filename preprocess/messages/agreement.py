"""Messages in which parties settle what no schema declares: what their columns hold, and which classes there are."""

from dataclasses import dataclass, field

from leakledger.preprocess.messages.base import About, Disclosure, Payload


@dataclass(frozen=True)
class LocalKinds(Payload):
    """The sender's columns by what all of its rows hold in them: whole numbers, other numbers, text."""

    topic = "schema.local"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    whole: list[str]
    number: list[str]
    text: list[str]


@dataclass(frozen=True)
class AgreedKinds(Payload):
    """The same over all clients' rows."""

    topic = "schema.agreed"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    whole: list[str]
    number: list[str]
    text: list[str]


@dataclass(frozen=True)
class LocalClasses(Payload):
    """The distinct values of the sender's target; None where they are numbers and more than ten."""

    topic = "schema.local-classes"
    discloses = Disclosure.VALUE
    about = About.SENDER

    classes: list[str] | None = field(repr=False)


@dataclass(frozen=True)
class AgreedClasses(Payload):
    """The distinct values of all clients' targets; None for a quantity."""

    topic = "schema.agreed-classes"
    discloses = Disclosure.VALUE
    about = About.EVERYONE

    classes: list[str] | None = field(repr=False)
