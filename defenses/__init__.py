"""Defenses: a message or an update in, a protected one out."""

from collections.abc import Iterable

from leakledger.defenses.base import Defense, chain
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation
from leakledger.preprocess.views import Mechanism

__all__ = ["DEFENSES", "Defense", "chain", "defense_of"]

DEFENSES: dict[str, type[Defense]] = {
    d.name: d for d in (GaussianNoise, ExampleClipping, ClientClipping, Pruning, Quantisation)
}


def defense_of(mechanisms: Iterable[Mechanism]) -> Defense:
    """The defense that does what public facts say. Raises ValueError for a kind that is unknown."""
    stated = list(mechanisms)
    if unknown := [m.kind for m in stated if m.kind not in DEFENSES]:
        raise ValueError(f"no defense is called {unknown[0]!r}; known are {', '.join(DEFENSES)}")
    return chain(*(DEFENSES[m.kind](**m.parameters) for m in stated))
