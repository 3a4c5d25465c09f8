"""`validate` names the attacks that cannot apply to a case, with the reason that they give when they run."""

import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable
from leakledger.audit.account import account_of
from leakledger.audit.case import cases
from leakledger.audit.federate import federate
from leakledger.audit.granted import make_attack
from leakledger.audit.play import view_of
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config

USE = ["linear_layer", "span", "atoms", "spear", "posterior", "tableak", "tableak_fedavg"]
BATCH_NORM = {"hidden": [20], "norm": "batch"}
LOCAL = {"algorithm": "fedavg", "rounds": 1, "batch_size": 4, "local_epochs": 2}
SETTINGS = {
    "plain": ({}, {}, {"tableak_fedavg": "under fedavg, and they train by fedsgd"}),
    "dropout": (
        {"hidden": [20], "dropout": 0.5},
        {},
        dict.fromkeys(["atoms", "spear", "posterior", "tableak", "tableak_fedavg"], "dropout 0.5"),
    ),
    "a norm": (
        BATCH_NORM,
        {},
        {"linear_layer": "nothing to divide by", "atoms": "see span", "spear": "batch norm", "posterior": "batch norm"},
    ),
    "a smooth activation": ({"activation": "tanh"}, {}, {"span": "not tanh", "spear": "not tanh"}),
    "local steps": ({}, LOCAL, dict.fromkeys(["atoms", "spear", "tableak"], "under fedsgd")),
    "a norm and local steps": (BATCH_NORM, LOCAL, {"span": "local steps move the scales", "posterior": "batch norm"}),
}


def audit(model, training):
    return config(model=model, training={"rounds": 1, **training}, attacks={"use": USE}, data={"rows": 100})


@pytest.mark.parametrize("what", SETTINGS)
def test_an_attack_that_cannot_apply_is_named_with_its_reason(what):
    model, training, expected = SETTINGS[what]
    warnings = account_of(audit(model, training), "name", "leakledger validate").warnings
    told = {name: [w for w in warnings if w.startswith(f"the attack {name} cannot be")] for name in USE}
    assert all(told[name] and reason in told[name][0] for name, reason in expected.items()), told
    if "norm" not in what:
        assert {name for name in USE if told[name]} - {"tableak_fedavg"} == set(expected) - {"tableak_fedavg"}


@pytest.mark.parametrize("what", SETTINGS)
def test_what_is_said_before_a_run_is_so_in_the_run(what):
    model, training, _ = SETTINGS[what]
    settings = audit(model, training)
    (case,) = cases(settings)
    federated = federate(settings, case, PUBLIC_MASTER)
    view = view_of(["server"], Truth(federated))
    for name in USE:
        attack = make_attack(name, settings, case)
        if attack.unfit(federated.public):
            assert isinstance(attack.run(view, AuxiliaryKnowledge()), NotApplicable), name
