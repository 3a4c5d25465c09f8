"""Bits: exact is everything, the prior's guess nothing, a wrong certainty less than nothing."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.records import CaseRecord, Control, Setting, Trial
from leakledger.audit.scoring.information import bits
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.rulings import rulings
from tests.audit.example import truth

TRUTH = truth(data={"source": "fair", "rows": 300}, training={"rounds": 1, "batch_size": 4})
PARTY, FEATURE = TRUTH.parties[0], TRUTH.federated.schema.numeric[0]
REAL, POOLED = TRUTH.statistic(PARTY, FEATURE, "mean"), TRUTH.pooled_statistic(FEATURE, "mean")
UNITS = {(FEATURE, ""): 0.01 * TRUTH.spread(FEATURE)}


def gained(estimate, half):
    claim = StatisticClaim(PARTY, FEATURE, "mean", estimate, estimate - half, estimate + half)
    (found,) = bits(TRUTH, PARTY, "mean", {(FEATURE, ""): claim}, UNITS).values()
    return found.shares(1)[0]


def test_an_exact_claim_gains_all_bits_but_what_humility_costs():
    assert gained(REAL, 0.0) == pytest.approx(1.0, abs=0.01)


def test_no_claim_gains_nothing():
    (found,) = bits(TRUTH, PARTY, "mean", {}, UNITS).values()
    share, baseline = found.shares(1)
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


def test_a_column_that_is_told_nearly_is_not_hidden_among_the_bits_of_many():
    """Of 30 columns the mean of one was told within 40 % of a standard deviation: no hit, a quarter of its bits, under
    1 % of the bits of all, and "no leak" after 80 seeds.
    """
    many = truth(data={"source": "breast_cancer", "rows": 90}, training={"rounds": 1, "batch_size": 4})
    told = many.federated.schema.numeric[3]

    def claim(feature):
        near, unit = many.statistic(PARTY, feature, "mean"), 0.01 * many.spread(feature)
        pooled = many.pooled_statistic(feature, "mean")
        scatter = float(np.sqrt(np.mean([(many.statistic(p, feature, "mean") - pooled) ** 2 for p in many.parties])))
        estimate, half = (near + 20 * unit, 40 * unit) if feature == told else (pooled, 1.645 * scatter)
        return StatisticClaim(PARTY, feature, "mean", estimate, estimate - half, estimate + half)

    measured = list(score_statistics([claim(f) for f in many.federated.schema.numeric], many))
    (of_bits,) = (m for m in measured if m.metric == "mean_information")
    assert of_bits.value < Policy().floor
    assert {f.feature for f in of_bits.detail.features if f.value > 0.1} == {told}
    held = (Control("statistics", "leaky", 1.0, 0.0, 1.0, True, "recovered"),)
    setting = Setting("a", "data", "iid", 2, "a", "a", "none", "fedsgd", False)  # P2 has one partner
    trials = tuple(
        Trial("statistics", ("P2",), m.asset, m.metric, m.victim, 0, "scored", m.value, m.baseline, detail=m.detail)
        for m in measured
    )
    records = [CaseRecord(f"a-{s}", setting, s, trials, held) for s in range(80)]
    (found,) = rulings(records, Policy())
    assert found.verdict == "inconclusive"
    assert all(f" of the bits in column {told}, " in why for why in found.missing)

    def as_before(t):
        return replace(t, detail=None) if t.metric.endswith("_information") else t

    (old,) = rulings([replace(r, trials=tuple(map(as_before, r.trials))) for r in records], Policy())
    assert old.missing == ("information on means, by statistics by P2, is on record of all columns together alone",)
