import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.prior import (
    BASE,
    LOG_STD_SPREADS,
    MEAN_SPREADS,
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
