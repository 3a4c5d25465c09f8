"""Units, and intervals that hold near the ends."""

import numpy as np
import pytest
from scipy import stats

from leakledger.audit.clusters import ASSUMED, SEEDS, mean_interval, posterior_interval, ratio_interval, units
from leakledger.audit.intervals import interval


def test_from_five_seeds_on_the_seed_is_the_unit():
    seeds = np.repeat(np.arange(SEEDS), 3)
    values = np.arange(15.0)
    found = units(values, seeds.tolist())
    assert found.values == pytest.approx(values.reshape(SEEDS, 3).mean(1))
    assert found.inflation == 1


def test_below_five_seeds_clusters_are_the_units_and_are_taken_to_correlate():
    found = units(np.arange(8.0), [0] * 4 + [1] * 4)
    assert len(found) == 8
    assert found.inflation == pytest.approx(1 + 3 * ASSUMED)
    assert units(np.arange(3.0), [0, 1, 2]).inflation == 1  # one cluster each: nothing to correlate with
    assert units(np.arange(8.0)).inflation == 1


def test_without_bounds_the_interval_is_that_of_student():
    values = [0.1, 0.4, 0.35, 0.8]
    assert mean_interval(values) == pytest.approx(interval(values))
    assert mean_interval([0.3]) is None


def test_with_bounds_it_is_no_narrower_and_stays_inside():
    values = [0.1, 0.4, 0.35, 0.8]
    low, high = mean_interval(values, bounds=(0.0, 1.0))
    assert low <= max(interval(values)[0], 0.0)
    assert high >= min(interval(values)[1], 1.0)
    assert (low, high) == mean_interval(values, bounds=(0.0, 1.0))  # the same at each call
    assert min(low, 1 - high) >= 0


def test_of_perfect_clusters_the_lower_end_rises_with_their_number():
    lows = [mean_interval([1.0] * n, bounds=(0.0, 1.0))[0] for n in (2, 5, 10, 40)]
    assert lows == sorted(lows)
    assert lows[1] < 0.75
    assert lows[-1] > 0.9
    assert mean_interval([1.0] * 5, bounds=(0.0, 1.0))[1] == 1.0


def test_the_posterior_of_equal_units_is_known():
    """n equal units at 1 and one unseen: the mean is 1 - w (1 - u), w of Beta(1, n), u even; here by quadrature."""
    n, level = 9, 0.025
    low, _ = posterior_interval(units(np.ones(n)), (0.0, 1.0))
    grid = (np.arange(4000) + 0.5) / 4000
    below = np.mean(stats.beta.sf((1 - low) / grid, 1, n))  # w u' above 1 - low
    assert below == pytest.approx(level, abs=0.01)


def test_the_interval_moves_and_mirrors_with_the_numbers():
    values = np.array([0.2, 0.5, 0.9, 0.7, 0.6])
    low, high = mean_interval(values, bounds=(0.0, 1.0))
    other = mean_interval(1 - values, bounds=(0.0, 1.0))
    assert other == pytest.approx((1 - high, 1 - low), abs=0.02)
    shifted = mean_interval(values + 3, bounds=(3.0, 4.0))
    assert shifted == pytest.approx((low + 3, high + 3))


def test_a_ratio_allows_for_seeds_as_a_mean_does():
    parts, seeds = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
    ratio, (low, high) = ratio_interval(parts, np.ones(4), seeds)
    narrow = interval(parts)
    assert ratio == pytest.approx(np.mean(parts))
    assert (high - low) / (narrow[1] - narrow[0]) == pytest.approx(np.sqrt(1 + ASSUMED))


@pytest.mark.parametrize("seeds", [2, 5])
def test_correlated_clusters_of_a_seed_are_covered(seeds):
    coins, held = np.random.default_rng(0), []
    which = np.repeat(np.arange(seeds), 6)
    for _ in range(1000):
        x = np.sqrt(0.3) * coins.standard_normal(seeds)[which] + np.sqrt(0.7) * coins.standard_normal(len(which))
        low, high = mean_interval(0.5 + 0.05 * x, which.tolist(), (0.0, 1.0))
        held.append(low <= 0.5 <= high)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize("clusters", [5, 16])
def test_attacks_that_fail_now_and_then_are_covered(clusters):
    coins = np.random.default_rng(1)
    held = [
        low <= 0.95 <= high
        for low, high in (
            mean_interval(np.where(coins.random(clusters) < 0.05, 0.0, 1.0), bounds=(0.0, 1.0)) for _ in range(1000)
        )
    ]
    assert np.mean(held) >= 0.93
