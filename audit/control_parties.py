"""The parties of made-up federations, who of them observes, and what one such federation is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakledger.attacks.base import ObserversOf
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts, View

PARTIES = 4
NAMES = tuple(f"P{p + 1}" for p in range(PARTIES))  # as parties of a split table: what is known by name shows here
Options = tuple[tuple[str, Any], ...]
TWIN = -1  # the number of the draw that is the twin of draw 0
TURNED = -2  # and of the one in which its parties exchange how much they hold


@dataclass(frozen=True)
class ControlFederation:
    """One played federation: what everyone saw in `fed`, and each party's table."""

    fed: Simulated
    public: PublicFacts
    tables: Mapping[str, Table]
    inputs: Mapping[str, Any]

    def view(self, observers: ObserversOf) -> View:
        """What the observers hold."""
        coins = self.fed.party_secrets()
        return self.fed.ledger.view(observers_of(observers), self.public, inputs=self.inputs, coins=coins)


def observers_of(name: ObserversOf) -> tuple[str, ...]:
    chosen: dict[str, tuple[str, ...]] = {
        "server": ("server",),
        "first": NAMES[:1],
        "last": NAMES[-1:],
        "all but first": NAMES[1:],
        "all but last": NAMES[:-1],
    }
    return chosen[name]


def victims_of(name: ObserversOf) -> tuple[str, ...]:
    """The parties outside; the last one, which holds what all others hold, only where there is no other."""
    outside = tuple(p for p in NAMES if p not in observers_of(name))
    return outside if outside == NAMES[-1:] else tuple(p for p in outside if p != NAMES[-1])


def frozen(options: Mapping[str, Any]) -> Options:
    """Options as something that can be a key."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items()))
