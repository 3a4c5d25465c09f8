"""What every registered attack must do, and that every attack is registered."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import leakledger.attacks
from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.texts import TextRecords
from leakledger.audit.control_federations import played
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
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

SHARED = {
    "all_layers",
    "inversion",
    "owners",
    "exact",
    "matching",
    "holdings",
}  # beside the techniques, for several of them
LAYOUT = FeatureLayout((NumericBlock("age", 0, 0.0, 1.0, -2.0, 2.0), CategoricalBlock("ward", 1, 3, ("a", "b", "c"))))
SPEC = ModelSpec(LAYOUT.width, 2, (30, 30))
TRAINING = TrainingSpec(learning_rate=0.1, batch_size=None)


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


AGES, WARDS = ("-0.5", "0.5"), ("a", "b", "c")


def embed(records):
    """A public code of records written as text, here the columns themselves."""
    cells = [dict(record) for record in records]
    return np.array([[float(c["age"]), *(float(c["ward"] == w) for w in WARDS)] for c in cells])


TEXTS = TextRecords(embed, {"age": AGES, "ward": WARDS}, {"age": ("age",), "ward": ("ward",)})
KNOWN = AuxiliaryKnowledge(labels={("P1", 0): np.array([1])}, texts={"P1": TEXTS})


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_named_as_registered_and_says_what_it_reads_and_assumes(name):
    kind = ATTACKS[name]
    assert kind.technique == name
    assert kind.reference
    assert kind.assumes
    assert kind.asset
    assert kind.reads


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_a_view_and_declared_knowledge_and_nothing_else(name):
    assert list(inspect.signature(ATTACKS[name].run).parameters) == ["self", "view", "knowledge"]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_empty_view_gives_no_claim_and_a_reason(name):
    outcome = made(name).run(view(), AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable | Abstained)
    assert outcome.reason


def known_to_leak(name):
    """A view that the attack makes claims from: `leaky`, or that of its first control."""
    if leaky().restricted(ATTACKS[name].accepts).messages:
        return leaky()
    spec = next(s for s in ATTACKS[name].controls if s.expects not in ("records", "fields"))
    return played(spec).view(spec.observers)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_view_and_seed_give_the_same_claims_from_messages_in_the_view(name):
    seen = known_to_leak(name)
    one, other = (made(name).run(seen, KNOWN) for _ in range(2))
    assert not isinstance(one, NotApplicable | Abstained)
    assert repr(one) == repr(other)
    for claim in one:
        assert set(claim.evidence) <= {m.sequence for m in seen.messages}
        assert (getattr(claim, "victim", None) or getattr(claim, "party", None)) in {
            *seen.public.clients
        } - seen.observers


def test_every_technique_is_registered_under_the_name_of_its_file():
    rooms = [Path(leakledger.attacks.__file__).parent / room for room in ("gradient", "transcript")]
    files = {p.stem for r in rooms for p in r.glob("*.py")} | {p.parent.name for r in rooms for p in r.glob("*/*.py")}
    assert files - SHARED - {"__init__"} == set(ATTACKS)
    assert {kind.__module__.rpartition(".")[2] for kind in ATTACKS.values()} == set(ATTACKS)


def test_attacks_name_every_check_that_they_make_so_that_a_policy_can_allow_it():
    named = {name for attack in ATTACKS.values() for name in attack.checks}
    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in Path(leakledger.attacks.__file__).parent.rglob("*.py")]
    calls = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Call) and len(n.args) > 1]
    made = {n.args[1].value for n in calls if ast.unparse(n.func) == "FindingClaim" and hasattr(n.args[1], "value")}
    assert {"masks-reused", "coalition", "one-mask", "lone-records"} <= made <= named
    for attack in ATTACKS.values():
        assert {spec.check for spec in attack.controls if spec.check} <= {*attack.checks}
