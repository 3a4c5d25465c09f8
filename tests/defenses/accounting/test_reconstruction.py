import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.reconstruction import gaussian_success, most_success
from tests.every import every


@every(
    ("kappa", "bounds"),
    [(0.01, (0.034, 0.092, 0.372, 0.953)), (1e-4, (0.001, 0.003, 0.043, 0.611))],
)
def test_known_bounds_at_mu_a_half_one_two_and_four(kappa, bounds):
    assert [round(gaussian_success(kappa, mu), 3) for mu in (0.5, 1, 2, 4)] == list(bounds)


def test_the_bound_is_met_by_the_adversary_who_guesses_one_of_a_hundred_values_by_likelihood():
    coins = np.random.default_rng(0)
    mu, trials = 2.0, 40_000
    there = coins.random(trials) < 0.5  # the simplest prior: the victim is there or not, and the guess is "there"
    seen = coins.normal(there * mu, 1)
    guess = seen > norm.isf(0.01)  # right by chance in one of a hundred worlds without the victim
    success = guess[there].mean()
    bound = most_success(GaussianMechanism(1 / mu), 0.01)
    assert success == pytest.approx(bound, abs=5 * np.sqrt(bound * (1 - bound) / there.sum()))


def test_rounds_and_passes_are_composed():
    assert most_success(GaussianMechanism(2.0, 4), 0.01) == pytest.approx(gaussian_success(0.01, 1))
    passes = GaussianMechanism(1.0, 100, "shuffled", 0.01, relation="replace")
    assert most_success(passes, 0.01) == pytest.approx(gaussian_success(0.01, 2))


@pytest.mark.slow
@every("kappa", [0.9, 0.1, 1e-4])
def test_the_numeric_bound_is_the_closed_form_where_sampling_hardly_matters(kappa):
    numeric = most_success(GaussianMechanism(1.0, 4, "poisson", 1 - 1e-9), kappa)
    assert numeric == pytest.approx(gaussian_success(kappa, 2), rel=5e-3)


def test_sampling_bounds_success_far_below_the_mechanism_without_it():
    sampled = most_success(GaussianMechanism(1.0, 1000, "poisson", 0.01), 0.01)
    assert 0.01 < sampled < 0.05 < gaussian_success(0.01, np.sqrt(1000))


@every("kappa", [0.05, 0.9])
def test_one_sampled_round_is_bounded_by_its_mixture_in_both_directions(kappa):
    rate = 0.3
    removed = (1 - rate) * kappa + rate * gaussian_success(kappa, 1)  # power of the best test for a record
    at = brentq(lambda x: (1 - rate) * norm.cdf(x) + rate * norm.cdf(x, 1) - kappa, -9, 9)
    best = max(removed, norm.cdf(at))  # and of the best one against it
    bound = most_success(GaussianMechanism(1.0, 1, "poisson", rate), kappa)
    assert best <= bound + 1e-12
    assert bound == pytest.approx(best, rel=0.02)


def test_batches_of_fixed_size_are_bounded_as_without_sampling():
    assert most_success(GaussianMechanism(2.0, 4, "fixed-size", 0.1, relation="replace"), 0.01) == pytest.approx(
        gaussian_success(0.01, 2)
    )


@every("kappa", [0, 1, -0.1, float("nan")])
def test_a_prior_that_never_or_always_succeeds_is_refused(kappa):
    with pytest.raises(ValueError, match=f"kappa is {kappa}"):
        most_success(GaussianMechanism(1.0), kappa)
