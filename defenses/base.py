"""What a defense is: a pure function of an update and the client's own coins, as frozen data; a chain of them is one
too.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import Mechanism

Update = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Defense(ABC):
    """Protects one client's update (named arrays: a gradient, or weights) before it leaves the client."""

    name: ClassVar[str]
    reference: ClassVar[str]

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What everyone knows that it does: its kind and its parameters, in the order of application."""
        return (Mechanism(self.name, {f.name: getattr(self, f.name) for f in fields(self)}),)

    @abstractmethod
    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        """The update that is sent: the same names, shapes and types."""


@dataclass(frozen=True)
class Chain(Defense):
    """Several defenses, applied in order."""

    parts: tuple[Defense, ...]

    name = "chain"
    reference = "composition"

    def mechanisms(self) -> tuple[Mechanism, ...]:
        return tuple(m for part in self.parts for m in part.mechanisms())

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        for part in self.parts:
            update = part.protect(update, coins)
        return update


def chain(*parts: Defense) -> Defense:
    """One defense that applies `parts` in order; of none, the identity."""
    return Chain(parts)
