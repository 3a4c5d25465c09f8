"""Defenses: a message or an update in, a protected one out."""

from collections.abc import Iterable

from leakledger.defenses.base import Defense, chain
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation
from leakledger.preprocess.options import options_of
from leakledger.preprocess.views import Mechanism

__all__ = ["DEFENSES", "Defense", "chain", "defense_of"]

DEFENSES: dict[str, type[Defense]] = {
    d.name: d for d in (GaussianNoise, ExampleClipping, ClientClipping, Pruning, Quantisation)
}


def defense_of(mechanisms: Iterable[Mechanism]) -> Defense:
    """The defense that does what public facts say. Raises ValueError for a kind or a parameter that is unknown, and for
    one that is missing.
    """
    return chain(*map(_stated, mechanisms))


def _stated(mechanism: Mechanism) -> Defense:
    kind, given = mechanism.kind, mechanism.parameters
    if kind not in DEFENSES:
        raise ValueError(f"no defense is called {kind!r}; known are {', '.join(DEFENSES)}")
    options = options_of(DEFENSES[kind])
    if unknown := [name for name in given if name not in options]:
        raise ValueError(f"{kind} has no parameter {unknown[0]!r}; it has {', '.join(options)}")
    if missing := [name for name, o in options.items() if o.required and name not in given]:
        raise ValueError(f"{kind} needs {missing[0]}: {options[missing[0]].help}")
    return DEFENSES[kind](**given)
