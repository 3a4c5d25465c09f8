import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attacks.tableak.optimiser import SignAdam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torch_adam_fed_with_signs(dtype):
    draws = torch.Generator().manual_seed(3)
    ours = torch.randn(4, 5, generator=draws, dtype=dtype)
    theirs = ours.clone().requires_grad_()
    adam, sign_adam = torch.optim.Adam([theirs], lr=0.06), SignAdam(ours, 0.06)
    for _ in range(200):
        gradient = torch.randn(4, 5, generator=draws, dtype=dtype)
        gradient[gradient > 1] = 0
        theirs.grad = gradient.sign()
        adam.step()
        sign_adam.step(gradient)
    torch.testing.assert_close(ours, theirs.detach())


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30))
def test_no_step_is_longer_than_the_learning_rate(gradients):
    variables = torch.zeros(1)
    adam = SignAdam(variables, 0.5)
    for g in gradients:
        before = variables.clone()
        adam.step(torch.tensor([g]))
        assert (variables - before).abs() <= 0.5 * (1 + 1e-5)


def test_a_constant_gradient_moves_by_the_learning_rate_against_its_sign():
    variables = torch.zeros(2)
    adam = SignAdam(variables, 0.06)
    for _ in range(10):
        adam.step(torch.tensor([1e-9, -1e9]))
    torch.testing.assert_close(variables, torch.tensor([-0.6, 0.6]))
