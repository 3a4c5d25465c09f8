import numpy as np
import pytest
from scipy import stats

from leakledger.audit.clusters import ratio_interval
from leakledger.audit.intervals import interval, quantile


def test_the_interval_is_the_t_interval_of_a_known_library():
    values = [0.1, 0.4, 0.35, 0.8]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert interval(values) == pytest.approx((expected.low, expected.high))
    assert interval([0.3]) is None
    assert interval([1.0, 1.0, 1.0]) == (1.0, 1.0)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    coins = np.random.default_rng(0)
    covered = [low <= 0.0 <= high for low, high in (interval(list(coins.normal(size=5))) for _ in range(2000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 2000))


def test_the_quantile_is_wider_for_more_confidence_and_for_fewer_clusters():
    assert quantile(4) == pytest.approx(3.182, abs=1e-3)  # of tables, with three degrees of freedom
    assert quantile(4, 0.99) > quantile(4) > quantile(30)


def test_the_interval_of_a_ratio_is_that_of_a_mean_where_all_wholes_are_one():
    values = [0.1, 0.4, 0.35, 0.8]
    ratio, limits = ratio_interval(values, np.ones(4))
    assert ratio == pytest.approx(np.mean(values))
    assert limits == pytest.approx(interval(values))
    assert ratio_interval([0.3], [0.6]) == (0.5, None)
