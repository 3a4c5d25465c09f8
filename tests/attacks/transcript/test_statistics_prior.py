import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.prior import (
    AT_MOST,
    BASE,
    LOG_STD_SPREADS,
    MEAN_SPREADS,
    NEAR,
    learnt,
    prior,
    t3_level,
    t3_quantile,
)

FEATURES = tuple((f"f{i}", "") for i in range(12))


def learnt_from(*columns, rows=100.0):
    """The prior of four parties with mean 0 and deviation 1 for an observer with these columns."""
    own = {
        f"P{i}": OwnTable(len(c), {f: c[:, k] for k, (f, _) in enumerate(FEATURES)}, {}) for i, c in enumerate(columns)
    }
    size = len(FEATURES)
    return prior(rows, FEATURES, np.zeros(size), np.ones(size), np.zeros(size), own, 4)


def usual(weights, spreads):
    return float(np.mean(weights @ spreads))


def own_rows(seed, away, rows=25):
    rng = np.random.default_rng(seed)
    return rng.normal(rng.normal(0, away, 12), 1.0, (rows, 12))


@given(st.floats(-50, 50))
def test_students_distribution_and_its_inverse_are_those_of_scipy(x):
    assert t3_level(np.array(x)) == pytest.approx(stdtr(3, x), abs=1e-12)
    level = float(np.clip(stdtr(3, x), 1e-6, 1 - 1e-6))
    assert t3_quantile(np.array(level)) == pytest.approx(stdtrit(3, level), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_an_own_table_like_the_rest_narrows_the_prior_and_one_far_from_it_widens_it(seed):
    near, far = learnt_from(own_rows(seed, 0.0, 400)), learnt_from(own_rows(seed, 2.0))
    assert usual(near.mean_weights, MEAN_SPREADS) < BASE @ MEAN_SPREADS < usual(far.mean_weights, MEAN_SPREADS)
    assert usual(near.std_weights, LOG_STD_SPREADS) < BASE @ LOG_STD_SPREADS


def test_a_feature_in_which_observers_are_far_apart_has_a_wider_prior_than_the_others():
    own = [own_rows(seed, 0.0, 400) for seed in range(3)]
    own[0][:, 0] += 3.0
    own[1][:, 0] -= 3.0
    widths = learnt_from(*own).mean_weights @ MEAN_SPREADS
    assert widths[0] > 1.5 * widths[1:].max()


def test_weights_are_a_distribution_and_what_says_nothing_leaves_them_shared():
    weights = learnt(np.array([[np.nan, 0.01, 2.0]]), MEAN_SPREADS)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights >= 0).all()
    assert weights[1] @ MEAN_SPREADS < weights[0] @ MEAN_SPREADS < weights[2] @ MEAN_SPREADS


def test_constant_and_empty_own_columns_give_finite_weights():
    for own in (np.zeros((5, 12)), np.zeros((0, 12))):
        found = learnt_from(own)
        assert all(np.isfinite(w).all() for w in (found.mean_weights, found.std_weights, found.row_weights))


def test_own_deviations_far_below_that_of_the_whole_say_that_parties_are_far_apart_but_others_may_be_near_it():
    alike, small = learnt_from(own_rows(0, 0.0, 400)), learnt_from(own_rows(0, 0.0, 400) / 100)
    assert (alike.far < 0.1).all()
    assert (small.far > 0.9).all()
    for found in (alike, small):
        np.testing.assert_allclose(found.mean_weights.sum(axis=1) + found.loose, 1.0)
        np.testing.assert_allclose(found.shift_weights.sum(axis=1), 1.0)
        assert (found.shift_weights[:, len(NEAR) :].sum(axis=1) <= AT_MOST + 1e-12).all()


def test_an_own_column_of_one_number_says_that_others_may_have_one_in_that_feature_alone():
    own = own_rows(0, 0.0, 400)
    own[:, 0] = 0.1  # whose mean and deviation have rounding in them
    found = learnt_from(own)
    assert found.far[0] == 1
    assert (found.far[1:] < 0.1).all()
    assert (learnt_from(own[:1]).far < 0.1).all()  # a single row has no deviation


@pytest.mark.parametrize("seed", range(3))
def test_features_of_two_parties_whose_means_are_apart_say_the_same_and_those_of_more_each_something(seed):
    """Counts of one of three parties, 3 deviations apart, held in 71 % for nominal 90 while each counted by itself."""
    near, apart = learnt_from(own_rows(seed, 0.0, 400)), learnt_from(own_rows(seed, 2.0))
    assert near.alike(2).max() < 1.2
    assert apart.alike(2).min() > 2
    assert apart.alike(3).max() < 1.5
