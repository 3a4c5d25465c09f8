from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.tableak_fedavg.objective import simulated_update
from leakledger.attacks.observed.trainings import find_trainings
from leakledger.attacks.observed.updates import find_updates
from leakledger.preprocess.models import as_arrays
from leakledger.preprocess.views import TrainingSpec, View
from leakledger.preprocess.wire import encode
from tests.attacks.example import LAYOUT, observe, observe_training, rows_of

TRAINING = TrainingSpec("fedavg", rounds=1, learning_rate=0.05, batch_size=3, local_epochs=2)
NOTHING = AuxiliaryKnowledge()


def trained(training=TRAINING, count=8, **options):
    view = observe_training(rows_of(LAYOUT, count, 0)[2], training, **options)
    (found,) = find_trainings(view, NOTHING)
    return view, found


def test_a_gradient_is_the_sum_of_one_and_carries_no_noise():
    (found,) = find_updates(observe(rows_of(LAYOUT, 8, 0)[2]), NOTHING)
    assert (found.rows, found.rate, found.noise) == (8, 0.0, 0.0)
    assert not len(found.labels)


def test_weights_after_training_are_the_sum_of_all_its_gradients():
    view, training = trained()
    (found,) = find_updates(view, NOTHING)
    assert (found.victim, found.rows, found.rate, found.evidence) == ("ann", 8, 0.05, (0, 1))
    assert not len(found.labels)
    for name, gradient in training.gradient.items():
        assert np.array_equal(found.gradient[name], gradient)
        assert np.array_equal(found.weights[name], training.weights[name])


def test_labels_that_are_known_are_those_of_all_epochs():
    labels = np.arange(16) % 2
    view, _ = trained()
    (found,) = find_updates(view, AuxiliaryKnowledge(labels={("ann", 0): labels}))
    assert found.labels.tolist() == labels.tolist()


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
    pairs = [(told.gradient[name].ravel(), true[name].ravel()) for name in ("0.weight", "0.bias")]
    errors = np.concatenate([(rounded - exact)[rounded != 0] for rounded, exact in pairs])
    assert told.noise == pytest.approx(errors.std(), rel=0.15)


@pytest.mark.parametrize(("before", "after"), [(np.float16, np.float32), (np.float32, np.float16)])
def test_the_precision_is_that_of_the_coarser_of_both_weights(before, after):
    (found,) = find_updates(retyped(trained()[0], before, after), NOTHING)
    assert found.precision == np.finfo(np.float16).eps
    assert found.roundoff == np.finfo(np.float64).eps


def test_weights_in_double_precision_carry_next_to_no_noise():
    (found,) = find_updates(retyped(trained()[0], np.float64, np.float64), NOTHING)
    assert found.precision == found.roundoff == np.finfo(np.float64).eps
    assert 0 < found.noise < 1e-13


def retyped(view, *kinds):
    """The view with the weights before and after as arrays of other types."""
    messages = []
    for message, kind in zip(view.messages, kinds, strict=True):
        payload = message.payload.to_plain()
        body = encode({**payload, "weights": {n: w.astype(kind) for n, w in payload["weights"].items()}})
        messages.append(replace(message, body=body, content=body))
    return View(view.observers, tuple(messages), view.public)
