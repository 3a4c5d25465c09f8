"""Activation norms against the library's own layers: outputs, gradients, running statistics; what is refused.

Known answers: `torch.nn` LayerNorm, GroupNorm, BatchNorm1d, InstanceNorm1d with their defaults.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from leakledger.preprocess.models import (
    as_tensors,
    check_weights,
    forward,
    gradient,
    initial_weights,
    layer_shapes,
    moved_statistics,
    parameters,
    statistics,
)
from leakledger.preprocess.views import ModelSpec

LIBRARY = {
    "layer": nn.LayerNorm,
    "group": lambda width: nn.GroupNorm(2, width),
    "batch": nn.BatchNorm1d,
    "instance": nn.InstanceNorm1d,
}


def spec_of(norm, hidden=(8, 6), activation="relu", **options):
    return ModelSpec(5, 3, hidden, activation, "multiclass", norm=norm, **options)


def weights_of(spec, seed=0):
    """Weights away from the initial ones, so that every scale, shift and statistic counts."""
    coins = np.random.default_rng(seed)
    fresh = initial_weights(spec, coins)
    return {
        n: (w + coins.uniform(0.1, 0.5, w.shape)).astype(np.float32) if ".norm." in n else w for n, w in fresh.items()
    }


def network(spec, weights):
    """The same network made of the library's layers, in training."""
    modules = []
    for i, (out, inputs) in enumerate(layer_shapes(spec)):
        modules += [(f"{i}", nn.Linear(inputs, out))]
        if i < len(spec.hidden):
            modules += [(f"{i}_norm", LIBRARY[spec.norm](out)), (f"{i}_act", nn.ReLU())]
    net = nn.Sequential()
    for name, module in modules:
        net.add_module(name, module)
    state = {name.replace(".norm.", "_norm."): torch.tensor(w) for name, w in weights.items()}
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
    return net.train()


@pytest.fixture
def batch():
    coins = torch.Generator().manual_seed(3)
    return 3 * torch.randn(7, 5, generator=coins) + 1, torch.tensor([0, 1, 2, 0, 1, 2, 2])


@pytest.mark.filterwarnings("ignore:input's size at dim=0 does not match num_features")
@pytest.mark.parametrize("norm", LIBRARY)
def test_outputs_and_gradients_are_those_of_library_layers(norm, batch):
    spec, (rows, labels) = spec_of(norm), batch
    weights = weights_of(spec)
    net = network(spec, weights)
    outputs = net(rows)
    torch.testing.assert_close(forward(spec, as_tensors(weights), rows), outputs, rtol=1e-4, atol=1e-5)
    names = [name.replace("_norm.", ".norm.") for name, _ in net.named_parameters()]
    expected = torch.autograd.grad(nn.functional.cross_entropy(outputs, labels), list(net.parameters()))
    mine = gradient(spec, as_tensors(weights), rows, labels)
    assert mine.keys() == set(names)
    for name, want in zip(names, expected, strict=True):
        torch.testing.assert_close(mine[name], want, rtol=1e-3, atol=1e-5)


def test_running_statistics_move_and_serve_as_the_librarys(batch):
    spec, (rows, _) = spec_of("batch"), batch
    weights = weights_of(spec)
    net, own = network(spec, weights), as_tensors(weights)
    for part in (rows[:4], rows[4:], rows):
        net(part)
        own |= moved_statistics(spec, own, part)
    state = net.state_dict()
    for name, w in statistics(spec, own).items():
        torch.testing.assert_close(w, state[name.replace(".norm.", "_norm.")], rtol=1e-4, atol=1e-5)
    expected = net.eval()(rows)
    torch.testing.assert_close(forward(spec, own, rows, running=True), expected, rtol=1e-4, atol=1e-5)
    alone = torch.cat([forward(spec, own, row[None], running=True) for row in rows])
    torch.testing.assert_close(alone, expected, rtol=1e-4, atol=1e-5)  # evaluation mixes no rows


def test_a_batch_of_one_row_teaches_batch_norm_nothing_below_it():
    spec = spec_of("batch")
    weights = as_tensors(weights_of(spec))
    row = torch.ones(1, 5)
    found = gradient(spec, weights, row, torch.tensor([1]))
    assert not found["0.weight"].any()
    assert found["2.weight"].any()
    assert all(torch.equal(w, weights[n]) for n, w in moved_statistics(spec, weights, row).items())


@given(st.integers(0, 100), st.floats(0.5, 20), st.floats(-20, 20))
def test_rows_leave_layer_norm_at_mean_0_and_deviation_1_whatever_their_scale(seed, scale, shift):
    spec = ModelSpec(6, 6, (6,), "tanh", "multiclass", norm="layer")
    weights = {n: np.eye(6, dtype=np.float32) if w.ndim == 2 else 0 * w for n, w in weights_of(spec).items()}
    weights["0.norm.weight"] += 1
    rows = torch.tensor(shift + scale * np.random.default_rng(seed).normal(size=(4, 6)))
    out = torch.atanh(forward(spec, as_tensors(weights, dtype=torch.float64), rows).clamp(-1 + 1e-15, 1 - 1e-15))
    torch.testing.assert_close(out.mean(1), torch.zeros(4, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(out.var(1, correction=0), torch.ones(4, dtype=torch.float64), atol=2e-2, rtol=0)


def test_instance_norm_is_layer_norm_without_scale_and_shift(batch):
    rows, _ = batch
    weights = weights_of(spec_of("instance"))
    unit = {
        f"{i}.norm.{n}": np.full(w, v, np.float32) for i, w in ((0, 8), (1, 6)) for n, v in (("weight", 1), ("bias", 0))
    }
    torch.testing.assert_close(
        forward(spec_of("instance"), as_tensors(weights), rows),
        forward(spec_of("layer"), as_tensors(weights | unit), rows),
    )


def test_fresh_norms_change_no_weight_that_is_drawn():
    plain = initial_weights(spec_of("none"), np.random.default_rng(0))
    for norm in LIBRARY:
        own = initial_weights(spec_of(norm), np.random.default_rng(0))
        for name, w in plain.items():
            np.testing.assert_array_equal(own[name], w)
        for name in own.keys() - plain.keys():
            np.testing.assert_array_equal(own[name], float(name.endswith(("weight", "var"))))


def test_specs_without_norms_are_written_as_they_were():
    assert ModelSpec(3, 2).to_plain().keys() == {"inputs", "outputs", "hidden", "activation", "task", "dropout"}
    spec = spec_of("group", norm_groups=4)
    assert ModelSpec.from_plain(spec.to_plain()) == spec


def test_norms_that_make_the_same_of_every_row_are_refused():
    with pytest.raises(ValueError, match="norm_groups is 3, and 8 hidden units do not divide"):
        layer_shapes(spec_of("group", norm_groups=3))
    with pytest.raises(ValueError, match=r"group norm over a single unit makes 0 of every row: 4 hidden units"):
        layer_shapes(spec_of("group", (4,), norm_groups=4))
    with pytest.raises(ValueError, match="layer norm over a single unit"):
        layer_shapes(spec_of("layer", (8, 1)))
    assert layer_shapes(spec_of("batch", (1,))) == [(1, 5), (3, 1)]


def test_statistics_may_be_among_the_weights_all_or_none():
    spec = spec_of("batch")
    weights = weights_of(spec)
    check_weights(spec, weights)
    check_weights(spec, parameters(spec, weights))
    with pytest.raises(ValueError, match=r"tensors \['1.norm.running_var'\] do not match .* and batch norm"):
        check_weights(spec, {n: w for n, w in weights.items() if n != "1.norm.running_var"})
    with pytest.raises(ValueError, match=r"0.norm.bias"):
        check_weights(spec, {n: w for n, w in weights.items() if n != "0.norm.bias"})


def test_a_regression_by_absolute_errors_has_the_sign_of_each_as_its_gradient():
    spec = ModelSpec(2, 1, (), task="regression", loss="mae")
    weights = {"0.weight": np.array([[1.0, 2.0]], np.float32), "0.bias": np.zeros(1, np.float32)}
    rows, targets = torch.tensor([[1.0, 1.0], [2.0, 0.0]]), torch.tensor([1.0, 5.0])
    step = gradient(spec, as_tensors(weights), rows, targets)
    torch.testing.assert_close(step["0.weight"], (rows[:1] - rows[1:]) / 2)  # one output is above, one below
    with pytest.raises(ValueError, match="loss 'mae' is that of a regression; a binary task"):
        layer_shapes(ModelSpec(2, 2, loss="mae"))
