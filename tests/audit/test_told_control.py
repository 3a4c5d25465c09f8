"""An update is played again on the rows it was taken on: what was told of network, loss, training or noise is tried."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

import leakledger
from leakledger.audit.told_control import rows_held
from leakledger.preprocess.views import Mechanism, ModelSpec, TrainingSpec
from tests.audit.test_own_code import COLUMNS, LABELS, network, rows

HELD = rows(), LABELS


def sent(net, loss=cross_entropy, noise=0.0, seed=0, targets=LABELS):
    torch.manual_seed(seed)
    out = net(rows())
    loss(out if out.shape[1] > 1 else out[:, 0], targets).backward()
    return [p.grad + noise * torch.randn_like(p) for p in net.parameters()]


def told(gradient, net, *, sigma=0.0, activation="relu", held=HELD, **more):
    """The control of a gradient that is said to be of such a network under such noise."""
    mechanisms = [Mechanism("gaussian-noise", {"sigma": sigma})] if sigma else []
    weights = [p.detach() for p in net.parameters()]
    given = {"gradient": gradient, "model_state": weights, "mechanisms": mechanisms, "activation": activation} | more
    # guesses cost nothing, and this control is about no attack
    guessing = {"technique": "random_baseline", "controls": False, "labels": LABELS}
    return leakledger.attack(**guessing, **given, layout=COLUMNS, trained_on=held)


@pytest.mark.parametrize(
    ("activation", "name"), [(nn.ReLU, "relu"), (nn.GELU, "gelu"), (nn.Tanh, "tanh"), (nn.Sigmoid, "sigmoid")]
)
def test_the_network_that_was_trained_explains_its_gradient(activation, name):
    net = network(activation=activation)
    found = told(sent(net), net, activation=name)
    assert found.told.passed
    assert found.told.value < 1e-6
    assert found.controls["kind"].tolist() == ["told"]
    assert "Controls failed" not in found.summary


OTHERS = {
    "summed": {"loss": lambda o, y: cross_entropy(o, y, reduction="sum")},
    "smoothed labels": {"loss": lambda o, y: cross_entropy(o, y, label_smoothing=0.01)},
    "weighted classes": {"loss": lambda o, y: cross_entropy(o, y, weight=torch.tensor([1.0, 1.1]))},
    "leaky": {"activation": nn.LeakyReLU},
    "tanh": {"activation": nn.Tanh},
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_network_or_loss_than_was_told_fails_the_control_and_every_gate(other):
    trained = dict(OTHERS[other])
    net = network(activation=trained.pop("activation", nn.ReLU))
    found = told(sent(net, **trained), net)
    assert not found.told.passed
    assert "Controls failed: told. The update is not what the stated network" in found.summary
    with pytest.raises(AssertionError, match="inconclusive"):
        found.assert_few_proven(at_most=6)


@pytest.mark.parametrize("coarse", [torch.float16, torch.bfloat16])
def test_half_precision_which_hides_rows_from_exact_attacks_does_not_pass(coarse):
    net = network()
    assert not told([g.to(coarse).float() for g in sent(net)], net).told.passed


@pytest.mark.parametrize("sigma", [0.001, 0.01, 0.1])
def test_noise_as_it_was_stated_passes_and_other_noise_does_not(sigma):
    assert all(told(sent(network(), noise=sigma, seed=s), network(), sigma=sigma).told.passed for s in range(5))
    assert not told(sent(network(), noise=1.15 * sigma), network(), sigma=sigma).told.passed


def test_less_noise_than_was_stated_does_not_pass_where_a_long_gradient_hides_that():
    """Where it does not, the update is refused (`stated_defenses`)."""
    assert not told(sent(network(), noise=0.00085), network(), sigma=0.001).told.passed


def test_behind_noise_another_network_shows_in_how_much_of_the_expected_gradient_there_is():
    """Noise of this strength is four times as long as the gradient, and hides the distance."""
    net = network(activation=nn.ELU)
    found = told(sent(net, noise=0.05), net, sigma=0.05).told
    assert found.value < 1.05 * found.baseline
    assert not found.passed
    assert found.share > 1.2 * found.usual


def test_behind_noise_as_long_as_the_gradient_a_small_difference_is_hidden():
    net = network(activation=nn.LeakyReLU)
    found = told(sent(net, noise=0.01), net, sigma=0.01).told
    assert found.passed
    assert 0.6 < found.baseline < 0.8  # of their length: the gradient is as long as the noise


CLIPPED = Mechanism("client-clipping", {"clip_norm": 0.01})  # less than a fiftieth of each gradient


@pytest.mark.parametrize("other", OTHERS)
def test_behind_clipping_another_direction_shows_and_a_sum_is_clipped_to_the_same(other):
    trained = dict(OTHERS[other])
    net = network(activation=trained.pop("activation", nn.ReLU))
    gradient = sent(net, **trained)
    length = torch.cat([g.ravel() for g in gradient]).norm()
    found = told([g * 0.01 / length for g in gradient], net, mechanisms=[CLIPPED]).told
    assert found.passed is (other == "summed")
    assert found.baseline < 1e-6


def test_a_single_logit_and_a_regression_are_played_as_they_were_trained():
    logit = network(outputs=1)
    assert told(sent(logit, binary_cross_entropy_with_logits, targets=LABELS.float()), logit).told.passed
    targets = torch.tensor([0.3, -1.0, 2.0, 0.1, -0.7, 1.4])
    regression = {"task": "regression", "held": (rows(), targets[:, None])}
    value = network(outputs=1)
    assert told(sent(value, mse_loss, targets=targets), value, **regression).told.passed
    assert not told(sent(value, mse_loss, targets=1.1 * targets), value, **regression).told.passed


def trained_locally(order, size, *, momentum=0.0, epochs=2, activation=nn.ReLU, **more):
    """The control of weights after local training on the rows of `order`, in batches of that size."""
    net, held = network(activation=activation), sorted(order)
    before, optimiser = copy.deepcopy(net), torch.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)
    for epoch in range(epochs):
        for batch in torch.tensor(order).roll(epoch).split(size):
            optimiser.zero_grad()
            cross_entropy(net(rows()[batch]), LABELS[batch]).backward()
            optimiser.step()
    steps = TrainingSpec("fedavg", learning_rate=0.1, batch_size=size, local_epochs=epochs)
    of_weights = {"after": list(net.parameters()), "model_state": list(before.parameters()), "activation": "relu"}
    of_weights |= {"rows": len(order), "training": steps}
    guessing = {"technique": "random_baseline", "controls": False, "layout": COLUMNS}
    return leakledger.attack(**of_weights, **guessing, trained_on=(rows()[held], LABELS[held]), **more).told


@pytest.mark.parametrize(("momentum", "passes"), [(0.0, True), (0.9, False)])
def test_local_training_in_an_order_that_nobody_tells_passes_and_another_optimiser_does_not(momentum, passes):
    assert trained_locally([4, 0, 5, 2, 3, 1], 2, momentum=momentum).passed is passes


@pytest.mark.parametrize(("size", "passes"), [(2, True), (6, False)])
def test_an_order_that_nobody_tells_hides_a_small_difference_that_steps_on_all_rows_show(size, passes):
    assert trained_locally([4, 0, 5, 2, 3, 1], size, activation=nn.LeakyReLU).passed is passes


def test_two_rows_one_after_the_other_pass_however_often_their_two_orders_are_drawn():
    """Drawn equally often, each is as far from the mean of the rest, and the update, which is in no mean, was not."""
    assert all(trained_locally([1, 0], 1, epochs=1, seed=seed).passed for seed in range(12))
    assert not trained_locally([1, 0], 1, epochs=1, momentum=0.9).passed


REFUSED = {
    "no pair": (rows(), "trained_on: give a pair"),
    "another width": ((rows()[:, :3], LABELS), r"rows are of shape \(6, 3\)"),
    "not finite": ((rows() * float("nan"), LABELS), "finite numbers"),
    "fewer rows": ((rows()[:5], LABELS[:5]), "5 rows given, and the update is of 6"),
    "fewer labels": ((rows(), LABELS[:5]), r"labels are of shape \(5,\)"),
    "another class": ((rows(), LABELS + 1), "a label is none of the classes 0 to 1"),
    "other labels": ((rows(), 1 - LABELS.roll(1) * LABELS), "its labels are others than labels= grants"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_batch_of_such_a_network_is_one_line(case):
    held, line = REFUSED[case]
    net = network()
    with pytest.raises(ValueError, match=line):
        told(sent(net), net, held=held)


def test_granted_labels_are_those_of_each_epoch_in_any_order_and_of_no_other_rows():
    net = network()
    spec, steps = ModelSpec(4, 2, (60, 60)), TrainingSpec("fedavg", batch_size=2, local_epochs=2)
    orders = torch.cat([LABELS.roll(1), LABELS.flip(0)]).numpy()
    x, y = rows_held(HELD, spec, 6, steps, orders)
    assert (y == LABELS.numpy()).all()
    assert x.shape == (6, 4)
    poisson = TrainingSpec(batch_size=6, sampling="poisson")
    for labels in (LABELS[:0], LABELS[:4]):
        with pytest.raises(ValueError, match="its labels are others"):
            rows_held((rows()[: len(labels)], labels), spec, 6, poisson, orders[:6])
    assert told(sent(net), net, held=(rows().flip(0), LABELS.flip(0))).told.passed
