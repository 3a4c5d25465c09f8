"""Batches of FedSGD that are Poisson samples: what is drawn, what is sent, and what nobody is told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.models import as_tensors, gradient
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import draw_batches, train
from leakledger.preprocess.views import TrainingSpec
from tests.preprocess.test_training import SPEC, federation, rows, run

POISSON = TrainingSpec("fedsgd", rounds=40, batch_size=3, sampling="poisson")


@pytest.fixture(scope="module")
def trained():
    fed, data, located = federation((12, 30))
    done = run(fed, located, POISSON)
    return fed, data, {key: fed.own(b)[0] for key, b in done.batches.items()}


def sent(fed):
    models = {(m.recipient, m.round): m.payload for m in fed.ledger if m.topic == "train.model"}
    found = (m for m in fed.ledger if m.topic == "train.gradient")
    return {(m.sender, m.round): (m, models[m.sender, m.round].weights) for m in found}


def test_each_row_is_drawn_with_the_probability_of_the_expected_batch_whatever_the_others():
    """Over n draws, within 5 standard errors: how often each row is drawn, and the sizes, which are binomial."""
    data, coins, draws = rows(10, 0), np.random.default_rng(0), 8000
    drawn = np.zeros((draws, 10), bool)
    for i in range(draws):
        (batch,) = draw_batches(POISSON, data, coins)
        assert len(set(batch)) == len(batch)
        drawn[i, batch] = True
    q = 0.3
    assert np.abs(drawn.mean(0) - q).max() < 5 * np.sqrt(q * (1 - q) / draws)
    sizes = drawn.sum(1)
    assert sizes.var() == pytest.approx(10 * q * (1 - q), rel=5 * np.sqrt(2 / draws))
    assert (sizes == 0).mean() == pytest.approx((1 - q) ** 10, abs=5 * np.sqrt(0.03 / draws))


def test_a_client_with_fewer_rows_than_expected_draws_them_all():
    (batch,) = draw_batches(POISSON, rows(2, 0), np.random.default_rng(0))
    assert batch.tolist() == [0, 1]


def test_an_update_is_the_sum_over_the_rows_drawn_by_the_expected_number(trained):
    fed, data, batches = trained
    for (client, round), (message, weights) in sent(fed).items():
        drawn = batches[client, round]
        x, y = (torch.from_numpy(a[drawn]) for a in (data[client].rows, data[client].labels))
        for name, g in message.payload.gradient.items():
            expected = gradient(SPEC, as_tensors(weights), x, y)[name].numpy() * len(drawn) / 3 if len(drawn) else 0
            np.testing.assert_allclose(g, expected, rtol=1e-4, atol=1e-6)
            assert g.dtype == np.float32


def test_no_message_tells_how_many_rows_were_drawn(trained):
    fed, _, batches = trained
    assert len({len(b) for b in batches.values()}) > 3
    assert {message.payload.rows for message, _ in sent(fed).values()} == {3}
    assert len({message.size for message, _ in sent(fed).values()}) == 1


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_a_batch_without_rows_sends_zeros_or_nothing_but_the_noise(sigma):
    fed, _, located = federation((12, 30))
    protect = GaussianNoise(sigma).protect if sigma else None
    done = train(fed, ALGORITHMS["fedsgd"], SPEC, replace(POISSON, batch_size=1), located, protect, 1.0)
    empty = [key for key, b in done.batches.items() if not len(fed.own(b)[0])]
    assert empty  # each of 80 batches is with probability 0.35 or more
    noise = np.concatenate([g.ravel() for key in empty for g in sent(fed)[key][0].payload.gradient.values()])
    assert noise.std() == pytest.approx(sigma, rel=5 / np.sqrt(2 * len(noise)))


def test_rows_that_were_drawn_are_clipped_one_by_one_and_the_sum_has_the_same_divisor():
    fed, _, located = federation((12, 30))
    done = train(fed, ALGORITHMS["fedsgd"], SPEC, POISSON, located, None, 0.1)
    for key, (message, _) in sent(fed).items():
        length = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in message.payload.gradient.values()))
        assert length <= 0.1 * len(fed.own(done.batches[key])[0]) / 3 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"algorithm": "fedavg"}, "draws the batch of one gradient, which fedavg does not send"),
        ({"batch_size": None}, "needs a batch_size"),
        ({"sampling": "bernoulli"}, "sampling 'bernoulli' is unknown; choose one of fixed, poisson"),
    ],
)
def test_what_poisson_sampling_needs_is_checked_before_the_first_message(options, problem):
    fed, _, located = federation((8, 8))
    with pytest.raises(ValueError, match=problem):
        run(fed, located, TrainingSpec(**{"sampling": "poisson", **options}))
    assert len(fed.ledger) == 0
