"""A network small enough that every batch can be tried, and updates of it whose rows were drawn from the prior."""

import math

import numpy as np
import torch

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import encoded, from_prior
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock
from tests.attacks.example import LAYOUT

TINY = FeatureLayout(
    (
        CategoricalBlock("ward", 0, 3, shift=(0.2, 0.3, 0.5), scale=(0.4, 0.5, 0.5)),
        NumericBlock("age", 3, shift=40.0, scale=13.0, low=20.0, high=80.0, integer=True, unit="deviation"),
        CategoricalBlock("sex", 4, 2),
    )
)
SPEC = ModelSpec(TINY.width, 2, (8, 6), "tanh")


def tiny(layout=TINY, spec=SPEC):
    """The network and the cells of a row."""
    weights = {n: np.float64(w) for n, w in initial_weights(spec, np.random.default_rng(3)).items()}
    categorical, numeric = cells_of(layout, AuxiliaryKnowledge(), "cpu")
    return RowGradients(spec, weights, "cpu"), [*categorical, *numeric]


def evidence_about(network, cells, index, labels, noise, coins, *, known=True, clip_norm=None, scale=1.0, rows=None):
    """What would be sent of rows `index` (B, F) with `labels` (B,), in evidence as an attack has it."""
    columns = encoded(network, cells, index[None])
    factor = torch.ones(1, len(index))
    if clip_norm is not None:
        factor = (clip_norm / network.square(network.first(columns), labels[None]).sqrt()).clamp(max=1)
    sums = network.sums(columns, labels[None], scale * factor)
    total = [s[0] + noise * torch.randn(s[0].shape, generator=coins) for s in sums]
    prior = torch.full((network.classes,), -math.log(network.classes))
    told = labels if known else None
    return Evidence(total, noise, len(index), told, prior, clip_norm, scale != 1.0)


def drawn(cells, rows, coins):
    """Rows of the prior (rows, F), and labels (rows,)."""
    return from_prior(cells, rows, coins, "cpu"), torch.randint(2, (rows,), generator=coins)


def wide(rows, noise=1e-3, seed=0):
    """A wider network, its cells, rows of a batch with labels, evidence of them, and coins."""
    network, cells = tiny(LAYOUT, ModelSpec(LAYOUT.width, 2, (40, 20)))
    coins = torch.Generator().manual_seed(seed)
    index, labels = drawn(cells, rows, coins)
    return network, cells, index, labels, evidence_about(network, cells, index, labels, noise, coins), coins
