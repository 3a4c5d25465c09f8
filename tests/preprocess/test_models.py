import numpy as np
import pytest
import torch

from leakledger.preprocess.models import (
    ACTIVATIONS,
    as_tensors,
    check_weights,
    forward,
    gradient,
    initial_weights,
    layer_shapes,
)
from leakledger.preprocess.views import ModelSpec


def network(spec, weights):
    """The same network made of a library's layers."""
    layers = []
    for i, (out, inputs) in enumerate(layer_shapes(spec)):
        linear = torch.nn.Linear(inputs, out)
        linear.weight.data, linear.bias.data = torch.tensor(weights[f"{i}.weight"]), torch.tensor(weights[f"{i}.bias"])
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("hidden", [(), (5,), (7, 4), (6, 5, 4)])
def test_outputs_and_gradients_are_those_of_library_layers(hidden):
    spec = ModelSpec(4, 3, hidden, task="multiclass")
    weights = initial_weights(spec, np.random.default_rng(0))
    rows, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    net = network(spec, weights)
    torch.testing.assert_close(forward(spec, as_tensors(weights), rows), net(rows))
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(net(rows), labels), list(net.parameters()))
    mine = gradient(spec, as_tensors(weights), rows, labels)
    for got, want in zip(mine.values(), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_fresh_weights_fill_the_range_of_the_default_initialisation():
    weights = initial_weights(ModelSpec(100, 2, (400,)), np.random.default_rng(0))
    for name, inputs in (("0.weight", 100), ("0.bias", 100), ("1.weight", 400)):
        bound = 1 / np.sqrt(inputs)
        assert 0.9 * bound < np.abs(weights[name]).max() <= bound
    library = torch.nn.Linear(100, 400).weight.detach().numpy()
    assert weights["0.weight"].std() == pytest.approx(library.std(), rel=0.02)


def test_regression_minimises_the_squared_error():
    spec = ModelSpec(2, 1, (), task="regression")
    weights = {"0.weight": np.array([[1.0, 2.0]], np.float32), "0.bias": np.zeros(1, np.float32)}
    step = gradient(spec, as_tensors(weights), torch.tensor([[1.0, 1.0]]), torch.tensor([1.0]))
    torch.testing.assert_close(step["0.weight"], torch.tensor([[4.0, 4.0]]))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_runs(name):
    spec = ModelSpec(3, 2, (4,), name)
    weights = as_tensors(initial_weights(spec, np.random.default_rng(0)))
    assert forward(spec, weights, torch.randn(5, 3)).shape == (5, 2)


def test_impossible_networks_are_refused():
    with pytest.raises(ValueError, match=r"at least one unit, got widths \[3, 0, 2\]"):
        layer_shapes(ModelSpec(3, 2, (0,)))
    with pytest.raises(ValueError, match="activation 'swish' is unknown; choose one of"):
        layer_shapes(ModelSpec(3, 2, (4,), "swish"))


def test_weights_that_do_not_fit_are_refused_by_name():
    spec = ModelSpec(3, 2, (4,))
    good = initial_weights(spec, np.random.default_rng(0))
    check_weights(spec, good)
    with pytest.raises(ValueError, match=r"tensors \['1.bias'\] do not match"):
        check_weights(spec, {k: v for k, v in good.items() if k != "1.bias"})
    with pytest.raises(ValueError, match=r"0.weight has shape \(4, 2\), the model needs \(4, 3\)"):
        check_weights(spec, {**good, "0.weight": np.zeros((4, 2))})
    with pytest.raises(ValueError, match=r"0.bias holds values that are not finite"):
        check_weights(spec, {**good, "0.bias": np.full(4, np.nan)})
