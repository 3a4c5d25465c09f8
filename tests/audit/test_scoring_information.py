"""Bits: exact is everything, the prior's guess nothing, a wrong certainty less than nothing."""

import numpy as np
import pytest

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.scoring.information import information
from leakledger.audit.scoring.statistics import score_statistics
from tests.audit.example import truth

TRUTH = truth(data={"source": "fair", "rows": 300}, training={"rounds": 1, "batch_size": 4})
PARTY, FEATURE = TRUTH.parties[0], TRUTH.federated.schema.numeric[0]
REAL, POOLED = TRUTH.statistic(PARTY, FEATURE, "mean"), TRUTH.pooled_statistic(FEATURE, "mean")
UNITS = {(FEATURE, ""): 0.01 * TRUTH.spread(FEATURE)}


def gained(estimate, half):
    claim = StatisticClaim(PARTY, FEATURE, "mean", estimate, estimate - half, estimate + half)
    return information(TRUTH, PARTY, "mean", {(FEATURE, ""): claim}, UNITS)[0]


def test_an_exact_claim_gains_all_bits_but_what_humility_costs():
    assert gained(REAL, 0.0) == pytest.approx(1.0, abs=0.01)


def test_no_claim_gains_nothing():
    share, baseline = information(TRUTH, PARTY, "mean", {}, UNITS)
    assert (share, baseline >= 0) == (0.0, True)


def test_the_narrower_the_right_interval_the_more_it_gains():
    scale = TRUTH.spread(FEATURE)
    gains = [gained(REAL, half * scale) for half in (1.0, 0.3, 0.1, 0.03, 0.0)]
    assert gains == sorted(gains)
    assert gains[2] > 0.2


def test_a_wrong_certainty_costs_and_no_more_than_humility_allows():
    far = gained(REAL + 5 * TRUTH.spread(FEATURE), 0.0)
    assert -2.5 < far < 0


@pytest.mark.parametrize("factor", [0.2, 0.5, 2.0, 5.0])
def test_on_average_no_other_width_gains_more_than_the_honest_one(factor):
    """Claims that scatter around the truth as their interval says: the score is proper."""
    coins, sd = np.random.default_rng(0), 0.1 * TRUTH.spread(FEATURE)
    estimates = REAL + sd * coins.standard_normal(1500)
    honest, other = (np.mean([gained(x, 1.645 * sd * k) for x in estimates]) for k in (1.0, factor))
    assert honest > other


def test_bounds_within_a_factor_of_two_tell_something_where_no_hit_is_counted():
    count = TRUTH.statistic(PARTY, "", "count")
    claim = StatisticClaim(PARTY, "", "count", count * 1.05, count * 0.95, count * 1.2)
    found = {m.metric: m for m in score_statistics([claim], TRUTH)}
    assert found["count"].value == 0
    graded = found["count_information"]
    assert graded.value > graded.baseline >= 0


def test_the_federations_figure_with_how_parties_scatter_is_no_better_than_the_prior():
    scatter = float(np.std([TRUTH.statistic(p, FEATURE, "mean") for p in TRUTH.parties]))
    assert gained(POOLED, 1.645 * scatter) <= 0.05
