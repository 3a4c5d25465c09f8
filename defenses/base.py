"""What a defense is: a pure function of an update and the client's own coins, as frozen data; a chain of them is one
too.

No defense here states an epsilon. What a mechanism guarantees depends on how often it is applied, to whom and after
which sampling; that is accounted for elsewhere, from the mechanisms that the public facts name.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.named_arrays import alike
from leakledger.preprocess.views import Mechanism

Update = dict[str, NDArray[np.float32]]
"""Named arrays: a gradient, or what local training added to the weights that it began from."""


@dataclass(frozen=True)
class Defense(ABC):
    """Protects one client's update before it leaves the client."""

    name: ClassVar[str]
    reference: ClassVar[str]

    @property
    def row_clip_norm(self) -> float | None:
        """The L2 norm to which the gradient of each row is clipped before rows are summed up; None: not at all.

        The client does it where it computes the gradient: an update no longer tells its rows apart.
        """
        return None

    @property
    def random(self) -> bool:
        """Whether coins decide what is sent, which is then right in the mean; a chain of such need not be."""
        return False

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What everyone knows that it does: its kind and its parameters, in the order of application."""
        return (Mechanism(self.name, {f.name: getattr(self, f.name) for f in fields(self)}),)

    @abstractmethod
    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        """The update that is sent: the same names, shapes and types."""


@dataclass(frozen=True)
class Chain(Defense):
    """Several defenses, applied in order. Raises ValueError where one that clips rows comes after another."""

    parts: tuple[Defense, ...]

    name = "chain"
    reference = "composition"

    def __post_init__(self) -> None:
        for before, part in pairwise(_flat(self.parts)):
            if part.row_clip_norm is not None:
                raise ValueError(
                    f"{part.name} must come first, not after {before.name}: it clips the gradient of each row, and "
                    "what an update holds is their sum"
                )

    @property
    def row_clip_norm(self) -> float | None:
        return self.parts[0].row_clip_norm if self.parts else None

    @property
    def random(self) -> bool:
        return any(part.random for part in self.parts)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        return tuple(m for part in self.parts for m in part.mechanisms())

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        for part in self.parts:
            own = {name: np.array(a) for name, a in update.items()}  # which it may write into
            update = checked(part.name, update, part.protect(own, coins))
        return update


def chain(*parts: Defense) -> Defense:
    """One defense that applies `parts` in order; of none, the identity."""
    return Chain(parts)


def checked(who: str, given: Update, returned: Any) -> Update:
    """What the defense `who` made of an update. Raises ValueError, naming it, unless that has the names, shapes and
    types of what it was given, and is finite where that was.
    """
    update = alike(f"the defense {who}", given, returned)
    for name, array in update.items():
        if not np.isfinite(array).all() and np.isfinite(given[name]).all():
            raise ValueError(f"the defense {who} made numbers of {name} that are not finite, of finite ones")
    return update


def _flat(parts: tuple[Defense, ...]) -> Iterator[Defense]:
    """The defenses behind chains of chains."""
    for part in parts:
        yield from _flat(part.parts) if isinstance(part, Chain) else [part]
