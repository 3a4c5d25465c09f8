"""What every registered attack must do, and that every attack is registered."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import attacks
from attacks import ATTACKS
from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
    View,
)
from preprocess.wire import encode

HELPERS = {"updates", "base", "candidates", "labels"}  # files of the package that are no technique
LAYOUT = FeatureLayout((NumericBlock("age", 0, 0.0, 1.0, -2.0, 2.0), CategoricalBlock("ward", 1, 3, ("a", "b", "c"))))
SPEC = ModelSpec(LAYOUT.width, 2, (30, 30))
TRAINING = TrainingSpec(learning_rate=0.1)


def view(*messages):
    public = PublicFacts(("P1", "P2"), "server", layout=LAYOUT, model=SPEC, training=TRAINING)
    return View(frozenset(["server"]), messages, public)


def told(sequence, topic, sender, recipient, payload):
    body = encode(payload)
    return Message(sequence, "step", 0, topic, sender, recipient, None, False, body, body)


def leaky():
    """A view that each of the attacks can make a claim from: a dictionary, a model, and what one row makes of it."""
    weights = initial_weights(SPEC, np.random.default_rng(0))
    row, label = torch.tensor([[0.5, 0.0, 1.0, 0.0]]), torch.tensor([1])
    step = as_arrays(gradient(SPEC, as_tensors(weights), row, label))
    trained = {name: w - np.float32(TRAINING.learning_rate) * step[name] for name, w in weights.items()}
    return view(
        told(0, "dictionary.local", "P1", "server", {"ward": ["a", "b"]}),
        told(1, "train.model", "server", "P1", {"weights": weights}),
        told(2, "train.gradient", "P1", "server", {"rows": 1, "gradient": step}),
        told(3, "train.weights", "P1", "server", {"rows": 1, "weights": trained}),
    )


def made(name):
    """The attack with few iterations where it has a say in that."""
    kind = ATTACKS[name]
    return kind(**({"restarts": 2, "iterations": 20} if name.startswith("tableak") else {}))


KNOWN = AuxiliaryKnowledge(labels={("P1", 0): np.array([1])})


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_named_as_registered_and_says_what_it_reads_and_assumes(name):
    kind = ATTACKS[name]
    assert kind.technique == name
    assert kind.reference
    assert kind.assumes
    assert kind.asset
    assert kind.topics


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_a_view_and_declared_knowledge_and_nothing_else(name):
    assert list(inspect.signature(ATTACKS[name].run).parameters) == ["self", "view", "knowledge"]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_empty_view_gives_no_claim_and_a_reason(name):
    outcome = made(name).run(view(), AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable | Abstained)
    assert outcome.reason


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_view_and_seed_give_the_same_claims_from_messages_in_the_view(name):
    one, other = (made(name).run(leaky(), KNOWN) for _ in range(2))
    assert not isinstance(one, NotApplicable | Abstained)
    assert repr(one) == repr(other)
    for claim in one:
        assert set(claim.evidence) <= {0, 1, 2, 3}
        assert (getattr(claim, "victim", None) or getattr(claim, "party", None)) == "P1"


def test_every_technique_is_registered():
    folder = Path(attacks.__file__).parent
    files = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    assert files - HELPERS - {"__init__"} == {kind.__module__.split(".")[1] for kind in ATTACKS.values()}
