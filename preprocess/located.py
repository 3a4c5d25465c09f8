"""What protocols hold: values that live at one party, and values that everyone knows."""

from dataclasses import InitVar, dataclass
from typing import Final, Generic, TypeVar

from leakledger.preprocess.frozen import freeze
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import Payload
from leakledger.preprocess.views import Abort

T_co = TypeVar("T_co", covariant=True)  # what lives somewhere can be read there, and is never replaced

FEDERATION: Final = object()  # makes values public; for `federation` alone


class FederationError(ValueError):
    """A protocol broke a rule of the federation, or a party did; the text names party, step and topic.

    `abort` is what other parties learn of it where a party of a projected run could not go on, and `ledger` then has it
    and every message that the parties that were still there had sent, passed on or taken up.
    """

    abort: Abort | None = None
    ledger: Ledger | None = None


class PartyLost(FederationError):
    """A party ended or fell silent in the middle of a projected run."""


@dataclass(frozen=True, eq=False)  # no slots: with them a generic class has no weak references before Python 3.12.4
class At(Generic[T_co]):
    """A value that lives at `party`: a name for it. Only functions given to `Federation.local` meet the value."""

    party: str
    kind: type[Payload] | None = None  # as which message it can be sent: known in every process

    def __repr__(self) -> str:
        return f"At({self.party})"


@dataclass(frozen=True, eq=False)
class Public(Generic[T_co]):
    """A value that every party knows, and that nobody can change. `Federation.broadcast` and `public` make them."""

    value: T_co
    by: InitVar[object] = None

    def __post_init__(self, by: object) -> None:
        if by is not FEDERATION:
            raise FederationError("only a federation makes values public: by `broadcast`, or by `public` of others")
        object.__setattr__(self, "value", freeze(self.value))
