import numpy as np
import pytest
from scipy import stats

from leakledger.audit.gate.differences import (
    Sample,
    clusters_needed,
    enough_to_fail,
    highest_growth,
    paired,
    smallest_p,
    unpaired,
    unseen,
)


def test_bounds_of_pairs_are_student_t():
    coins = np.random.default_rng(3)
    a, b = coins.standard_normal((2, 12))
    d = paired(a, b, range(12), 0.05)
    assert d.low == pytest.approx(stats.ttest_rel(a, b, alternative="greater").confidence_interval(0.95).low)
    assert d.high == pytest.approx(stats.ttest_rel(a, b, alternative="less").confidence_interval(0.95).high)


def test_bounds_of_two_samples_are_those_of_welch():
    coins = np.random.default_rng(4)
    a, b = coins.standard_normal(12), 3 * coins.standard_normal(9)
    d = unpaired(Sample.of(a, range(12)), Sample.of(b, range(9)), 0.05)
    ours = stats.ttest_ind(a, b, equal_var=False, alternative="greater").confidence_interval(0.95)
    assert d.low == pytest.approx(ours.low)


@pytest.mark.parametrize("ways", ["paired", "unpaired"])
def test_equal_differences_reach_the_smallest_p_and_no_less(ways):
    for n in (5, 8, 20):
        a, b = np.ones(n), np.zeros(n)
        d = (
            paired(a, b, range(n), 0.05)
            if ways == "paired"
            else unpaired(*(Sample.of(x, range(n)) for x in (a, b)), 0.05)
        )
        assert d.p == pytest.approx(smallest_p(n))
        assert 0 < d.p < 0.01


def test_no_difference_proves_nothing():
    assert paired(np.ones(6), np.ones(6), range(6), 0.05).p == 1.0


def test_below_five_clusters_there_is_nothing_to_say():
    d = paired(np.ones(4), np.zeros(4), range(4), 0.05)
    assert (d.p, d.low, d.high, smallest_p(4)) == (None, None, None, 1.0)


def test_clusters_needed_are_near_the_normal_formula_and_their_power_is_as_planned():
    for scatter, margin, normal in ((0.1, 0.05, 25), (0.1, 0.03, 69), (0.1, 0.02, 155)):
        n = clusters_needed(scatter, margin, 0.05, 0.8)
        assert normal <= n <= normal + 3
        power = stats.nct.sf(stats.t.ppf(0.95, n - 1), n - 1, margin * np.sqrt(n) / scatter)
        assert 0.8 <= power < 0.83
    assert clusters_needed(0.0, 0.1, 0.05, 0.8) == 5
    assert clusters_needed(100.0, 1e-4, 0.05, 0.8) is None


def test_what_could_be_unseen_is_the_rule_of_three():
    assert unseen(30, 0.05) == pytest.approx(3 / 30, abs=0.01)
    assert unseen(0, 0.05) == 1


@pytest.mark.parametrize("seeds", [5, 10, 30])
def test_of_two_samples_that_all_have_everything_or_nothing_growth_is_bounded_by_what_they_may_have_missed(seeds):
    full, empty = (Sample.of(np.full(seeds, of), range(seeds)) for of in (1.0, 0.0))
    for both in (full, empty):
        assert highest_growth(both, both, 0.05, 0.1) == pytest.approx(unseen(seeds, 0.05), abs=0.01)
    assert highest_growth(full, empty, 0.05, 0.1) == pytest.approx(1)
    assert highest_growth(empty, full, 0.05, 0.1) < 0


def test_clusters_of_exchangeable_seeds_all_count_where_seeds_are_enough_and_below_five_nothing_is_bounded():
    forty = Sample.of(np.ones(40), np.repeat(range(10), 4))
    assert highest_growth(forty, forty, 0.05, 0.3) == pytest.approx(unseen(40, 0.05), abs=0.01)
    assert highest_growth(forty, forty, 0.05, 0.1) == pytest.approx(unseen(10, 0.05), abs=0.01)
    few = Sample.of(np.ones(40), np.repeat(range(4), 10))
    assert highest_growth(few, few, 0.05, 0.9) == 1


@pytest.mark.parametrize("family", [1, 5, 20, 500])
def test_enough_clusters_can_fail_one_of_the_checks_and_one_less_cannot(family):
    enough = enough_to_fail(family, 0.05)
    assert family * smallest_p(enough) <= 0.05
    assert enough == 5 or family * smallest_p(enough - 1) > 0.05
