import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.matching.optimiser import OPTIMISERS, Adam, SignAdam


@pytest.mark.parametrize(("kind", "fed"), [(SignAdam, torch.sign), (Adam, torch.clone)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torch_adam_fed_with_signs_or_the_gradient_itself(dtype, kind, fed):
    draws = torch.Generator().manual_seed(3)
    ours = torch.randn(4, 5, generator=draws, dtype=dtype)
    theirs = ours.clone().requires_grad_()
    adam, own = torch.optim.Adam([theirs], lr=0.06), kind(ours, 0.06)
    for _ in range(200):
        gradient = torch.randn(4, 5, generator=draws, dtype=dtype)
        gradient[gradient > 1] = 0
        theirs.grad = fed(gradient)
        adam.step()
        own.step(gradient)
    torch.testing.assert_close(ours, theirs.detach())


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30))
def test_no_step_is_longer_than_the_learning_rate(gradients):
    variables = torch.zeros(1)
    adam = SignAdam(variables, 0.5)
    for g in gradients:
        before = variables.clone()
        adam.step(torch.tensor([g]))
        assert (variables - before).abs() <= 0.5 * (1 + 1e-5)


def test_only_the_signs_make_steps_blind_to_how_gradients_grow():
    ends = {}
    for name, kind in OPTIMISERS.items():
        variables = torch.zeros(1)
        adam = kind(variables, 0.1)
        for size in (1.0, 10.0, 100.0):
            adam.step(torch.tensor([size]))
        ends[name] = float(variables)
    assert ends["sign-adam"] == pytest.approx(-0.3)
    assert abs(ends["adam"] + 0.3) > 0.01


def test_a_constant_gradient_moves_by_the_learning_rate_against_its_sign():
    variables = torch.zeros(2)
    adam = SignAdam(variables, 0.06)
    for _ in range(10):
        adam.step(torch.tensor([1e-9, -1e9]))
    torch.testing.assert_close(variables, torch.tensor([-0.6, 0.6]))
