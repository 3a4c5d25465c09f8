"""A single logit, dropout, Adam and the proximal term: what heads on embeddings are trained with."""

import numpy as np
import pytest
import torch

from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.models import as_tensors, dropout_masks, forward, gradient, initial_weights, mean_loss
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.views import ModelSpec, TrainingSpec

SPEC = ModelSpec(5, 1, (6,), "relu", "binary", 0.2)
X, Y = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1])
WEIGHTS = initial_weights(SPEC, np.random.default_rng(0))


def test_the_loss_of_a_single_logit_is_binary_cross_entropy():
    z = forward(SPEC, as_tensors(WEIGHTS), X)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], Y.float())
    torch.testing.assert_close(mean_loss(SPEC, z, Y), expected)


def test_masks_leave_out_the_stated_share_and_keep_the_mean():
    (mask,) = dropout_masks(SPEC, 20_000, np.random.default_rng(1))
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert float(mask.mean()) == pytest.approx(1, abs=0.01)
    assert dropout_masks(ModelSpec(5, 2), 3, None) is None


def test_dropout_without_coins_is_refused():
    with pytest.raises(ValueError, match="coins"):
        dropout_masks(SPEC, 3, None)


def test_a_unit_that_is_left_out_of_every_row_has_no_gradient():
    mask = torch.ones(9, 6)
    mask[:, 2] = 0
    step = gradient(SPEC, as_tensors(WEIGHTS), X, Y, [mask])
    assert not step["0.weight"][2].any()
    assert step["0.weight"].any()


@pytest.mark.parametrize("proximal", [0.0, 0.5])
def test_local_steps_are_those_of_the_librarys_adam_on_the_proximal_loss(proximal):
    spec = ModelSpec(5, 1, (6,))
    training = TrainingSpec("fedavg", learning_rate=0.01, optimizer="adam", proximal=proximal)
    batches = [np.arange(4), np.arange(4, 9), np.arange(9)]
    data = Encoded(X.numpy(), Y.numpy())
    sent = ALGORITHMS["fedavg"].client(spec, training, GlobalModel(dict(WEIGHTS)), data, batches)
    weights = {n: w.requires_grad_() for n, w in as_tensors(WEIGHTS).items()}
    optimizer = torch.optim.Adam(weights.values(), lr=0.01)
    for rows in batches:
        optimizer.zero_grad()
        near = sum(((w - torch.tensor(WEIGHTS[n])) ** 2).sum() for n, w in weights.items())
        (mean_loss(spec, forward(spec, weights, X[rows]), Y[rows]) + proximal / 2 * near).backward()
        optimizer.step()
    for name, w in weights.items():
        np.testing.assert_allclose(sent.weights[name], w.detach().numpy(), atol=1e-6)
