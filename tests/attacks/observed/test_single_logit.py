"""A single logit as two: the same gradients of rows, and back to what was sent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.observed.single_logit import one_logit, one_per_class, two_logits
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.views import FeatureLayout, ModelSpec

SPEC = ModelSpec(4, 1, (5, 3), "tanh")


def observed(spec=SPEC):
    weights = initial_weights(spec, np.random.default_rng(0))
    rows, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 1, 0, 1, 1])
    found = as_arrays(gradient(spec, as_tensors(weights), rows, labels))
    update = ObservedUpdate("ann", 0, 6, FeatureLayout(()), spec, labels.numpy(), weights, found, 2**-24)
    return update, rows, labels


def test_the_network_with_two_logits_has_the_gradient_that_it_is_given():
    update, rows, labels = observed()
    two = two_logits(update)
    assert two.model == replace(SPEC, outputs=2)
    expected = gradient(two.model, as_tensors(two.weights), rows, labels)
    assert two.gradient.keys() == expected.keys()
    for name, g in expected.items():
        assert np.allclose(two.gradient[name], g.numpy(), atol=1e-6), name


def test_what_was_sent_is_had_back():
    update, *_ = observed()
    again = one_logit(two_logits(update))
    assert (again.model, again.single) == (SPEC, False)
    for name, w in update.weights.items():
        assert np.array_equal(again.weights[name], w)
        assert np.array_equal(again.gradient[name], update.gradient[name])


@pytest.mark.parametrize("spec", [ModelSpec(4, 2, (5,)), ModelSpec(4, 1, (5,), task="regression")])
def test_other_networks_stay_as_they_are(spec):
    update, *_ = observed(replace(spec, outputs=2))
    update = replace(update, model=spec)
    assert two_logits(update) is update
    assert one_logit(update) is update
    assert one_per_class(spec) is spec
