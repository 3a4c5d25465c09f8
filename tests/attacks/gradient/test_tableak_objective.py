import pytest
import torch

from leakledger.attacks.gradient.matching import layers
from leakledger.attacks.gradient.matching.losses import LOSSES
from leakledger.attacks.gradient.matching.objective import (
    AutogradObjective,
    ClosedFormObjective,
    matching_objective,
)
from leakledger.preprocess.models import gradient, layer_shapes
from leakledger.preprocess.views import ModelSpec
from tests.every import every

VICTIMS, RESTARTS, COLUMNS = 2, 3, 6
BOTH = pytest.mark.parametrize("loss_name", LOSSES)


def problem(hidden, batch, activation="relu", classes=3):
    """Two victims with weights, labels and gradients of their own, and the rows behind these: all in float64."""
    draws = torch.Generator().manual_seed(batch)
    spec = ModelSpec(COLUMNS, classes, hidden, activation, "multiclass")
    rows = torch.randn(VICTIMS, batch, COLUMNS, generator=draws, dtype=torch.float64)
    labels = torch.randint(0, classes, (VICTIMS, batch), generator=draws)
    weights = [random_weights(spec, draws) for _ in range(VICTIMS)]
    observed = [gradient(spec, w, x, y) for w, x, y in zip(weights, rows, labels, strict=True)]
    return spec, stacked(weights), stacked(observed), labels, rows


def random_weights(spec, draws):
    weights = {}
    for i, (outputs, inputs) in enumerate(layer_shapes(spec)):
        weights[f"{i}.weight"] = torch.randn(outputs, inputs, generator=draws, dtype=torch.float64) / inputs**0.5
        weights[f"{i}.bias"] = torch.randn(outputs, generator=draws, dtype=torch.float64)
    return weights


def stacked(per_victim):
    return {name: torch.stack([tensors[name] for tensors in per_victim]) for name in per_victim[0]}


def candidates(batch, seed=7):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(VICTIMS, RESTARTS, batch, COLUMNS, generator=draws, dtype=torch.float64)


def closed_form(spec, weights, observed, labels, loss_name="cosine"):
    objective = matching_objective(spec, weights, observed, labels, RESTARTS, loss_name)
    assert isinstance(objective, ClosedFormObjective)
    return objective


def oracle(spec, weights, observed, labels, loss_name="cosine"):
    return AutogradObjective(spec, weights, LOSSES[loss_name](observed), labels)


@pytest.fixture(params=["by size", "gram", "explicit"])
def kind_of_layer(request, monkeypatch):
    """Both kinds of layer in their own place, then one kind everywhere."""
    if request.param != "by size":
        kind = layers.GramLayer if request.param == "gram" else layers.ExplicitLayer
        monkeypatch.setattr(layers, "GramLayer", kind)
        monkeypatch.setattr(layers, "ExplicitLayer", kind)


@pytest.mark.usefixtures("kind_of_layer")
@BOTH
@every("activation", ["relu", "leaky-relu"])
@every("batch", [1, 2, 12])
@every("hidden", [(), (8,), (9, 8), (5, 6, 7), (4, 5, 6, 7)])
def test_the_closed_form_equals_autograd(hidden, batch, activation, loss_name):
    *given, _ = problem(hidden, batch, activation)
    objective, rows = closed_form(*given, loss_name), candidates(batch)
    expected_loss, expected_gradient = oracle(*given, loss_name)(rows)
    loss, gradient = objective(rows.clone())
    torch.testing.assert_close(loss, expected_loss, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-12, rtol=1e-10)


def test_an_evaluation_leaves_nothing_behind_for_the_next():
    *given, _ = problem((9, 8), 4)
    objective = closed_form(*given)
    objective(candidates(4, seed=1))
    again, fresh = objective(candidates(4)), closed_form(*given)(candidates(4))
    assert all(torch.equal(a, b) for a, b in zip(again, fresh, strict=True))


@BOTH
def test_the_oracle_is_the_loss_of_a_plain_double_backward(loss_name):
    spec, weights, observed, labels, _ = problem((9, 8), 4, "tanh")
    rows = candidates(4)[1, 2].requires_grad_()
    own = {name: w[1] for name, w in weights.items()}
    leaves = {name: w.clone().requires_grad_() for name, w in own.items()}
    z = rows
    for i in range(3):
        z = z @ leaves[f"{i}.weight"].T + leaves[f"{i}.bias"]
        z = torch.tanh(z) if i < 2 else z
    loss = -torch.log_softmax(z, -1)[torch.arange(4), labels[1]].mean()
    candidate = torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves.values(), create_graph=True)])
    target = torch.cat([observed[name][1].flatten() for name in leaves])
    expected = {
        "cosine": 1 - candidate @ target / candidate.norm() / target.norm(),
        "squared-error": (candidate - target).square().sum(),
    }[loss_name]
    loss, gradient = matching_objective(spec, weights, observed, labels, RESTARTS, loss_name)(candidates(4))
    torch.testing.assert_close(loss[1, 2], expected.detach())
    torch.testing.assert_close(gradient[1, 2], torch.autograd.grad(expected, rows)[0])


@BOTH
@every("activation", ["relu", "leaky-relu", "elu", "gelu", "tanh", "sigmoid"])
def test_the_true_rows_have_loss_zero_for_every_activation(activation, loss_name):
    spec, weights, observed, labels, rows = problem((9, 8), 5, activation)
    loss, gradient = matching_objective(spec, weights, observed, labels, 1, loss_name)(rows.unsqueeze(1))
    assert loss.abs().max() < 1e-12
    assert gradient.abs().max() < 1e-6


def test_the_cosine_is_what_is_matched_by_default():
    *given, _ = problem((9, 8), 4)
    ways = (matching_objective(*given, RESTARTS, "cosine"), matching_objective(*given, RESTARTS), closed_form(*given))
    first, *others = [[t.clone() for t in way(candidates(4))] for way in ways]
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_the_scale_of_the_observed_gradient_does_not_matter_to_the_cosine():
    spec, weights, observed, labels, _ = problem((9, 8), 4)
    louder = {name: 1e6 * g for name, g in observed.items()}
    for small, large in zip(
        closed_form(spec, weights, observed, labels)(candidates(4)),
        closed_form(spec, weights, louder, labels)(candidates(4)),
        strict=True,
    ):
        torch.testing.assert_close(small, large)


def test_rows_and_labels_permuted_together_keep_the_loss_and_permute_its_gradient():
    spec, weights, observed, labels, _ = problem((9, 8), 4)
    order, rows = torch.tensor([2, 0, 3, 1]), candidates(4)
    loss, gradient = closed_form(spec, weights, observed, labels)(rows)
    moved_loss, moved = closed_form(spec, weights, observed, labels[:, order])(rows[:, :, order].contiguous())
    torch.testing.assert_close(moved_loss, loss)
    torch.testing.assert_close(moved, gradient[:, :, order])


def test_a_saturated_candidate_has_a_finite_loss_and_no_gradient():
    spec, weights, observed, labels, _ = problem((8,), 1, classes=2)
    bias = torch.where(labels == 1, 1.0, -1.0).to(torch.float64) * torch.tensor([-1e6, 1e6], dtype=torch.float64)
    loss, gradient = closed_form(spec, {**weights, "1.bias": bias}, observed, labels)(candidates(1))
    assert torch.equal(loss, torch.ones_like(loss))
    assert not gradient.any()


def test_the_squared_error_of_a_candidate_without_gradient_is_the_square_of_the_observed_one():
    spec, weights, observed, labels, _ = problem((8,), 1, classes=2)
    bias = torch.where(labels == 1, 1.0, -1.0).to(torch.float64) * torch.tensor([-1e6, 1e6], dtype=torch.float64)
    loss, _ = closed_form(spec, {**weights, "1.bias": bias}, observed, labels, "squared-error")(candidates(1))
    expected = sum(g.square().flatten(1).sum(1) for g in observed.values())
    torch.testing.assert_close(loss, expected[:, None].expand_as(loss))


@pytest.mark.parametrize(("batch", "kind"), [(8, layers.GramLayer), (128, layers.ExplicitLayer)])
def test_a_layers_gradient_is_built_only_for_batches_that_are_large_beside_it(batch, kind):
    own = layers.Affine(torch.zeros(1, 100, 105), torch.zeros(1, 1, 100))
    assert type(layers.matching_layer(own, own, 2, batch)) is kind
