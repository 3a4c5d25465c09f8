import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.transcript.statistics.proportions import lattice, log_likelihood, weights_of
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.sharing import Proportional
from leakledger.preprocess.secret import KeyStream, pinned


def parts_of(values, parties, weights, seed):
    """(values, parties) parts as the protocol makes them."""
    source = Randomness(KeyStream(pinned(seed)))
    return np.array(Proportional(weights).split(list(values), parties, source)).T


def posterior(parts, parties, weights):
    """(values, G) logs and cumulated posterior under the prior dx / x."""
    total, largest, observed = parts.sum(axis=1), parts.max(axis=1), parts.shape[1]
    grid = lattice(parties, observed)
    logs = grid.logs(np.floor(np.log(total) / grid.step).astype(np.int64))
    likelihood = log_likelihood(logs, total, largest, parties, observed, weights)
    mass = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    return logs, (np.cumsum(mass, axis=1) - mass / 2) / mass.sum(axis=1, keepdims=True)


def at(levels, of, where):
    return np.array([np.interp(level, x, y) for level, x, y in zip(levels, of, where, strict=True)])


@pytest.mark.parametrize("weights", ["uniform", "exponential"])
@pytest.mark.parametrize(("parties", "observed"), [(3, 1), (4, 1), (5, 4), (10, 3), (20, 2)])
def test_nine_of_ten_intervals_hold_the_value_whatever_it_is(weights, parties, observed):
    values = np.exp(np.random.default_rng(parties).normal(0, 5, 3000))
    parts = parts_of(values, parties, weights, seed=observed)[:, :observed]
    logs, cumulated = posterior(parts, parties, weights)
    level = at(np.log(values), logs, cumulated)
    assert np.mean((level > 0.05) & (level < 0.95)) == pytest.approx(0.9, abs=0.022)  # four standard errors
    assert np.mean(level > 0.5) == pytest.approx(0.5, abs=0.037)


@pytest.mark.parametrize(("parties", "observed", "error"), [(4, 1, 0.40), (10, 8, 0.06)])
def test_one_part_of_four_leaves_an_error_of_two_fifths_and_eight_of_ten_of_a_seventeenth(parties, observed, error):
    values = np.full(3000, 7.0)
    parts = parts_of(values, parties, "uniform", seed=3)[:, :observed]
    logs, cumulated = posterior(parts, parties, "uniform")
    median = np.exp(at(np.full(3000, 0.5), cumulated, logs))
    assert np.median(np.abs(median / 7 - 1)) == pytest.approx(error, abs=0.015)


@given(st.integers(3, 8), st.integers(1, 7), st.floats(0.1, 10))
def test_the_likelihood_is_one_of_scale(parties, observed, factor):
    observed = min(observed, parties - 1)
    part = np.random.default_rng(parties).random((1, observed)) + 0.1
    total, largest = part.sum(axis=1), part.max(axis=1)
    logs = np.log(total)[:, None] + np.linspace(0.01, 3, 50)
    plain = log_likelihood(logs, total, largest, parties, observed, "uniform")
    scaled = log_likelihood(logs + np.log(factor), factor * total, factor * largest, parties, observed, "uniform")
    difference = plain - scaled
    finite = np.isfinite(difference)
    np.testing.assert_allclose(difference[finite], observed * np.log(factor), atol=1e-6)


def test_a_value_cannot_be_smaller_than_its_parts():
    value = log_likelihood(np.array([[-1.0, 0.0, 0.1]]), np.ones(1), np.ones(1), 4, 1, "uniform")
    assert np.isneginf(value[0, :2]).all()
    assert np.isfinite(value[0, 2])


@pytest.mark.parametrize("weights", ["uniform", "exponential"])
def test_thirty_own_numbers_tell_which_distribution_split_them(weights):
    parts = parts_of(np.ones(30), 5, weights, seed=0)
    assert weights_of(list(parts)) == weights
