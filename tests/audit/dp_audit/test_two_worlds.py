"""Audits of mechanisms whose truth is known: nothing is found in nothing, and wrong claims are refuted."""

import re

import numpy as np
import pytest
from scipy.stats import beta

from leakledger.audit.dp_audit.proportions import at_least, at_most
from leakledger.audit.dp_audit.two_worlds import audit_two_worlds
from leakledger.defenses.accounting.gaussian import epsilon_of
from tests.every import every

DELTA = 1e-5
TRIES = 1000


def audit(first, second, seed=0, **options):
    return audit_two_worlds(first, second, coins=np.random.default_rng(seed), **{"delta": DELTA, **options})


def gaussian(mu, samples, coins):
    return coins.normal(mu, 1, samples), coins.normal(0, 1, samples)


@every(("samples", "ceiling"), [(20, 1.60), (100, 3.28), (1000, 5.60), (10_000, 7.90)])
def test_an_exact_copy_reaches_the_known_ceiling_and_no_audit_goes_beyond(samples, ceiling):
    found = audit(np.ones(2 * samples), np.zeros(2 * samples), delta=0)
    assert found.epsilon == found.ceiling == pytest.approx(ceiling, abs=0.005)
    assert found.mu == found.mu_ceiling


def test_bounds_of_proportions_are_those_of_clopper_and_pearson():
    assert at_least(7, 20, 0.025) == pytest.approx(beta.ppf(0.025, 7, 14))
    assert at_most(7, 20, 0.025) == pytest.approx(beta.ppf(0.975, 8, 13))
    assert (at_least(0, 20, 0.025), at_most(20, 20, 0.025)) == (0, 1)
    assert at_most(0, 20, 0.05) == pytest.approx(1 - 0.05 ** (1 / 20))


def test_reversed_scores_and_exchanged_worlds_show_as_much():
    first, second = gaussian(2, 20_000, np.random.default_rng(1))
    whole = audit(first, second)
    assert audit(-first, -second).epsilon == pytest.approx(whole.epsilon, rel=0.15)
    assert audit(second, first).epsilon == pytest.approx(whole.epsilon, rel=0.15)
    assert audit(-first, -second).mu == pytest.approx(whole.mu, rel=0.1)


def test_a_difference_that_only_shows_in_the_absence_of_a_value_is_found():
    coins = np.random.default_rng(2)
    first = np.ones(4000)  # TPR/FPR is about 2, TNR/FNR is without bound
    second = coins.integers(0, 2, 4000).astype(float)
    assert audit(first, second, delta=0).epsilon > 5


@every(("confidence", "said"), [(0.95, "95%"), (0.995, "99.5%"), (0.9999, "99.99%")])
def test_no_confidence_is_rounded_to_certainty(confidence, said):
    found = audit(*gaussian(1, 1000, np.random.default_rng(5)), confidence=confidence)
    assert f"with {said} confidence" in str(found)


def test_gaussian_noise_that_shows_has_no_epsilon_at_delta_zero():
    coins = np.random.default_rng(6)
    assert audit(*gaussian(2, 1000, coins), delta=0).epsilon_if_gaussian == np.inf
    assert audit(*gaussian(0, 1000, coins), delta=0).epsilon_if_gaussian == 0


def test_the_stated_delta_is_the_one_that_is_used():
    coins = np.random.default_rng(3)
    first, second = (coins.random(20_000) < 0.01).astype(float), np.zeros(20_000)  # (0, 0.01)-DP
    assert audit(first, second, delta=0).epsilon > 2
    assert audit(first, second, delta=0.02).epsilon == 0


def test_more_samples_raise_the_ceiling_and_the_answer_prints_it():
    small, large = (audit(*gaussian(1, n, np.random.default_rng(4))) for n in (400, 40_000))
    assert small.ceiling < large.ceiling
    assert f"{large.ceiling:.3g}" in str(large)
    assert "delta 1e-05" in str(large)
    assert "if the mechanism is Gaussian" in str(large)


def test_the_same_coins_give_the_same_answer():
    worlds = gaussian(1, 5000, np.random.default_rng(5))
    assert audit(*worlds, seed=7) == audit(*worlds, seed=7)


@every(
    ("first", "options", "message"),
    [
        (np.zeros(3), {}, "shape"),
        (np.zeros((5, 2)), {}, r"\(5, 2\)"),
        (np.array([0.0, 1, 2, 3, np.nan]), {}, "1 sample without a number"),
        (np.zeros(8), {"delta": 1.0}, "delta is 1.0"),
        (np.zeros(8), {"confidence": 0.3}, "confidence is 0.3"),
    ],
)
def test_what_is_no_audit_is_refused(first, options, message):
    with pytest.raises(ValueError, match=message):
        audit(first, np.zeros(8), **options)


def rejections(worlds, epsilon, mu, samples, **options):
    """How many of TRIES audits say more than the truth, by the general bound and by the Gaussian one."""
    coins = np.random.default_rng(2026)
    general = gaussians = 0
    for _ in range(TRIES):
        found = audit_two_worlds(*worlds(samples, coins), coins=coins, **{"delta": DELTA, **options})
        general += found.epsilon > epsilon
        gaussians += found.mu > mu
    return general, gaussians


def nominal(count):
    """Whether so many rejections of TRIES are no proof of more than one in twenty."""
    return beta.ppf(0.05, count, TRIES - count + 1) <= 0.05 if count else True


@pytest.mark.slow
@every("samples", [100, 2000])
def test_audits_of_nothing_find_something_no_more_often_than_stated(samples):
    general, gaussians = rejections(lambda n, coins: gaussian(0, n, coins), 0, 0, samples)
    assert nominal(general)
    assert nominal(gaussians)
    assert gaussians < 0.02 * TRIES  # two bounds have to err at once: 0.3 %; without fresh samples it is 6 to 8 %


@pytest.mark.slow
def test_audits_of_randomised_response_exceed_its_epsilon_no_more_often_than_stated():
    truth = np.exp(1) / (1 + np.exp(1))  # epsilon 1, which every threshold attains: nothing is lost to the choice

    def worlds(samples, coins):
        return tuple((coins.random(samples) < p).astype(float) for p in (truth, 1 - truth))

    general, _ = rejections(worlds, 1, np.inf, 1000, delta=0)
    assert nominal(general)
    assert general > 0  # the bound is no looser than it has to be


@pytest.mark.slow
def test_audits_of_gaussian_noise_exceed_its_mu_no_more_often_than_stated():
    _, gaussians = rejections(lambda n, coins: gaussian(1, n, coins), epsilon_of(DELTA, 1), 1, 1000)
    assert nominal(gaussians)


@pytest.mark.slow
def test_noise_at_half_the_claimed_scale_is_refuted_from_a_hundred_thousand_samples_nine_times_in_ten():
    claimed = epsilon_of(DELTA, 1)
    coins = np.random.default_rng(11)
    found = [audit_two_worlds(*gaussian(2, 100_000, coins), delta=DELTA, coins=coins) for _ in range(40)]
    refuted = sum(f.epsilon > claimed for f in found)
    assert beta.ppf(0.05, refuted, 40 - refuted + 1) >= 0.9
    assert all(f.mu > 1 for f in found)


@pytest.mark.slow
def test_noise_at_the_claimed_scale_is_not_refuted():
    claimed = epsilon_of(DELTA, 1)
    coins = np.random.default_rng(12)
    found = [audit_two_worlds(*gaussian(1, 100_000, coins), delta=DELTA, coins=coins) for _ in range(20)]
    assert sum(f.epsilon > claimed for f in found) == 0
    assert all(f.mu > 0.9 for f in found)


def test_no_text_of_a_bound_says_more_than_was_shown():
    for seed in range(5):
        coins = np.random.default_rng(seed)
        found = audit_two_worlds(coins.normal(1, 1, 2000), coins.normal(0, 1, 2000), delta=1e-5, coins=coins)
        epsilon, mu, gaussian = (float(x) for x in re.findall(r"at least ([\d.e-]+)", str(found)))
        assert epsilon <= found.epsilon
        assert mu <= found.mu
        assert gaussian <= found.epsilon_if_gaussian
