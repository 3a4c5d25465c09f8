"""One defense of every kind, and all of them in a chain."""

import pytest

from leakledger.defenses import chain
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation

ROW_CLIP, CLIP = 0.3, 0.1  # below the norms of the gradients and of the changes of weights in tests: clipping shows
ONE_EACH = [
    GaussianNoise(0.01),
    ExampleClipping(ROW_CLIP),
    ClientClipping(CLIP),
    Pruning(0.4),
    Quantisation(3),
    Quantisation(2, "stochastic"),
    chain(ExampleClipping(ROW_CLIP), GaussianNoise(0.01)),
    chain(ExampleClipping(ROW_CLIP), ClientClipping(CLIP), Pruning(0.4), Quantisation(3), GaussianNoise(0.01)),
]
OF_UPDATES = [d for d in ONE_EACH if d.row_clip_norm is None]


def named(defenses=ONE_EACH):
    return pytest.mark.parametrize("defense", defenses, ids=lambda d: "+".join(m.kind for m in d.mechanisms()))


def configured(defense):
    """The section of a configuration that asks for it."""
    first, *then = ({"name": m.kind, **m.parameters} for m in defense.mechanisms())
    return {**first, "then": then}
