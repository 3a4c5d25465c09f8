import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, StatisticClaim
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.quartiles import quartiles
from leakledger.preprocess.scalers.federated_minmax import FederatedMinMax
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from tests.attacks.statistics_example import view_of

SKEWED = np.random.default_rng(0).exponential(1.0, 4000)


def table(column):
    return {"P1": OwnTable(len(column), {"f0": np.asarray(column, float)}, {})}


def told(mean, std, rows=400.0, **extremes):
    """Exact claims about P2."""
    figures = {"mean": mean, "std": std, **extremes}
    return [
        StatisticClaim("P2", "", "count", rows, rows, rows),
        *(StatisticClaim("P2", "f0", s, x, x, x) for s, x in figures.items()),
    ]


def by_level(claims, tables, level=0.9):
    return {c.value: c for c in quartiles(claims, tables, level)}


def skewed(rng, rows, scale):
    return rng.exponential(scale, (rows, 2)) + scale


def test_quartiles_of_a_party_with_the_same_skewed_shape_follow_from_its_mean_and_deviation():
    found = by_level(told(7.0, 2.0), table(SKEWED))
    for name, level in (("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75)):
        assert found[name].estimate == pytest.approx(7 + 2 * (-np.log(1 - level) - 1), abs=0.06)
        assert found[name].low < found[name].estimate < found[name].high


def test_intervals_widen_with_the_level_and_with_the_distance_of_the_partys_moments_from_the_own_ones():
    def width(level, mean):
        c = by_level(told(mean, 1.0), table(SKEWED), level)["0.5"]
        return c.high - c.low

    assert width(0.5, 1.0) < width(0.9, 1.0) < width(0.9, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_end_is_beyond_what_a_mean_and_a_deviation_allow_or_beyond_known_extremes(seed):
    own = np.random.default_rng(seed).standard_cauchy(30)
    for c in quartiles(told(0.0, 1.0, minimum=-0.9, maximum=0.4), table(own), 0.9):
        reach = np.sqrt((1 - float(c.value)) / float(c.value)), np.sqrt(float(c.value) / (1 - float(c.value)))
        assert max(-reach[0], -0.9) - 1e-12 <= c.low <= c.estimate <= c.high <= min(reach[1], 0.4) + 1e-12


@pytest.mark.parametrize("missing", ["count", "mean", "std"])
def test_without_rows_of_its_own_or_all_three_moments_there_is_no_claim(missing):
    assert by_level(told(1.0, 1.0), {}) == {}
    assert by_level([c for c in told(1.0, 1.0) if c.statistic != missing], table(SKEWED)) == {}


def test_the_relay_has_no_shape_and_extremes_alone_are_no_quartile():
    parts = [np.random.default_rng(i).normal(0, 1, (20, 2)) for i in range(3)]
    for view in (view_of(parts, ["server"]), view_of(parts[:2], ["P1"], FederatedMinMax())):
        outcome = Statistics().run(view, AuxiliaryKnowledge())
        assert not [c for c in outcome if c.statistic == "quantile"]


def test_all_parties_but_one_know_the_last_ones_quartiles_within_intervals_that_mostly_hold():
    held = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        parts = [skewed(rng, rows, scale) for rows, scale in ((80, 1.0), (60, 1.2), (90, 1.1))]
        claims = Statistics().run(view_of(parts, ["P1", "P2"], ZScoreSac(route="direct")), AuxiliaryKnowledge())
        of = [c for c in claims if c.statistic == "quantile"]
        assert {c.party for c in of} == {"P3"}
        held += [c.low <= np.quantile(parts[2][:, int(c.feature[1:])], float(c.value)) <= c.high for c in of]
    assert len(held) == 48
    assert np.mean(held) >= 0.85
