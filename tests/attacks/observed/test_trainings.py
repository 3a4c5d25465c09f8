import re
from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.trainings import find_trainings
from leakledger.attacks.observed.update import ObservedUpdate, Schedule
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import encode
from tests.every import every

SPEC = ModelSpec(3, 2, (4,))
LAYOUT = FeatureLayout((NumericBlock("age", 0), CategoricalBlock("sex", 1, 2)))
TRAINING = TrainingSpec("fedavg", rounds=1, learning_rate=0.5, batch_size=2, local_epochs=2)
WEIGHTS = initial_weights(SPEC, np.random.default_rng(0))
TRAINED = initial_weights(SPEC, np.random.default_rng(1))
LABELS = {("ann", 0): np.array([0, 1, 1, 1, 0, 1])}


def model(to="ann", weights=WEIGHTS):
    return ("train.model", "server", to, {"weights": weights})


def answer(sender="ann", rows=3, weights=TRAINED):
    return ("train.weights", sender, "server", {"rows": rows, "weights": weights})


def find(*told, labels=LABELS, training=TRAINING, spec=SPEC, observers=("server",), **options):
    messages = []
    for i, (topic, sender, recipient, payload) in enumerate(told):
        body = encode(payload)
        messages.append(Message(i, "train", 0, topic, sender, recipient, None, False, body, body))
    public = PublicFacts(("ann", "bob"), "server", layout=LAYOUT, model=spec, training=training)
    view = View(frozenset(observers), tuple(messages), public)
    return find_trainings(view, AuxiliaryKnowledge(labels=labels), **options)


def test_the_update_is_the_difference_of_weights_over_the_learning_rate():
    (found,) = find(model(), answer())
    assert (found.victim, found.round, found.evidence) == ("ann", 0, (0, 1))
    assert found.schedule == Schedule(rows=3, epochs=2, batch=2, rate=0.5)
    for name, w in WEIGHTS.items():
        assert np.allclose(found.weights[name] - found.rate * found.gradient[name], TRAINED[name])
        assert np.array_equal(found.weights[name], w)


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (Schedule(3, 2, 2, 0.1), ((0, 2), (2, 3), (3, 5), (5, 6))),
        (Schedule(4, 1, 2, 0.1), ((0, 2), (2, 4))),
        (Schedule(2, 2, 2, 0.1), ((0, 2), (2, 4))),
    ],
)
def test_the_last_batch_of_an_epoch_holds_what_is_left(schedule, steps):
    assert schedule.steps == steps
    assert schedule.total == steps[-1][1]


@pytest.mark.parametrize("size", [None, 50])
def test_a_batch_is_never_larger_than_the_rows(size):
    (found,) = find(model(), answer(), training=replace(TRAINING, batch_size=size))
    assert found.schedule.batch == 3


def test_rounds_and_victims_restrict_what_is_attacked():
    assert find(model(), answer(), victims=["ann"], rounds=[0])
    assert isinstance(find(model(), answer(), victims=["bob"]), NotApplicable)
    assert isinstance(find(model(), answer(), rounds=[1]), NotApplicable)


def test_one_client_that_cannot_be_attacked_does_not_spare_the_others():
    (found,) = find(model(), answer(), model("bob"), answer("bob", rows=0))
    assert isinstance(found, ObservedUpdate)
    assert found.victim == "ann"


@every(
    ("told", "options", "reason"),
    [
        ([], {}, "no train.weights message"),
        ([answer()], {}, "weights of ann in round 0 have no readable train.model message"),
        ([model(), answer()], {"observers": ["ann"]}, "no train.weights message"),
        ([model(), answer()], {"labels": {("ann", 0): np.zeros(3, int)}}, r"shape \(3,\) do not fit 6 rows"),
        ([model(), answer()], {"labels": {("ann", 0): np.full(6, 2)}}, "class numbers from 0 to 1"),
        ([model(), answer()], {"labels": {("ann", 0): np.array([0, 0, 0, 1, 1, 1])}}, "epochs differ"),
        ([model(), answer(rows=0)], {}, "how many rows, but 0"),
        ([model(), answer(weights={**TRAINED, "1.bias": np.zeros(3, np.float32)})], {}, r"1.bias has shape \(3,\)"),
        ([model(), answer(weights={**TRAINED, "1.bias": np.full(2, np.nan, np.float32)})], {}, "1.bias .* not finite"),
        ([model(), ("train.weights", "ann", "server", [1])], {}, "it is no ClientWeights"),
        ([model(), answer()], {"training": None}, "no training settings"),
        ([model(), answer()], {"training": replace(TRAINING, learning_rate=0.0)}, "learning rate 0.0"),
        ([model(), answer()], {"training": replace(TRAINING, local_epochs=0)}, "0 local epochs"),
        ([model(), answer()], {"training": replace(TRAINING, proximal=2.0)}, "4 local steps under a proximal term"),
        ([model(), answer()], {"spec": ModelSpec(3, 1, (4,), task="regression")}, "classifier"),
    ],
)
def test_what_cannot_be_attacked_is_a_reason_and_no_error(told, options, reason):
    outcome = find(*told, **options)
    assert isinstance(outcome, NotApplicable)
    assert re.search(reason, outcome.reason), outcome.reason


def test_a_proximal_term_is_nothing_in_the_only_step():
    one, labels = replace(TRAINING, local_epochs=1, batch_size=None), {("ann", 0): np.zeros(3, int)}
    (plain,) = find(model(), answer(), training=one, labels=labels)
    (held_back,) = find(model(), answer(), training=replace(one, proximal=5.0), labels=labels)
    assert all(np.array_equal(g, held_back.gradient[name]) for name, g in plain.gradient.items())


def test_a_proximal_term_leaves_a_share_of_the_gradients_before():
    (found,) = find(model(), answer(), training=replace(TRAINING, proximal=0.1))
    assert found.schedule.kept == 1 - TRAINING.learning_rate * 0.1
    (plain,) = find(model(), answer())
    assert all(np.array_equal(g, found.gradient[name]) for name, g in plain.gradient.items())


def test_weights_that_did_not_move_are_abstained_from():
    outcome = find(model(), answer(weights=WEIGHTS))
    assert isinstance(outcome, Abstained)
    assert "zero in every tensor" in outcome.reason
