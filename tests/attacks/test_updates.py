import numpy as np
import pytest
import torch

from attacks.base import AuxiliaryKnowledge, NotApplicable
from attacks.fedavg.objective import simulated_update
from attacks.fedavg.targets import find_trainings
from attacks.updates import find_updates, rounding, summed
from preprocess.models import as_arrays
from preprocess.views import TrainingSpec, View
from tests.attacks.example import LAYOUT, observe, observe_training, rows_of

TRAINING = TrainingSpec("fedavg", rounds=1, learning_rate=0.05, batch_size=3, local_epochs=2)
NOTHING = AuxiliaryKnowledge()


def trained(training=TRAINING, count=8, **options):
    view = observe_training(rows_of(LAYOUT, count, 0)[2], training, **options)
    (found,) = find_trainings(view, NOTHING, labels_needed=False)
    return view, found


def test_a_gradient_is_the_sum_of_one_and_carries_no_noise():
    (target,) = find_updates(observe(rows_of(LAYOUT, 8, 0)[2]), NOTHING)
    assert (target.rows, target.rate, target.noise) == (8, 0.0, 0.0)
    assert not len(target.labels)


def test_weights_after_training_are_the_sum_of_all_its_gradients():
    view, training = trained()
    (target,) = find_updates(view, NOTHING)
    assert (target.victim, target.rows, target.rate, target.evidence) == ("ann", 8, 0.05, (0, 1))
    assert not len(target.labels)
    for name, update in training.update.items():
        assert np.array_equal(target.gradient[name], update)
        assert np.array_equal(target.weights[name], training.weights[name])


def test_labels_that_are_known_are_those_of_one_epoch():
    labels = np.arange(16) % 2
    view, _ = trained()
    (target,) = find_updates(view, AuxiliaryKnowledge(labels={("ann", 0): labels}))
    assert target.labels.tolist() == labels[:8].tolist()


def test_a_view_without_updates_says_that_it_has_no_gradient():
    view, _ = trained()
    outcome = find_updates(View(view.observers, view.messages[:1], view.public), NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "train.gradient" in outcome.reason


@pytest.mark.parametrize(("rate", "epochs"), [(0.05, 1), (0.05, 8), (0.01, 2)])
def test_the_noise_of_an_update_is_what_rounding_the_weights_makes_of_it(rate, epochs):
    training = TrainingSpec("fedavg", rounds=1, learning_rate=rate, batch_size=None, local_epochs=epochs)
    view, told = trained(training)
    weights = {name: torch.tensor(w) for name, w in told.weights.items()}
    encoded = torch.tensor(rows_of(LAYOUT, 8, 0)[2].astype(np.float32), dtype=torch.float64)
    rows, labels = encoded.repeat(epochs, 1), torch.arange(8).repeat(epochs) % 2
    true = as_arrays(simulated_update(view.public.model, told.schedule.steps, rate, weights, rows, labels))
    pairs = [(told.update[name].ravel(), true[name].ravel()) for name in ("0.weight", "0.bias")]
    errors = np.concatenate([(rounded - exact)[rounded != 0] for rounded, exact in pairs])
    assert rounding(told) == pytest.approx(errors.std(), rel=0.15)


def test_weights_in_double_precision_carry_next_to_no_noise():
    _, told = trained()
    for name, w in told.weights.items():
        told.weights[name] = w + 1e-12
    assert 0 < summed(told).noise < 1e-13
