"""Where tensors live changes what attacks on updates claim by no more than rounding, and where coins are tossed on the
device, by no more than chance.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.matching.objective import matching_objective
from leakledger.attacks.gradient.matching.room import HOST, room
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior
from leakledger.attacks.gradient.posterior.evidence import channel, evidence_of
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.gradient.tableak.tableak import AS_PUBLISHED
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.preprocess.views import Mechanism, TrainingSpec
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe, observe_training, rows_of
from tests.devices import DEVICES

ROWS = 4
CATEGORIES, NUMBERS, ENCODED = rows_of(LAYOUT, ROWS, 0)
KNOWN = AuxiliaryKnowledge(labels={("ann", 0): np.arange(ROWS) % 2}, bounds={"score": (-4.0, 4.0), "age": (17.0, 90.0)})
BRIEF = {"chains": 4, "sweeps": 8, "repairs": 4}
DEVIATIONS = np.array([13.0, 1.0])
pytestmark = pytest.mark.parametrize("device", DEVICES)


def noised(sigma, encoded=ENCODED):
    view = observe(encoded, noise=sigma)
    return replace(view, public=replace(view.public, mechanisms=(Mechanism("gaussian-noise", {"sigma": sigma}),)))


def both(kind, device, view, **options):
    """The one claim of the processor and that of the device."""
    (here,) = kind(**options).run(view, KNOWN)
    (there,) = kind(**options, device=device).run(view, KNOWN)
    return here, there


def test_a_gradient_is_as_far_from_candidates(device):
    coins = np.random.default_rng(0)
    (update,) = find_gradients(observe(ENCODED), KNOWN)
    candidates = coins.normal(size=(1, 3, ROWS, LAYOUT.width))

    def distance(where):
        tensors = (
            {name: torch.tensor(t, dtype=torch.float32, device=where)[None] for name, t in part.items()}
            for part in (update.weights, update.gradient)
        )
        labels = torch.tensor(update.labels, device=where)[None]
        objective = matching_objective(update.model, *tensors, labels, 3, "cosine")
        return [t.cpu().numpy() for t in objective(torch.tensor(candidates, dtype=torch.float32, device=where))]

    for here, there in zip(distance("cpu"), distance(device), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5 * np.abs(here).max())


@pytest.mark.parametrize("options", [{}, AS_PUBLISHED], ids=["default", "published"])
def test_tableak_takes_the_same_way(device, options):
    """In double precision, and for few steps: the sign of an entry near zero is rounding, and ways part there."""
    few = {**options, "restarts": 3, "iterations": 40, "dtype": "float64", "pooling": False}
    here, there = both(TabLeak, device, observe(ENCODED), **few)
    assert np.array_equal(here.categories, there.categories)
    np.testing.assert_allclose(there.numbers, here.numbers, atol=1e-6 * DEVIATIONS.max())


def test_tableak_ends_at_the_same_rows(device):
    here, there = both(TabLeak, device, observe(ENCODED), restarts=8, iterations=600)
    assert exact(here, CATEGORIES, NUMBERS, 0.5).all()
    assert exact(there, CATEGORIES, NUMBERS, 0.5).all()
    np.testing.assert_allclose(there.numbers, here.numbers, atol=1e-2 * DEVIATIONS.max())


@pytest.mark.parametrize(
    "options", [{"tied": True}, {"surrogate": False}, {}], ids=["tied", "no head start", "default"]
)
def test_tableak_on_local_training_takes_the_same_way(device, options):
    training = TrainingSpec("fedavg", rounds=1, learning_rate=0.05, batch_size=2, local_epochs=2)
    few = {"restarts": 3, "iterations": 15, "refinement": 10, "trials": 1, "prior_weights": (0.0, 0.1)}
    view = observe_training(ENCODED, training)
    ordered = AuxiliaryKnowledge(labels={("ann", 0): np.array([0, 1] * ROWS)}, bounds=KNOWN.bounds)
    claims = [
        TabLeakFedAvg(**few, **options, dtype="float64", device=where).run(view, ordered) for where in ("cpu", device)
    ]
    (here,), (there,) = claims
    assert np.array_equal(here.categories, there.categories)
    np.testing.assert_allclose(there.numbers, here.numbers, atol=1e-6 * DEVIATIONS.max())


def test_spear_proves_the_same_rows(device):
    _, numbers, encoded = rows_of(NUMERIC, ROWS, 0)
    here, there = both(Spear, device, observe(encoded, NUMERIC))
    assert here.verified.all()
    assert there.verified.all()
    np.testing.assert_allclose(np.sort(there.numbers, 0), np.sort(here.numbers, 0), atol=1e-4)
    assert len(there.numbers) == len(numbers)


def test_rows_leave_as_much_of_the_update_to_noise(device):
    """What the posterior weighs: an update less the gradients of rows, and how likely what is left is as noise."""
    (update,) = find_gradients(noised(1e-2), KNOWN)
    through = channel(update.mechanisms, update.gradient)
    categorical, numeric = cells_of(update.layout, KNOWN, "cpu")
    drawn = from_prior([*categorical, *numeric], 3 * ROWS, torch.Generator().manual_seed(0), "cpu").view(3, ROWS, -1)

    def told(where):
        categorical, numeric = cells_of(update.layout, KNOWN, where)
        network, evidence = RowGradients(update.model, update.weights, where), evidence_of(update, through, where)
        coins = torch.Generator(where).manual_seed(0)
        state = Chains(network, [*categorical, *numeric], evidence, drawn.to(where), coins)
        return [t.cpu().numpy() for t in (*state.residual, state.energy(), state.log_prior())]

    for here, there in zip(told("cpu"), told(device), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


def test_the_posterior_finds_the_same_rows_and_is_as_sure(device):
    here, there = both(Posterior, device, noised(1e-3), **BRIEF)
    assert exact(here, CATEGORIES, NUMBERS, 1.0).all()
    assert exact(there, CATEGORIES, NUMBERS, 1.0).all()
    assert abs(here.probability.mean() - there.probability.mean()) < 0.03


def test_the_posterior_doubts_as_much_where_noise_is_loud(device):
    here, there = both(Posterior, device, noised(1.0), **BRIEF)
    assert abs(here.probability.mean() - there.probability.mean()) < 0.1
    assert there.probability.mean() < 0.7


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_portfolio_proves_the_same_rows(device, activation):
    here, there = both(Portfolio, device, observe(ENCODED, activation=activation))
    assert here.verified.all()
    assert there.verified.all()
    assert exact(there, CATEGORIES, NUMBERS).all()
    assert exact(here, CATEGORIES, NUMBERS).all()


def test_the_portfolio_reads_through_noise(device):
    here, there = both(Portfolio, device, noised(1e-3), posterior=BRIEF)
    assert exact(here, CATEGORIES, NUMBERS, 1.0).all()
    assert exact(there, CATEGORIES, NUMBERS, 1.0).all()


def test_restarts_have_more_room_on_an_accelerator_unless_it_is_said(device):
    assert room(7, device) == 7
    assert room(None, device) == HOST if device == "cpu" else room(None, device) > HOST
