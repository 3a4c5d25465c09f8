"""One's own gradient, weights or transcript: `leakledger.attack`, `Recorder`, `leakledger attack`."""

import contextlib
import json
import subprocess
import sys
import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import leakledger
from leakledger.attacks.base import Abstained, AuxiliaryKnowledge
from leakledger.attacks.gradient.random_baseline import RandomBaseline
from leakledger.attacks.gradient.span import Span
from leakledger.audit import transcript_attack
from leakledger.audit.own_code import AttackResult
from leakledger.audit.own_update import layers_of, layout_of, view_of_update
from leakledger.audit.planted_batches import Advantage, PlantedBatches
from leakledger.audit.planted_controls import planted_controls
from leakledger.audit.records import Control
from leakledger.audit.transcript_attack import Played, attack_transcript, silent_rows
from leakledger.defenses import defense_of
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    GlobalModel,
    LocalDictionary,
    LocalMeans,
    Payload,
    Sharers,
)
from leakledger.preprocess.models import as_tensors, gradient
from leakledger.preprocess.transcript import TranscriptError, read_transcript, write_transcript
from leakledger.preprocess.views import Abort, Mechanism, ModelSpec, TrainingSpec
from tests.audit.test_cli import call, refused

AGES, WARDS = (31.0, 44.0, 27.0, 65.0, 58.0, 39.0), (0, 1, 2, 1, 0, 2)
LABELS = torch.tensor([0, 1, 0, 1, 1, 0])
COLUMNS = {"age": (50.0, 15.0), "ward": ["surgery", "heart", "other"]}
NAMES = COLUMNS["ward"]


def rows():
    age = (torch.tensor(AGES) - 50) / 15
    return torch.cat([age[:, None], nn.functional.one_hot(torch.tensor(WARDS), 3).float()], 1)


def network(*, outputs=2, activation=nn.ReLU, hidden=60):
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(4, hidden), activation(), nn.Linear(hidden, hidden), activation(), nn.Linear(hidden, outputs)
    )


def trained(net, count=6):
    """The network with the gradient of its first rows."""
    if net[-1].out_features == 1:
        nn.functional.binary_cross_entropy_with_logits(net(rows()[:count])[:, 0], LABELS[:count].float()).backward()
    else:
        nn.functional.cross_entropy(net(rows()[:count]), LABELS[:count]).backward()
    return net


def locally_trained(net, count=6):
    """What is known of two local epochs on its first rows, each one step."""
    before = {name: value.clone() for name, value in net.state_dict().items()}
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        trained(net, count)
        optimiser.step()
    steps = TrainingSpec("fedavg", learning_rate=0.1, batch_size=count, local_epochs=2)
    return {"after": net, "model_state": before, "layout": COLUMNS, "rows": count, "training": steps, "controls": False}


OF_TRAINING = {"trained": True, "layout": layout_of(COLUMNS), "rows": 6}


def recovered(found):
    return sorted((round(r.age), r.ward) for r in found.rows.itertuples())


TRUE = sorted((round(a), NAMES[w]) for a, w in zip(AGES, WARDS, strict=True))


def test_a_gradient_of_a_torch_network_gives_its_rows_away_and_the_controls_pass():
    net = trained(network())
    found = leakledger.attack(gradient=net, model_state=net, layout=COLUMNS, labels=LABELS)
    assert recovered(found) == TRUE
    assert found.rows["verified"].all()
    assert found.controls["kind"].tolist() == ["leaky", "power", "null"]
    assert found.controls["passed"].all()
    assert "proved 6 of 6" in found.summary
    assert "surgery" in found._repr_html_()


def test_the_same_comes_of_names_or_of_tensors_in_order_and_without_labels():
    net = trained(network())
    state = dict(net.state_dict())
    named = {name: p.grad for name, p in net.named_parameters()}
    for form in (named, [p.grad.numpy() for p in net.parameters()]):
        given = {"gradient": form, "model_state": state, "layout": COLUMNS, "rows": 6, "controls": False}
        found = leakledger.attack(**given, activation="relu")
        assert recovered(found) == TRUE
        with pytest.raises(ValueError, match="no module tells what is between the layers; give activation="):
            leakledger.attack(**given)
    assert "No control was played" in found.summary


def test_the_activation_is_that_of_whichever_module_is_given():
    """Behind another one rows are sought in vain, and controls find theirs."""
    told = locally_trained(network(activation=nn.Tanh))
    assert view_of_update(told["model_state"], told["after"], **OF_TRAINING).public.model.activation == "tanh"
    with pytest.raises(ValueError, match="model_state has 'relu' between its layers, and the update 'tanh'"):
        view_of_update(network(), told["after"], **OF_TRAINING)


def test_one_logit_is_two_of_which_the_first_is_zero():
    net = trained(network(outputs=1))
    view = view_of_update(net, [p.grad for p in net.parameters()], trained=False, layout=layout_of(COLUMNS), rows=6)
    model, sent = (m.payload for m in view.messages)
    expected = gradient(view.public.model, as_tensors(model.weights), rows(), LABELS)
    for name, tensor in sent.gradient.items():
        assert np.allclose(tensor, expected[name].numpy(), atol=1e-6)
    found = leakledger.attack(gradient=net, model_state=net, layout=COLUMNS, labels=LABELS, controls=False)
    assert recovered(found) == TRUE


def test_a_single_logit_behind_clipped_rows_is_clipped_as_a_single_one():
    net, norm, sigma = network(outputs=1), 0.3, 0.0005
    sent = [torch.zeros_like(p) for p in net.parameters()]
    for row, label in zip(rows(), LABELS.float(), strict=True):
        loss = nn.functional.binary_cross_entropy_with_logits(net(row)[0], label)
        one = torch.autograd.grad(loss, list(net.parameters()))
        scale = min(1.0, norm / float(torch.cat([g.ravel() for g in one]).norm()))
        sent = [s + scale * g / len(LABELS) for s, g in zip(sent, one, strict=True)]
    coins = torch.Generator().manual_seed(1)
    sent = [s + sigma * torch.randn(s.shape, generator=coins) for s in sent]
    stated = [Mechanism("example-clipping", {"clip_norm": norm}), Mechanism("gaussian-noise", {"sigma": sigma})]
    given = {"gradient": sent, "model_state": net, "layout": COLUMNS, "labels": LABELS, "mechanisms": stated}
    found = leakledger.attack(**given, technique="posterior", controls=False)
    assert len(set(recovered(found)) & set(TRUE)) >= 4


def test_labels_of_all_local_epochs_are_granted_to_the_attack():
    given = locally_trained(network())
    fast = {"technique": "tableak_fedavg", "options": {"restarts": 1, "iterations": 10}}
    assert len(leakledger.attack(**given, **fast, labels=LABELS.repeat(2)).rows) == 6


def test_local_training_of_a_single_logit_is_read():
    found = leakledger.attack(**locally_trained(network(outputs=1)))
    assert set(recovered(found)) & set(TRUE)
    assert not found.proven


def test_a_gate_fails_for_proven_rows_and_where_nobody_can_tell():
    net = trained(network())
    given = {"gradient": net, "model_state": net, "layout": COLUMNS, "labels": LABELS}
    found = leakledger.attack(**given)
    found.assert_few_proven(at_most=6)
    with pytest.raises(AssertionError, match=r"proved 6 of 6 claimed rows.* At most 5 may be"):
        found.assert_few_proven(at_most=5)
    with pytest.raises(AssertionError, match=r"inconclusive.*No control was played"):
        leakledger.attack(**given, controls=False).assert_few_proven(at_most=6)
    for at_most in (float("nan"), -1, "many"):
        with pytest.raises(ValueError, match="at_most is "):
            found.assert_few_proven(at_most=at_most)
    zero = {**given, "gradient": [torch.zeros_like(p) for p in net.parameters()]}
    with pytest.raises(AssertionError, match=r"inconclusive.*claims nothing"):
        leakledger.attack(**zero).assert_few_proven()
    noisy = [p.grad + 10 * torch.randn_like(p) for p in net.parameters()]
    noise = Mechanism("gaussian-noise", {"sigma": 10.0})
    decides = r"inconclusive.*Controls failed: .*power.*planted_batches=32.*assert_low_advantage.*larger margin"
    with pytest.raises(AssertionError, match=decides):
        leakledger.attack(**{**given, "gradient": noisy}, mechanisms=[noise]).assert_few_proven()


def result(*, power=1.0, limit=0.8, rows=8, proven=0, planted=None, failed=()):
    values = {"leaky": (1.0, 0.2), "power": (power, 0.44), "null": (0.4, 0.44)}
    passed = {"leaky": True, "power": power > limit, "null": True} | dict.fromkeys(failed, False)
    trials = tuple(Control("portfolio", k, v, b, 0.0, passed[k], "") for k, (v, b) in values.items())
    table = pd.DataFrame({"age": np.zeros(rows), "verified": np.arange(rows) < proven})
    return AttackResult("portfolio", table, "no reason", trials, planted)


def advantage(mean, half, *, partial=0, proven=0):
    return Advantage(32, 0.44 + 0.56 * mean, 0.44, mean, mean - half, mean + half, partial, proven)


def planted(behind=None, without=None):
    return PlantedBatches(behind or advantage(0.02, 0.1), without or advantage(0.95, 0.05))


def test_claims_without_a_proof_do_not_pass_where_planted_rows_are_recovered():
    line = (
        "8 rows are claimed and none is proven, but on planted rows behind such an update this attack gets 100% of the "
        "cells where guessing gets 44%: unproven is not protected"
    )
    with pytest.raises(AssertionError) as error:
        result().assert_few_proven()
    assert str(error.value).startswith(line)
    assert line in result().summary
    with pytest.raises(AssertionError, match=r"8 rows are claimed and 2 are proven, but .* unproven is not protected"):
        result(proven=2).assert_few_proven(at_most=7)
    result(proven=2).assert_few_proven(at_most=8)
    with pytest.raises(AssertionError, match="inconclusive"):
        result(power=0.5).assert_few_proven(at_most=8)


@pytest.mark.slow
def test_weak_noise_keeps_rows_from_being_proven_and_does_not_pass():
    net = trained(network())
    noisy = [p.grad + 0.005 * torch.randn_like(p) for p in net.parameters()]
    noise = Mechanism("gaussian-noise", {"sigma": 0.005})
    found = leakledger.attack(gradient=noisy, model_state=net, layout=COLUMNS, labels=LABELS, mechanisms=[noise])
    with pytest.raises(AssertionError, match=r"6 rows are claimed and none is proven, .* unproven is not protected"):
        found.assert_few_proven()


def test_a_low_advantage_passes_where_the_same_attack_has_a_high_one_without_the_defense():
    result(power=0.5, planted=planted()).assert_low_advantage()
    result(power=0.5, planted=planted(advantage(0.3, 0.1))).assert_low_advantage(at_most=0.5)


@pytest.mark.parametrize("at_most", [0, 1, -0.1, float("nan"), "0.3", None, [0.3]])
def test_what_is_no_advantage_is_refused(at_most):
    with pytest.raises(ValueError, match=r"at_most is .*: an advantage between 0"):
        result(power=0.5, planted=planted()).assert_low_advantage(at_most)


NOT_LOW = {
    "nothing planted": (result(power=0.5), r"^inconclusive: no batches were planted; .*planted_batches=32"),
    "proven": (result(proven=1, planted=planted()), "proved 1 of 8"),
    "proven of planted rows": (
        result(planted=planted(advantage(0, 0.1, proven=3))),
        "^portfolio proves 3 planted rows",
    ),
    "above": (
        result(planted=planted(advantage(0.6, 0.1))),
        r"^on planted rows .* gets 78% .* guessing gets 44%, an advantage of 0.60 .*at most 0.15 may be",
    ),
    "wide": (result(planted=planted(advantage(0.1, 0.2))), "^inconclusive: .*more planted batches .*larger margin"),
    "silent about rows": (
        result(planted=planted(advantage(-0.5, 0.1, partial=1))),
        "^inconclusive: of 1 of 32 planted batches portfolio left cells out",
    ),
    "weak without the defense": (
        result(planted=planted(without=advantage(0.2, 0.1))),
        "^inconclusive: without the defense this attack gets .* must be above 0.15",
    ),
    "no defense": (result(planted=PlantedBatches(advantage(0, 0.1), None)), "^inconclusive: no defense is stated"),
    "a control failed": (result(planted=planted(), failed=["null"]), "^inconclusive: controls failed: null"),
    "no claim": (result(planted=planted(), rows=0), "^inconclusive: portfolio claims nothing"),
}


@pytest.mark.parametrize("case", NOT_LOW)
def test_an_advantage_that_is_not_shown_to_be_low_does_not_pass(case):
    found, expected = NOT_LOW[case]
    with pytest.raises(AssertionError, match=expected) as error:
        found.assert_low_advantage()
    assert "\n" not in str(error.value)


def test_a_margin_is_between_guessing_and_everything():
    with pytest.raises(ValueError, match="at_most is 1: an advantage between 0"):
        result(planted=planted()).assert_low_advantage(at_most=1)


def test_weights_before_and_after_local_training_give_rows_away():
    found = leakledger.attack(**locally_trained(network(), 3), technique="span")
    assert recovered(found) == sorted((round(a), NAMES[w]) for a, w in zip(AGES[:3], WARDS[:3], strict=True))


def test_a_technique_that_guesses_fails_its_leaky_control_and_the_summary_says_so():
    net = trained(network())
    found = leakledger.attack(
        gradient=net, model_state=net, layout=COLUMNS, labels=LABELS, technique=RandomBaseline.technique
    )
    assert not found.controls["passed"].all()
    assert "Controls failed: " in found.summary
    assert "proves none" in found.summary


def test_under_a_known_defense_the_controls_plant_rows_under_the_same():
    net = trained(network())
    noise = Mechanism("gaussian-noise", {"sigma": 1e6})
    noisy = [p.grad + 1e6 * torch.randn_like(p) for p in net.parameters()]
    found = leakledger.attack(
        gradient=noisy, model_state=net, layout=COLUMNS, labels=LABELS, mechanisms=[noise], technique="span"
    )
    assert found.rows.empty
    assert "no evidence that nothing leaks" in found.summary
    assert not found.controls.set_index("kind")["passed"]["power"]


def test_one_activation_may_serve_all_layers_and_a_network_may_have_none():
    torch.manual_seed(3)
    act = nn.ReLU()
    net = trained(nn.Sequential(nn.Sequential(nn.Linear(4, 60), act), nn.Linear(60, 60), act, nn.Linear(60, 2)))
    found = leakledger.attack(gradient=net, model_state=net, layout=COLUMNS, labels=LABELS, controls=False)
    assert recovered(found) == TRUE
    bare = trained(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    assert leakledger.attack(gradient=bare, model_state=bare, layout=COLUMNS, labels=LABELS, controls=False).summary


def test_a_regression_gives_its_rows_away_too():
    net = network(outputs=1)
    nn.functional.mse_loss(net(rows())[:, 0], LABELS * 2.5).backward()
    more = {"task": "regression", "labels": LABELS * 2.5}
    found = recovered(leakledger.attack(gradient=net, model_state=net, layout=COLUMNS, **more))
    assert set(found) & set(TRUE)  # those that neurons show alone; nothing here solves the rest


def test_silence_is_never_called_safe():
    net = trained(network())
    zero = [torch.zeros_like(p) for p in net.parameters()]
    found = leakledger.attack(gradient=zero, model_state=net, layout=COLUMNS, labels=LABELS, controls=False)
    assert "claims nothing" in found.summary
    assert "no evidence" in found.summary


class Squares(nn.Sequential):
    def forward(self, x):
        return super().forward(x**2)


def hooked(net):
    net[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] ** 2,))
    return net


NET = network()
GOOD = {"gradient": trained(NET), "model_state": NET, "layout": COLUMNS, "labels": LABELS}
BAD = {
    "neither": ({"gradient": None}, "give gradient=, or after="),
    "both": ({"after": NET}, "one of them"),
    "no size": ({"labels": None}, "labels=, or rows="),
    "a column too few": ({"layout": {"age": None}}, "layout has 1 column, the network 4 inputs"),
    "a strange column": ({"layout": {"age": "number"}}, "'age' is 'number'"),
    "a column of two names": ({"layout": {**COLUMNS, "ward": ["a", "b", "a"]}}, "'ward' lists a value twice"),
    "a deviation without end": ({"layout": {**COLUMNS, "age": (50.0, float("inf"))}}, r"'age' is \(50.0, inf\)"),
    "no mean": ({"layout": {**COLUMNS, "age": (float("nan"), 15.0)}}, r"'age' is \(nan, 15.0\)"),
    "no backward": ({"gradient": network()}, "call backward"),
    "a frozen layer": (
        {"gradient": [None, *[p.grad for p in trained(NET).parameters()][1:]]},
        "frozen or unused parameters",
    ),
    "a layer that is not known": (
        {"model_state": nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))},
        "a layer BatchNorm1d is not known, and it mixes the rows of a batch, so that DP-SGD bounds none",
    ),
    "another layer that is not known": (
        {"model_state": nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))},
        "a layer LayerNorm is not known; networks of Linear",
    ),
    "two activations": (
        {"model_state": nn.Sequential(nn.Linear(4, 60), nn.ReLU(), nn.Linear(60, 60), nn.Tanh(), nn.Linear(60, 2))},
        "several activations",
    ),
    "another slope": (
        {"model_state": network(activation=lambda: nn.LeakyReLU(0.3))},
        "LeakyReLU has negative_slope 0.3; 0.01 is known",
    ),
    "another approximation": ({"model_state": network(activation=lambda: nn.GELU("tanh"))}, "'none' is known"),
    "another alpha": ({"model_state": network(activation=lambda: nn.ELU(2.0))}, "ELU has alpha 2.0; 1.0 is known"),
    "no activation between two layers": (
        {"model_state": nn.Sequential(nn.Linear(4, 60), nn.ReLU(), nn.Linear(60, 60), nn.Linear(60, 2))},
        "layers are Linear, ReLU, Linear, Linear; known are",
    ),
    "no activation": ({"model_state": nn.Sequential(nn.Linear(4, 60), nn.Linear(60, 2))}, "layers are Linear, Linear"),
    "an activation at the end": ({"model_state": nn.Sequential(*network(), nn.ReLU())}, "Linear, ReLU; known are"),
    "a network of one's own": ({"model_state": Squares(*network())}, "a layer Squares is not known"),
    "a hook": ({"model_state": hooked(network())}, "Linear has a forward hook"),
    "planted regressions": ({"task": "regression", "planted_batches": 32}, "behind classifications only"),
    "targets of another batch": ({"task": "regression", "rows": 3}, "there are 6 labels, and rows= says 3"),
    "targets side by side": ({"task": "regression", "labels": LABELS[None] * 1.0}, r"shape \(1, 6\)"),
    "one target": ({"task": "regression", "labels": LABELS[0] * 1.0}, "give one target for each row"),
    "labels one-hot": ({"labels": nn.functional.one_hot(LABELS)}, r"labels have shape \(6, 2\)"),
    "soft labels": ({"labels": LABELS * 0.9}, "give one class number for each row"),
    "labels of another batch": ({"rows": 3}, "there are 6 labels, and rows= says 3"),
    "no bias": ({"model_state": nn.Sequential(nn.Linear(4, 2, bias=False))}, "a weight and a bias"),
    "no such class": ({"labels": LABELS + 1}, "a class number is outside 0 to 1"),
    "another network": ({"model_state": network(hidden=7)}, "has shape"),
    "unknown technique": ({"technique": "tablek"}, "did you mean 'tableak'"),
    "one planted batch": ({"planted_batches": 1}, "planted_batches is 1: an interval needs 2 or more"),
    "an option of another type": (
        {"technique": "tableak", "options": {"restarts": "many"}},
        "tableak: option restarts is 'many': Input should be a valid integer",
    ),
    "an option out of range": ({"technique": "tableak", "options": {"restarts": 0}}, "option restarts is 0: "),
    "unknown option": ({"options": {"tablek": {}}}, "did you mean 'tableak'"),
    "an unknown option of a part": (
        {"options": {"tableak": {"restart": 3}}},
        "tableak: option restart is 3.*'restarts'",
    ),
    "an option of a part of another type": (
        {"options": {"tableak": {"restarts": "many"}}},
        "tableak: option restarts is 'many': Input should be a valid integer",
    ),
    "a part without options": ({"options": {"tableak": 3}}, "tableak: options are of type int; give a dictionary"),
    "options in a list": ({"options": ["tableak"]}, "portfolio: options are of type list"),
    "a setting that is no option": ({"options": {"seed": 5}}, "portfolio: option seed is 5: unknown key"),
    "no technique": ({"technique": None}, "technique None is unknown"),
    "a technique on texts": (
        {"technique": "attribute_search"},
        "reads embeddings of texts.*choose one of linear_layer",
    ),
    "a seed in words": ({"seed": "a"}, "seed is of type str: a whole number is needed"),
    "a seed below zero": ({"seed": -1}, "seed is -1: a whole number from 0"),
    "an activation that the network has not": (
        {"activation": "tanh"},
        "activation is 'tanh', and the network has 'relu'; leave activation= out",
    ),
    "a sparse tensor": ({"gradient": [p.grad.to_sparse() for p in NET.parameters()]}, "a tensor is sparse or holds no"),
    "a tensor without values": ({"gradient": [p.grad.to("meta") for p in NET.parameters()]}, "holds no values"),
    "rows without end": (
        {"labels": None, "rows": 10**30},
        "a batch of 10{30} rows is stated; attacks take up to 1000000",
    ),
    "more rows than controls plant": (
        {"labels": None, "rows": 1_001},
        "a batch of 1001 rows is stated; controls plant up to 1000: give controls=False",
    ),
    "half a row": ({"labels": None, "rows": 4.5}, "rows is of type float: a whole number is needed"),
    "planted batches in words": ({"planted_batches": "x"}, "planted_batches is of type str"),
    "no mapping": ({"layout": pd.DataFrame({"age": [31.0]})}, "layout is of type DataFrame; give a dictionary"),
    "no tensors": ({"gradient": 3}, "the update is of type int; give a module"),
    "a type that numpy lacks": ({"gradient": [p.grad.bfloat16() for p in NET.parameters()]}, "bfloat16.*float"),
    "an unknown task": ({"task": "regresion"}, "task is 'regresion'; choose one of binary, multiclass, regression"),
    "no training": ({"training": 3}, "training is of type int; give a TrainingSpec"),
    "the training of weights": ({"training": TrainingSpec("fedavg")}, "clients of 'fedavg' do not send a gradient"),
    "no mechanism": ({"mechanisms": [3]}, "mechanisms: one is of type int; give a list of Mechanism"),
    "a parameter in words": ({"mechanisms": [Mechanism("gaussian-noise", {"sigma": "x"})]}, "sigma is 'x'.* a number"),
    "noise that was not added": (
        {"mechanisms": [Mechanism("gaussian-noise", {"sigma": 1.0})]},
        "noise of deviation 1 is stated, but the update's entries are of .*, which is less",
    ),
    "clipping that was not done": (
        {
            "mechanisms": [
                Mechanism("client-clipping", {"clip_norm": 1e-3}),
                Mechanism("gaussian-noise", {"sigma": 1e-5}),
            ]
        },
        r"clipping to a norm of 0\.001 and noise of deviation 1e-05 is stated, but the update has norm .*, which",
    ),
    "clipping of rows that was not done": (
        {"mechanisms": [Mechanism("example-clipping", {"clip_norm": 1e-3})]},
        r"clipping to a norm of 0\.001 is stated, but the update has norm",
    ),
    "pruning that was not done": (
        {"mechanisms": [Mechanism("pruning", {"share": 0.9})]},
        r"pruning of 0\.9 of each tensor is stated, but \d+ of 240 entries of 0\.weight are zero",
    ),
    "noise on all but one tensor": (
        {
            "gradient": [p.grad + (0 if k == 1 else 5 * torch.randn_like(p)) for k, p in enumerate(NET.parameters())],
            "mechanisms": [Mechanism("gaussian-noise", {"sigma": 5.0})],
        },
        r"noise of deviation 5 is stated, but the entries of 0\.bias are of",
    ),
    "local training without an end": (
        {"gradient": None, "after": NET, "training": TrainingSpec("fedavg", local_epochs=0)},
        "local_epochs is 0; it must be at least 1",
    ),
    "labels of one epoch of two": (
        {"gradient": None, "after": NET, "training": TrainingSpec("fedavg", local_epochs=2)},
        "there are 6 labels; of 2 local epochs give rows= and 2 labels for each",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_attacked_is_one_line(case):
    change, expected = BAD[case]
    with pytest.raises(ValueError, match=expected) as error:
        leakledger.attack(**{**GOOD, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [1_001, 0])
def test_an_update_of_more_rows_than_are_drawn_or_of_none_has_no_controls_and_no_error(count):
    sent = [p.grad for p in NET.parameters()]
    view = view_of_update(NET, sent, trained=False, layout=layout_of(COLUMNS), rows=count)
    assert planted_controls(Span(), view, AuxiliaryKnowledge(), np.random.default_rng(0)) == ()


@pytest.mark.parametrize("seed", range(20))
def test_noise_that_was_added_is_never_missed_even_where_nothing_else_is_in_the_update(seed):
    coins, sigma = np.random.default_rng(seed), 0.01
    noise = [coins.normal(0, sigma, p.shape) for p in NET.parameters()]
    stated = [Mechanism("example-clipping", {"clip_norm": 1.0}), Mechanism("gaussian-noise", {"sigma": sigma})]
    leakledger.attack(**{**GOOD, "gradient": noise, "mechanisms": stated, "technique": "span", "controls": False})
    stated[1] = Mechanism("gaussian-noise", {"sigma": 1.1 * sigma})
    with pytest.raises(ValueError, match=r"noise of deviation 0\.011 is stated"):
        leakledger.attack(**{**GOOD, "gradient": noise, "mechanisms": stated})


@pytest.mark.parametrize("sigma", [None, 0.01])
def test_an_update_that_was_clipped_pruned_and_noised_as_stated_is_taken(sigma):
    stated = [Mechanism("client-clipping", {"clip_norm": 0.05}), Mechanism("pruning", {"share": 0.5})]
    stated += [] if sigma is None else [Mechanism("gaussian-noise", {"sigma": sigma})]
    plain = {str(k): p.grad.numpy() for k, p in enumerate(NET.parameters())}
    sent = defense_of(stated).protect(plain, np.random.default_rng(0))
    given = {**GOOD, "gradient": list(sent.values()), "mechanisms": stated, "technique": "span", "controls": False}
    leakledger.attack(**given)


def test_more_rows_than_a_poisson_batch_has_in_the_mean_may_add_up_to_more_than_the_clip_norm():
    drawn = TrainingSpec("fedsgd", sampling="poisson", batch_size=1)
    norm = float(np.sqrt(sum(float((p.grad**2).sum()) for p in NET.parameters())))
    stated = [Mechanism("example-clipping", {"clip_norm": norm / 3})]
    given = {**GOOD, "mechanisms": stated, "technique": "span", "controls": False}
    leakledger.attack(**given, training=drawn)
    with pytest.raises(ValueError, match="clipping to a norm"):
        leakledger.attack(**given)


def recorder():
    net = trained(network())
    rec = leakledger.Recorder(
        ["A", "B"],
        layout=layout_of(COLUMNS),
        model=ModelSpec(4, 2, (60, 60)),
        training=TrainingSpec(batch_size=6),
    )
    rec.send(LocalDictionary({"ward": list(NAMES)}), "B", "server")
    rec.send(GlobalModel(layers_of(net, "net")), "server", "A")
    rec.send(ClientGradient(6, layers_of([p.grad for p in net.parameters()], "gradient")), "A", "server")
    return rec


def test_a_recorded_transcript_is_read_back_and_its_head_commits_to_it(tmp_path):
    rec = recorder()
    head = rec.write(tmp_path / "t.parquet", {"made by": "a test"})
    stored = read_transcript(tmp_path / "t.parquet")
    assert stored.ledger.head.hex() == head
    assert [(m.sender, m.recipient, m.topic) for m in stored.ledger] == [
        ("B", "server", "dictionary.local"),
        ("server", "A", "train.model"),
        ("A", "server", "train.gradient"),
    ]
    assert len(rec.view("A").messages) == 2


def test_what_a_killed_writer_of_a_transcript_left_is_gone_with_the_next(tmp_path):
    name, other = "t[1].parquet", ".u.parquet.0a1b2c3d.partial"
    for left in (f".{name}.0a1b2c3d.partial", other):
        (tmp_path / left).write_bytes(b"half of what was sent")
    recorder().write(tmp_path / name)
    assert {p.name for p in tmp_path.iterdir()} == {name, other}


def test_a_transcript_under_a_defense_that_is_none_is_named_where_rows_are_sought(tmp_path):
    rec, path = recorder(), tmp_path / "t.parquet"
    rec.public = replace(rec.public, mechanisms=(Mechanism("gaussian-noise", {"sigma": -1.0}),))
    rec.write(path)
    with pytest.raises(
        ValueError, match=r"t\.parquet: its mechanisms are of no defense .*: sigma is -1\.0; it must be"
    ):
        attack_transcript(path)
    assert attack_transcript(path, names=["plaintext"]).played


def test_a_sealed_message_shows_a_relay_its_ciphertext_alone():
    rec = leakledger.Recorder(["A", "B"])
    rec.send(LocalDictionary({"ward": ["x"]}), "A", "B", relay="server", ciphertext=b"xyz")
    assert [m.content for m in rec.view("server").messages] == [None]
    assert rec.view("B").messages[0].payload.values == {"ward": ["x"]}


def test_a_recorder_refuses_parties_that_take_no_part_and_what_is_no_message():
    rec = leakledger.Recorder(["A"])
    with pytest.raises(ValueError, match="'C' takes no part; the parties are A, server"):
        rec.send(LocalDictionary({}), "C", "server")
    with pytest.raises(ValueError, match="cannot send to itself"):
        rec.send(LocalDictionary({}), "A", "A")
    with pytest.raises(ValueError, match=r"^a dict is no kind of message; see leakledger\.preprocess\.messages$"):
        rec.send({"ward": ["x"]}, "A", "server")
    with pytest.raises(ValueError, match="round is -1; a whole number is needed, and the first is 0"):
        rec.send(LocalDictionary({}), "A", "server", round=-1)
    with pytest.raises(ValueError, match="names of their own"):
        leakledger.Recorder(["A", "A"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"round": 1.5}, "round is 1.5; a whole number"),
        ({"round": 2**70}, "a whole number is needed"),
        ({"step": 3}, "step is of type int"),
        ({"ciphertext": "x"}, "ciphertext is of type str; bytes are needed"),
        ({"relay": "A"}, "'A' is an end of the message"),
    ],
)
def test_a_message_that_no_transcript_holds_is_refused_when_it_is_told_and_the_others_are_kept(tmp_path, given, told):
    rec = recorder()
    with pytest.raises(ValueError, match=told):
        rec.send(LocalDictionary({"ward": ["x"]}), "A", "server", **given)
    rec.send(LocalDictionary({"ward": ["x"]}), "A", "server", round=np.int64(1))
    rec.write(tmp_path / "t.parquet")
    assert len(read_transcript(tmp_path / "t.parquet").ledger) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clients": "AB"}, "clients is of type str"),
        ({"clients": None}, "clients is of type NoneType"),
        ({"clients": [1, 2]}, "a party's name is of type int"),
        ({"layout": COLUMNS}, "layout is of type dict; give a FeatureLayout"),
        ({"model": 3}, "model is of type int; give a ModelSpec"),
        ({"mechanisms": ["noise"]}, "no list of Mechanism"),
        ({"mechanisms": 3}, "no list of Mechanism"),
        ({"mechanisms": [Mechanism("noise", {"sigma": object()})]}, "the public facts cannot be written"),
        ({"mechanisms": [Mechanism("noise")]}, "mechanisms: no defense is called 'noise'; known are"),
        ({"mechanisms": [Mechanism("gaussian-noise")]}, "mechanisms: gaussian-noise needs sigma"),
        ({"mechanisms": [Mechanism("gaussian-noise", {"sigma": -1.0})]}, "mechanisms: sigma is -1.0; it must be above"),
        ({"model": ModelSpec(4, 2, (0,))}, "every layer needs at least one unit"),
        ({"model": ModelSpec(9, 2, (5,)), "layout": layout_of(COLUMNS)}, "layout has 4 columns, the model 9 inputs"),
        ({"training": TrainingSpec(batch_size=-3)}, "batch_size is -3"),
    ],
)
def test_public_facts_that_no_transcript_holds_are_refused_before_anything_is_recorded(given, told):
    with pytest.raises(ValueError, match=told):
        leakledger.Recorder(**{"clients": ["A"], **given})


def tensors(hidden=60, spoilt=1.0):
    shapes = {"0.weight": (hidden, 4), "0.bias": hidden, "1.weight": (60, hidden), "1.bias": 60}
    arrays = {n: np.ones(s, np.float32) for n, s in {**shapes, "2.weight": (2, 60), "2.bias": 2}.items()}
    arrays["0.bias"][0] = spoilt
    return arrays


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (ClientGradient(6, tensors(spoilt=np.nan)), "ClientGradient: 0.bias holds values that are not finite"),
        (ClientWeights(6, tensors(spoilt=np.inf)), "ClientWeights: 0.bias holds values that are not finite"),
        (GlobalModel(tensors(spoilt=np.nan)), "GlobalModel: 0.bias holds values that are not finite"),
        (ClientGradient(-1, tensors()), "ClientGradient: rows is -1; from 1 to"),
        (ClientGradient(0, tensors()), "rows is 0; from 1 to"),
        (ClientWeights(10**30, tensors()), "rows is 10{30}; from 1 to"),
        (
            ClientGradient(6, tensors(hidden=7)),
            r"ClientGradient: 0.weight has shape \(7, 4\), the model needs \(60, 4\)",
        ),
        (ClientGradient(6, {}), "ClientGradient: tensors .* do not match a network"),
        (ClientGradient(6, {"0.weight": [1.0]}), "it is no ClientGradient: gradient is list"),
    ],
)
def test_an_update_that_is_none_of_the_stated_model_is_refused_when_it_is_told(payload, told):
    rec = recorder()
    with pytest.raises(ValueError, match=told) as error:
        rec.send(payload, "A", "server", round=1)
    assert "\n" not in str(error.value)
    assert len(rec.ledger) == 3


@dataclass(frozen=True)
class Wider(ClientGradient):
    noted: str = ""


@dataclass(frozen=True)
class Nameless(Payload):
    noted: str = ""


@pytest.mark.parametrize("payload", [Wider(6, tensors(), "more"), Nameless("x")])
def test_a_payload_under_the_topic_of_another_kind_or_none_is_refused_when_it_is_told(payload):
    with pytest.raises(ValueError, match="has no topic, or that of another kind; give it one of its own"):
        leakledger.Recorder(["A"]).send(payload, "A", "server")


def test_without_a_stated_model_updates_of_any_shape_are_taken_if_they_are_finite():
    rec = leakledger.Recorder(["A"])
    rec.send(ClientGradient(6, tensors(hidden=7)), "A", "server")
    with pytest.raises(ValueError, match="not finite"):
        rec.send(ClientGradient(6, tensors(spoilt=np.nan)), "A", "server")


def test_messages_of_several_threads_have_numbers_of_their_own():
    rec, waiting = leakledger.Recorder(["A", "B"]), threading.Barrier(2)

    class Slow(type(rec.ledger)):
        def __len__(self):
            count = super().__len__()
            with contextlib.suppress(threading.BrokenBarrierError):
                waiting.wait(0.2)
            return count

    rec.ledger = Slow()
    sent = [threading.Thread(target=rec.send, args=(LocalDictionary({}), party, "server")) for party in "AB"]
    for thread in sent:
        thread.start()
    for thread in sent:
        thread.join()
    assert [m.sequence for m in rec.ledger] == [0, 1]


@pytest.mark.parametrize("passed", [True, False])
def test_a_silent_attack_is_said_to_have_failed_its_controls(passed):
    """Under noise `span` was silent, and that it gets nothing of planted rows there stood in the JSON alone."""
    power = Control("span", "power", 0.0, 0.5, -1.0, passed, "more")
    (line,) = silent_rows([Played(Span(), ("server",), Abstained("noise"), (power,))])
    assert line == f"span (server): noise{'' if passed else ' (controls failed: power)'}"


@pytest.mark.parametrize("passed", [True, False])
def test_a_silent_attack_without_power_has_read_nothing(tmp_path, monkeypatch, passed):
    """Behind noise `span` is silent of any rows, and updates that it alone reads did not count as unread."""
    controls = tuple(Control("span", kind, 0.0, 0.5, 0.0, ok, "", kinds=("train.gradient",)) for kind, ok in (
        ("leaky", True), ("power", passed)
    ))  # fmt: skip
    monkeypatch.setattr(transcript_attack, "_controls", lambda *_: controls)
    monkeypatch.setattr(Span, "run", lambda *_: Abstained("no row stands out"))
    recorder().write(tmp_path / "t.parquet")
    found = attack_transcript(tmp_path / "t.parquet", "server", ("span",))
    why = {u.topic: u.reason for u in found.unread}
    assert why.get("train.gradient") == (None if passed else transcript_attack.POWERLESS)


def test_the_command_attacks_a_transcript_and_masks_values_until_told_otherwise(tmp_path):
    recorder().write(tmp_path / "t.parquet")
    masked = call("attack", tmp_path / "t.parquet", "-a", "portfolio", "-a", "plaintext", "-a", "statistics").stdout
    assert "silence is no evidence" in " ".join(masked.split())
    assert "No claim by statistics (server)" in masked
    assert "surgery" not in masked
    shown = call("attack", tmp_path / "t.parquet", "-a", "portfolio", "-a", "plaintext", "--reveal").stdout
    assert "surgery" in shown
    told = json.loads(call("attack", tmp_path / "t.parquet", "-a", "portfolio", "--json").stdout)
    (claim,) = told["claims"]
    assert (claim["about"], claim["proven"], claim["controls"]) == ("A", "yes", "passed")
    assert claim["claimed"] == "6 rows, 6 proven"  # the table may fold it, by the width of who reads it
    assert all(c["passed"] for c in told["attacks"][0]["controls"])


def test_a_size_is_shown_as_the_number_of_masked_values_beside_it_and_other_statistics_are_masked(tmp_path):
    rec = recorder()
    rec.send(LocalMeans(6, np.array([40.0])), "B", "server")
    rec.write(tmp_path / "t.parquet")
    names = ("-a", "plaintext", "-a", "ring_size")
    told = json.loads(call("attack", tmp_path / "t.parquet", *names, "--json").stdout)["claims"]
    claimed = {claim["what"]: claim["claimed"] for claim in told}
    assert claimed["values"] == claimed["size"] == "3"
    assert claimed["count"] == claimed["mean"] == transcript_attack.MASK


def test_the_command_lists_what_no_attack_read(tmp_path):
    rec = recorder()
    rec.send(Sharers([0, 1]), "B", "server")
    rec.write(tmp_path / "t.parquet")
    told = json.loads(call("attack", tmp_path / "t.parquet", "-a", "portfolio", "--json").stdout)
    assert {u["topic"]: u["reason"] for u in told["unread"]} == {
        "dictionary.local": "no attack that reads this kind has passed a control with it",
        "secure-aggregation.sharers": "it is to hide, and whether it does is not checked of a transcript",
    }
    assert told["aborts"] == []
    shown = call("attack", tmp_path / "t.parquet", "-a", "portfolio", "-a", "plaintext").stdout
    assert "Not read by server: dictionary.local" not in " ".join(shown.split())
    assert "Not read by server: secure-aggregation.sharers (1 of it): it is to hide" in " ".join(shown.split())


def test_the_command_says_that_a_transcript_ends_early(tmp_path):
    recorder().write(tmp_path / "whole.parquet")
    stored = read_transcript(tmp_path / "whole.parquet")
    stored.ledger.abort(Abort("B", "encode", 0, "ValueError"))
    write_transcript(tmp_path / "t.parquet", stored.ledger, stored.public, {})
    shown = call("attack", tmp_path / "t.parquet", "-a", "plaintext").stdout
    told = "This transcript ends early: B could not go on in step encode, round 0: ValueError."
    assert told in " ".join(shown.split())  # folded by the width of who reads it
    (abort,) = json.loads(call("attack", tmp_path / "t.parquet", "-a", "plaintext", "--json").stdout)["aborts"]
    assert abort["party"] == "B"


def test_the_command_refuses_what_is_no_transcript_and_unknown_names(tmp_path):
    recorder().write(tmp_path / "t.parquet")
    assert "did you mean 'tableak'" in refused("attack", tmp_path / "t.parquet", "-a", "tablek")
    assert "--party: 'C' took no part" in refused("attack", tmp_path / "t.parquet", "-p", "C")
    (tmp_path / "x.parquet").write_bytes(b"x")
    assert "is not a whole transcript" in refused("attack", tmp_path / "x.parquet")
    with pytest.raises(TranscriptError):
        read_transcript(tmp_path / "x.parquet")


def test_importing_the_package_loads_no_slow_library():
    program = "import sys, leakledger; dir(leakledger); print(sorted({'torch', 'pandas', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_exported_name_is_there_and_others_are_not():
    assert all(getattr(leakledger, name) is not None for name in leakledger.__all__)
    assert set(leakledger.__all__) <= set(dir(leakledger))
    with pytest.raises(AttributeError, match="no attribute 'atack'"):
        leakledger.atack  # noqa: B018
