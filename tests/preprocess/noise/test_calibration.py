"""A budget becomes noise: no less than it takes, and hardly more."""

from math import sqrt

import pytest

from leakledger.defenses.accounting.gaussian import mu_of
from leakledger.defenses.accounting.releases import Release, composed_epsilon
from leakledger.preprocess.noise.calibration import Noise, largest_mu, noise_for


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.3772, 20.0, 300.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_gaussian_noise_is_calibrated_as_the_exact_formula_says(epsilon, delta):
    assert largest_mu(epsilon, delta) == pytest.approx(mu_of(epsilon, delta), rel=1e-6)


@pytest.mark.parametrize("numbers", [1, 7, 40])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_accountant_finds_the_budget_and_hardly_less(numbers, delta):
    noise = noise_for(1.0, delta, numbers)
    releases = [Release(noise.kind, noise.sensitivity, noise.scale)] * numbers
    if delta == 0:
        spent = numbers * noise.sensitivity / noise.scale
    else:
        spent = composed_epsilon(releases, None, delta, "add-remove")
    assert 0.99 <= spent <= 1.0 + 2e-3  # the grid of the accountant rounds up; noise is calibrated without a grid


def test_noise_has_many_steps_and_a_sensitivity_that_is_a_power_of_two():
    for multiplier in (0.01, 0.7, 1.0, 33.3, 4096.0):
        noise = Noise.of("discrete-gaussian", multiplier)
        assert noise.sensitivity & (noise.sensitivity - 1) == 0
        assert multiplier <= noise.scale / noise.sensitivity <= multiplier * (1 + 1 / 2048)


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [(0.0, 0.0, "epsilon is 0.0"), (-1.0, 0.0, "epsilon is -1.0"), (float("nan"), 0.0, "epsilon is nan"),
     (1.0, 1.0, "delta is 1.0"), (1.0, -0.1, "delta is -0.1"), (1e-5, 0.0, "raise epsilon")],
)  # fmt: skip
def test_a_budget_that_is_none_is_refused_with_its_value(epsilon, delta, words):
    with pytest.raises(ValueError, match=words):
        noise_for(epsilon, delta, 1)


def test_the_deviation_is_that_of_the_distribution():
    assert Noise("discrete-gaussian", 3000, 1).deviation == 3000
    assert Noise("discrete-laplace", 3000, 1).deviation == pytest.approx(sqrt(2) * 3000, rel=1e-4)
