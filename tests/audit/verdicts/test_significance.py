import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway

from leakledger.audit.verdicts.ceilings import ALIKE, exchangeable, fewest, independent, upper_bound
from leakledger.audit.verdicts.significance import FEWEST, holm, in_one_cluster, of_any, over_clusters


def test_of_n_equal_gains_the_t_statistic_is_n():
    from scipy import stats

    for n in (5, 8):
        assert over_clusters(np.full(n, 0.3), range(n)) == pytest.approx(stats.t.sf(n, n - 1))


def test_below_five_units_and_without_any_gain_nothing_is_said():
    assert over_clusters(np.full(FEWEST - 1, 0.3), range(FEWEST - 1)) is None
    assert over_clusters(np.zeros(8), range(8)) == 1.0
    assert over_clusters(np.full(8, -0.1), range(8)) > 0.5


def test_p_values_of_guesses_are_as_small_as_they_say_and_no_smaller():
    coins = np.random.default_rng(0)
    p = np.array([over_clusters(coins.normal(0, 0.05, 8), range(8)) for _ in range(4000)])
    for level in (0.001, 0.01, 0.05):
        assert np.mean(p <= level) <= level + 3 * np.sqrt(level / 4000)


def test_p_values_of_guesses_that_correlate_within_two_seeds_hold_too():
    coins, seeds = np.random.default_rng(1), np.repeat([0, 1], 4)
    shared = np.sqrt(0.3) * coins.standard_normal((4000, 2))[:, seeds]
    gains = 0.05 * (shared + np.sqrt(0.7) * coins.standard_normal((4000, 8)))
    assert np.mean([over_clusters(g, seeds.tolist()) <= 0.05 for g in gains]) <= 0.06


def test_one_cluster_is_judged_by_how_the_prior_scatters():
    assert in_one_cluster(0.4, 0.05, 20) < 1e-5
    assert in_one_cluster(0.05, 0.05, 20) > 0.1
    assert in_one_cluster(0.4, 0.0, 20) == in_one_cluster(0.4, 0.05, 3) == 1.0


def test_p_values_in_one_cluster_hold_for_normal_draws():
    coins, draws = np.random.default_rng(2), 20
    scores = coins.normal(0.5, 0.05, (4000, draws + 1))
    p = [in_one_cluster(s[0] - s[1:].mean(), s[1:].std(ddof=1), draws) for s in scores]
    for level in (0.001, 0.01, 0.05):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level / 4000)


def test_the_adjustment_of_holm_on_known_numbers():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert of_any([0.01, 0.5]) == 0.02
    assert of_any([]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_keep_their_order_and_are_no_smaller(values):
    adjusted = holm(values)
    assert all(a >= p for a, p in zip(adjusted, values, strict=True))
    assert [adjusted[k] for k in np.argsort(values, kind="stable")] == sorted(adjusted)
    assert min(adjusted) == pytest.approx(min(1.0, len(values) * min(values)))


def test_of_clusters_without_a_gain_the_bound_is_that_of_a_rate():
    for n in (5, 29, 59):
        assert upper_bound(np.zeros(n), 0.05) == pytest.approx(1 - 0.05 ** (1 / n), abs=0.004)
    assert upper_bound([], 0.05) == 1.0
    assert (fewest(0.1, 0.05), fewest(0.05, 0.05)) == (29, 59)


def test_the_bound_of_ones_and_zeros_is_that_of_clopper_and_pearson():
    from scipy import stats

    values = np.repeat([0.0, 1.0], [37, 3])
    exact = stats.beta.ppf(0.95, 3 + 1, 40 - 3)
    assert upper_bound(values, 0.05) == pytest.approx(exact, abs=0.004)


@pytest.mark.parametrize("rate", [0.1, 0.03])
def test_rare_leaks_are_bounded_as_often_as_it_says(rate):
    coins = np.random.default_rng(3)
    found = [upper_bound(np.where(coins.random(30) < rate, 1.0, coins.normal(0, 0.05, 30)), 0.05) for _ in range(2000)]
    assert np.mean(np.array(found) < rate) <= 0.05 + 3 * np.sqrt(0.05 / 2000)


def test_seeds_are_exchangeable_where_an_analysis_of_variance_finds_no_difference():
    coins, outcomes = np.random.default_rng(11), set()
    for shared in (0.0, 0.5, 2.0) * 20:
        sizes = coins.integers(1, 6, 8) + (np.arange(8) == 0)
        of = np.repeat(np.arange(8), sizes)
        values = coins.standard_normal(len(of)) + shared * coins.standard_normal(8)[of]
        found = exchangeable(values, of)
        assert found == (f_oneway(*(values[of == k] for k in range(8))).pvalue >= ALIKE)
        outcomes.add(found)
    assert outcomes == {True, False}


def test_bounds_of_the_same_numbers_in_another_order_are_the_same_and_of_others_are_not():
    values = np.random.default_rng(12).random(30)
    assert upper_bound(values[::-1], 0.05) == upper_bound(values, 0.05) < upper_bound(values + 0.1, 0.05)
    assert upper_bound(values, 0.05) < min(upper_bound(values, 0.01), upper_bound(values, 0.05, most=2.0))


def test_seeds_are_the_units_unless_their_clusters_are_exchangeable():
    coins, seeds = np.random.default_rng(4), np.repeat(np.arange(10), 4)
    alone, shared = coins.standard_normal(40), coins.standard_normal(10)[seeds]
    assert len(independent(alone, seeds.tolist())) == 40
    assert independent(shared + 0.1 * alone, seeds.tolist()) == pytest.approx(
        (shared + 0.1 * alone).reshape(10, 4).mean(1)
    )
    assert len(independent(shared, seeds.tolist())) == 10
    assert len(independent(alone[:12], seeds[:12].tolist())) == 0  # three seeds cannot tell
    assert exchangeable(np.zeros(8), np.repeat([0, 1], 4))
