"""A party with one row has one number: its deviation is 0, and every place of its distribution is that number."""

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, StatisticClaim
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.attacks.transcript.statistics.single_row import single_row_claims
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.statistics_example import real, view_of

PARTS = [np.random.default_rng(n).normal(3, 2, (n, 2)) for n in (20, 1, 15)]


ALL_BUT_ONE = ["P1", "P3"]


def of_the_row(observers, scaler):
    """What is claimed of the party with one row."""
    found = Statistics().run(view_of(PARTS, observers, SCALERS[scaler]()), AuxiliaryKnowledge())
    return [c for c in found if isinstance(c, StatisticClaim) and c.party == "P2"]


@pytest.mark.parametrize(
    ("scaler", "observers"),
    [
        *((scaler, ["server"]) for scaler in ("federated-zscore", "federated-yeo-johnson", "federated-robust")),
        *((scaler, ALL_BUT_ONE) for scaler in ("zscore-sac", "federated-yeo-johnson")),
    ],
)
def test_the_deviation_of_one_row_is_claimed_as_0_and_its_quartiles_and_extremes_as_its_mean(scaler, observers):
    claims = of_the_row(observers, scaler)
    assert [(c.low, c.estimate, c.high) for c in claims if c.statistic == "std"] == [(0.0, 0.0, 0.0)] * 2
    for feature in ("f0", "f1"):
        places = [c for c in claims if c.feature == feature and c.statistic != "std"]
        assert len(places) == 6
        assert len({(c.low, c.estimate, c.high) for c in places}) == 1
        assert all(c.low - 1e-9 <= real(PARTS, c) <= c.high + 1e-9 for c in places)


def test_no_deviation_is_claimed_to_be_below_0_where_one_row_is_likely_and_not_known():
    claims = of_the_row(ALL_BUT_ONE, "federated-zscore")
    assert [c.low for c in claims if c.statistic == "std"] == [0.0, 0.0]
    assert [c.high for c in claims if c.statistic == "count"] == [2.0]


def told(statistic, low, high, value="", feature="age", evidence=()):
    return StatisticClaim("P2", feature, statistic, (low + high) / 2, low, high, evidence, value)


def test_the_narrowest_claim_about_a_place_is_that_about_all():
    known = [
        told("count", 1.0, 1.0, feature="", evidence=(3,)),
        told("mean", 2.0, 6.0, evidence=(4,)),
        told("quantile", 4.0, 5.0, "0.5", evidence=(1,)),
        told("frequency", 1.0, 1.0, "a", feature="ward"),
    ]
    places = [c for c in single_row_claims(known, known[:1]) if c.statistic != "std"]
    assert {(c.low, c.high, c.feature, c.evidence) for c in places} == {(4.0, 5.0, "age", (1, 3))}
    assert list(single_row_claims(known, [told("count", 1.0, 2.0, feature="")])) == []


def test_a_number_of_rows_that_is_likely_alone_makes_no_deviation_certain():
    assert list(single_row_claims([told("count", 1.0, 1.0, feature=""), told("mean", 2.0, 6.0)], [])) == []
