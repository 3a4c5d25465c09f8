"""Intervals say nine of ten: measured over simulated federations whose parties differ as the prior says they may, in
shape too, are alike, or are further apart. Where all columns are normal, quartiles hold more often than they say.
"""

from collections import defaultdict

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from tests.attacks.statistics_example import real, view_of

FEATURES = 3
SKEW = 0.65  # of a party's column: the standard deviation of g in Tukey's g distribution


def different_parties(rng, parties):
    """Row counts vary by a factor, means by half a deviation, deviations by a third, with heavy tails; each column of
    each party has a skew of its own.
    """
    mean, scale = rng.normal(0, 3, FEATURES), np.exp(rng.normal(0, 1, FEATURES))
    found = []
    for _ in range(parties):
        rows = int(np.clip(40 * np.exp(rng.normal(0, 0.8)), 5, 400))
        own = scale * (mean + 0.5 * rng.standard_t(3, FEATURES))
        spread = scale * np.exp(0.35 * np.clip(rng.standard_t(3, FEATURES), -4, 4))
        found.append(own + spread * skewed(rng, rows))
    return found


def skewed(rng, rows):
    """(rows, FEATURES) exp(g z) of normal z, at mean 0 and deviation 1, with a g of its own for each column."""
    g = rng.normal(0, SKEW, FEATURES)
    x = np.exp(g * rng.standard_normal((rows, FEATURES)))
    return np.sign(g) * (x - np.exp(g**2 / 2)) / np.sqrt(np.exp(g**2) * np.expm1(g**2))


def alike_parties(rng, parties):
    mean, scale = rng.normal(0, 3, FEATURES), np.exp(rng.normal(0, 1, FEATURES))
    return [rng.normal(scale * mean, scale, (40, FEATURES)) for _ in range(parties)]


def distant_parties(rng, parties):
    """Row counts by a factor of e, means by one and a half deviations, deviations by a half."""
    mean, scale = rng.normal(0, 3, FEATURES), np.exp(rng.normal(0, 1, FEATURES))
    found = []
    for _ in range(parties):
        rows = int(np.clip(40 * np.exp(rng.normal()), 5, 800))
        own = scale * (mean + 1.5 * rng.standard_normal(FEATURES))
        found.append(rng.normal(own, scale * np.exp(0.5 * rng.standard_normal(FEATURES)), (rows, FEATURES)))
    return found


def coverage(draw, parties, observers, federations, **options):
    held = defaultdict(list)
    for seed in range(federations):
        parts = draw(np.random.default_rng((seed, parties, observers)), parties)
        who = [f"P{i + 1}" for i in range(observers)]
        view = view_of(parts, who, ZScoreSac(route="direct", **options), seed=seed)
        for c in Statistics(seed=seed).run(view, AuxiliaryKnowledge()):
            held[c.statistic].append(c.low <= real(parts, c) <= c.high)
    return {statistic: float(np.mean(h)) for statistic, h in held.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("parties", "observers", "options"), [(4, 1, {}), (4, 2, {}), (4, 1, {"passes": 1})])
def test_over_500_federations_of_different_parties_85_to_95_percent_of_intervals_hold(parties, observers, options):
    for statistic, share in coverage(different_parties, parties, observers, 500, **options).items():
        assert 0.85 <= share <= 0.95, f"{statistic}: {share:.3f}"


@pytest.mark.slow
def test_where_parties_are_alike_intervals_hold_more_often_than_they_say():
    for statistic, share in coverage(alike_parties, 4, 1, 200).items():
        assert share >= 0.88, f"{statistic}: {share:.3f}"


@pytest.mark.slow
@pytest.mark.parametrize(("parties", "observers"), [(4, 1), (10, 1), (10, 3)])
def test_where_parties_are_further_apart_than_expected_four_of_five_intervals_still_hold(parties, observers):
    for statistic, share in coverage(distant_parties, parties, observers, 100).items():
        assert share >= 0.8, f"{statistic}: {share:.3f}"
