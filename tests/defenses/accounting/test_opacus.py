"""Opacus as a second opinion: the same clipped gradients of rows, and accountants that agree where they must."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.training.row_gradients import summed_gradient
from leakledger.preprocess.views import ModelSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that it imports
    opacus = pytest.importorskip("opacus", reason="needs opacus; install leakledger[test]")
    from opacus.accountants import PRVAccountant, RDPAccountant
    from opacus.grad_sample import GradSampleModule

ROWS, WIDTH, CLASSES, HIDDEN = 24, 13, 3, (9, 7)
DELTA = 1e-5


def network(weights):
    """The same multilayer perceptron with PyTorch's own layers."""
    widths = (WIDTH, *HIDDEN, CLASSES)
    layers = []
    for i, (inside, outside) in enumerate(pairwise(widths)):
        layer = nn.Linear(inside, outside).double()
        layer.weight.data = torch.tensor(weights[f"{i}.weight"], dtype=torch.float64)
        layer.bias.data = torch.tensor(weights[f"{i}.bias"], dtype=torch.float64)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("clip_norm", [None, 0.05, 0.5, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_clipped_gradients_of_rows_are_those_of_opacus(clip_norm, seed):
    coins = np.random.default_rng(seed)
    spec = ModelSpec(WIDTH, CLASSES, HIDDEN, task="multiclass")
    weights = initial_weights(spec, coins)
    rows = torch.tensor(coins.normal(size=(ROWS, WIDTH)) * coins.lognormal(0, 2, (ROWS, 1)))
    labels = torch.tensor(coins.integers(0, CLASSES, ROWS))
    module = GradSampleModule(network(weights), loss_reduction="sum")
    nn.functional.cross_entropy(module(rows), labels, reduction="sum").backward()
    samples = [p.grad_sample for p in module.parameters()]  # each (n, ...)
    norms = torch.stack([s.flatten(1).norm(dim=1) for s in samples]).norm(dim=0)
    factors = torch.ones(ROWS) if clip_norm is None else (clip_norm / norms).clamp(max=1.0)
    names = [f"{i}.{kind}" for i in range(len(HIDDEN) + 1) for kind in ("weight", "bias")]
    own = summed_gradient(spec, weights, rows, labels, clip_norm)
    for name, sample in zip(names, samples, strict=True):
        expected = torch.tensordot(factors.double(), sample, dims=1)
        torch.testing.assert_close(own[name], expected, rtol=1e-9, atol=1e-12)


def spent(kind, noise, rate, steps):
    accountant = kind()
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return accountant.get_epsilon(delta=DELTA)


def test_one_gaussian_release_has_the_epsilons_of_the_notes():
    """sigma = 1, delta 1e-5: exact 4.3772, PLD 4.3772, PRV 4.3874, RDP 4.7285."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    assert epsilon_of(DELTA, 1.0) == pytest.approx(4.3772, abs=5e-5)
    assert from_gaussian_mechanism(1.0).get_epsilon_for_delta(DELTA) == pytest.approx(4.3772, abs=1e-3)
    assert spent(PRVAccountant, 1.0, 1.0, 1) == pytest.approx(4.3874, abs=5e-5)
    assert spent(RDPAccountant, 1.0, 1.0, 1) == pytest.approx(4.7285, abs=5e-5)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 1000), (0.8, 0.05, 100), (2.0, 0.2, 50)])
def test_poisson_sampling_costs_what_opacus_finds_within_its_stated_error(noise, rate, steps):
    own = guarantee(GaussianMechanism(noise, steps, "poisson", rate), DELTA).epsilon
    prv, rdp = (spent(kind, noise, rate, steps) for kind in (PRVAccountant, RDPAccountant))
    assert own <= prv <= own + 0.02  # PRV's own error is 0.01, upwards
    assert own <= rdp
