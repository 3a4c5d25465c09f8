from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.clusters import mean_interval
from leakledger.audit.records import (
    AuditRecord,
    Bucket,
    CaseRecord,
    CellDetail,
    Control,
    FeatureShare,
    Setting,
    SurestShare,
    Trial,
    UtilityRow,
    Verdict,
    results,
)
from leakledger.audit.summary import advantage_interval, cell_scores, cut, scores, utility, value_interval
from tests.every import every
from tests.reports.example import run_facts


def setting(name="a", reference=False):
    return Setting(name, "data", "iid", 4, name, name, "none", "fedsgd", reference)


def case(values, seed=0, where=None, baseline=0.5, controls=(), **changes):
    fields = {
        "attack": "tableak",
        "observers": ("server",),
        "asset": "records",
        "metric": "accuracy",
        "round": 0,
        **changes,
    }
    trials = tuple(
        Trial(victim=f"P{i}", status="scored", value=v, baseline=baseline, **fields) for i, v in enumerate(values)
    )
    where = where or setting()
    rows = (UtilityRow("f1", 0.5 + seed / 10),)
    return CaseRecord(f"{where.id}-{seed}", where, seed, trials, tuple(controls), utility=rows)


def test_a_score_is_the_mean_over_clusters_of_all_seeds():
    (score,) = scores([case([0.6, 0.8], 0), case([1.0, 0.8], 1)])
    assert (score.value, score.clusters, score.advantage) == (pytest.approx(0.8), 4, pytest.approx(0.6))
    assert 0 < score.advantage_low < score.advantage  # an unseen cluster is no worse than the prior
    assert (score.high, score.advantage_high) == (1.0, 1.0)  # no share is above 1


def test_a_prior_that_is_already_perfect_leaves_no_advantage():
    (score,) = scores([case([1.0, 1.0], baseline=1.0)])
    assert (score.value, score.advantage, score.status) == (1.0, None, "scored")


def test_attacks_without_claims_keep_a_row_with_their_reason():
    trial = Trial("plaintext", ("P1",), "vocabulary", "", "", 0, "abstained", reason="nothing in the clear")
    (score,) = scores([CaseRecord("a", setting(), 0, (trial,))])
    assert (score.status, score.reason, score.value, score.clusters) == ("abstained", "nothing in the clear", None, 1)


def test_a_failed_control_makes_the_scores_of_that_attack_inconclusive():
    control = Control("tableak", "leaky", 0.4, 0.3, 0.1, False, "recovered")
    records = [case([0.9, 0.9], 0, controls=[control]), case([0.9, 0.9], 1)]
    assert {s.status for s in scores(records)} == {"inconclusive"}


def test_an_attack_without_power_against_planted_rows_keeps_its_scores():
    control = Control("tableak", "power", 0.4, 0.3, 0.1, False, "more than luck")
    assert {s.status for s in scores([case([0.9, 0.9], 0, controls=[control])])} == {"scored"}


def test_a_few_equal_gains_in_bits_have_an_interval_with_a_width():
    """The information gained is at most 1 and has no least value: an unseen cluster may be perfect, or gain nothing."""
    gain, low, high = advantage_interval("size_information", [0.9] * 6, [0.8] * 6, [0, 0, 0, 1, 1, 1])
    assert gain == pytest.approx(0.5)
    assert low < 0.4
    assert high > 0.6


def test_of_a_few_perfect_clusters_the_interval_says_what_an_unseen_one_could_change():
    gain, low, high = advantage_interval("accuracy", [1.0, 1.0, 1.0], [0.2, 0.9, 1.0])
    assert (gain, high) == (1.0, 1.0)
    assert low < 0.6


def within(limits, least, most=1.0):
    return least <= limits[0] <= limits[1] <= most


@every("values", [[-0.4, -0.2], [0.28, 1.0], [-1.0, 1.0], [-0.9, -0.9, -0.9]])
@every("metric", ["correlation", "count_rank"])
def test_intervals_of_correlations_hold_the_mean_and_lie_in_minus_one_to_one(metric, values):
    limits = value_interval(metric, values)
    assert within(limits, -1.0)
    assert limits[0] <= np.mean(values) <= limits[1]
    gain, *of_gain = advantage_interval(metric, values, [0.0] * len(values))
    assert within(of_gain, -1.0)
    assert of_gain[0] <= gain <= of_gain[1]


@every("metric", ["accuracy", "auc", "f1", "count"])
def test_an_advantage_is_no_less_than_that_of_who_has_nothing_right(metric):
    gain, low, high = advantage_interval(metric, [0.1, 0.9], [0.5, 0.5])
    assert (gain, low, high) == (pytest.approx(0.0), pytest.approx(-1.0), 1.0)
    assert advantage_interval(metric, [0.0, 0.0], [0.5, 0.5])[1] == pytest.approx(-1.0)


@every("metric", ["false_verified", "false_exact", "size_coverage"])
def test_shares_that_are_not_best_at_one_lie_in_zero_to_one_too(metric):
    limits = value_interval(metric, [0.1, 0.9])
    assert within(limits, 0.0)
    assert limits[0] <= 0.5 <= limits[1]


def test_errors_and_bits_have_no_bound_but_their_own():
    assert advantage_interval("rmse", [0.1, 2.0], [1.0, 1.0])[1] < -1
    assert value_interval("mean_information", [-3.0, -1.0])[0] < -3
    assert value_interval("rmse", [0.1, 2.0])[0] == 0


def test_with_an_even_prior_the_advantage_interval_is_the_scaled_interval_of_the_value():
    values = [0.6, 0.9, 0.7]
    low, high = mean_interval(values, bounds=(0.0, 1.0))
    expected = (7 / 15, (low - 0.5) / 0.5, min((high - 0.5) / 0.5, 1.0))
    gain, gain_low, gain_high = advantage_interval("accuracy", values, [0.5] * 3)
    assert gain == pytest.approx(expected[0])
    assert gain_low <= expected[1] + 1e-12
    assert gain_high == pytest.approx(expected[2])


def test_the_advantage_interval_covers_as_often_as_it_says_when_the_prior_varies():
    coins = np.random.default_rng(1)
    covered = []
    for _ in range(2000):
        prior = coins.uniform(0.3, 0.5, 8)
        values = prior + 0.4 * (1 - prior) + coins.normal(0, 0.05, 8)
        _, low, high = advantage_interval("accuracy", list(values), list(prior))
        covered.append(low <= 0.4 <= high)
    assert np.mean(covered) >= 0.95


def test_utility_has_an_interval_from_three_seeds_on():
    assert utility([case([0.5], 0), case([0.5], 1)])[0].low is None
    three = utility([case([0.5], seed) for seed in range(3)])[0]
    assert three.value == pytest.approx(0.6)
    assert three.low < 0.6 < three.high


def test_limits_are_cut_to_what_a_metric_can_be():
    assert cut("f1", (-0.2, 1.3)) == (0.0, 1.0)
    assert cut("r2", (-0.2, 1.3)) == (-0.2, 1.0)
    assert cut("rmse", (-0.2, 1.3)) == (0.0, 1.3)
    assert cut("f1", None) == (None, None)


def detail(age=0.5, sex=0.9, cells=(4, 2), correct=(4, 1)):
    """One cluster: two columns, two buckets of categorical cells, and all of them as the surest share."""
    return CellDetail(
        (FeatureShare("age", "numeric", age, 0.4), FeatureShare("sex", "categorical", sex, 0.8)),
        tuple(
            Bucket("categorical", low, low + 0.2, n, c, n / 2)
            for low, n, c in zip((0.0, 0.2), cells, correct, strict=True)
            if n
        ),
        (SurestShare("categorical", 1.0, sum(cells), sum(correct) / sum(cells), 0.5, 0.3),),
    )


def seeded(*details):
    """Each of a seed of its own."""
    return list(enumerate(details))


def test_columns_are_sorted_by_falling_advantage_and_those_without_room_come_last():
    free = CellDetail((FeatureShare("constant", "numeric", 1.0, 1.0),))
    found = cell_scores(seeded(*[CellDetail(detail().features + free.features)] * 3)).features
    assert [(f.feature, f.advantage) for f in found] == [
        ("sex", pytest.approx(0.5)),
        ("age", pytest.approx(1 / 6)),
        ("constant", None),
    ]


def test_a_column_is_scored_over_clusters_like_any_metric():
    found = {f.feature: f for f in cell_scores(seeded(detail(0.5), detail(0.7), detail(0.9))).features}["age"]
    low, high = mean_interval([0.5, 0.7, 0.9], bounds=(0.0, 1.0))
    assert (found.value, found.low, found.high, found.clusters) == pytest.approx((0.7, low, high, 3))
    assert found.advantage == pytest.approx(0.5)


def test_the_accuracy_of_a_bucket_is_that_of_its_cells_and_not_the_mean_over_clusters():
    found = cell_scores(seeded(detail(cells=(10, 1), correct=(9, 0)), detail(cells=(2, 1), correct=(0, 1)), detail()))
    first, second = found.buckets
    assert (first.cells, first.value, first.baseline) == (16, pytest.approx(13 / 16), pytest.approx(0.5))
    assert first.share + second.share == pytest.approx(1)
    assert first.share == pytest.approx(16 / 20)
    assert first.low < first.value < first.high


def test_a_bucket_that_two_clusters_reach_has_no_interval():
    found = cell_scores(seeded(detail(), detail(), detail(cells=(4, 0), correct=(3, 0))))
    assert [(b.clusters, b.low is None) for b in found.buckets] == [(3, False), (2, True)]


def test_a_share_of_surest_cells_is_scored_over_clusters_that_have_one():
    silent = CellDetail(detail().features)  # an attack that states no entropy there
    found = cell_scores(seeded(detail(), detail(correct=(2, 0)), silent))
    (share,) = found.surest
    assert (share.clusters, share.value, share.entropy) == (2, pytest.approx((5 / 6 + 2 / 6) / 2), 0.3)
    assert {f.clusters for f in found.features} == {3}


def test_only_scores_of_trials_with_a_detail_have_one():
    plain, rich = case([0.8, 0.9]), case([0.8, 0.9], metric="exact_rows")
    trials = [*plain.trials, *(replace(t, detail=detail()) for t in rich.trials)]
    rows = scores([replace(plain, trials=tuple(trials))])
    assert [(s.metric, s.detail is None) for s in rows] == [("accuracy", True), ("exact_rows", False)]


def test_results_hold_details_as_flat_rows_that_name_what_they_belong_to():
    rich = case([0.8, 0.9])
    record = replace(rich, trials=tuple(replace(t, detail=detail()) for t in rich.trials))
    rows = scores([record])
    content = results(AuditRecord(run_facts(), (record,), rows, (), Verdict("inconclusive", "", "")))
    assert "detail" not in content["scores"][0]
    counts = {part: len(content[part]) for part in ("features", "entropy_buckets", "surest_cells")}
    assert counts == {"features": 2, "entropy_buckets": 2, "surest_cells": 1}
    for part in counts:
        assert all((row["setting"], row["attack"]) == ("a", "tableak") for row in content[part])
        assert not any(isinstance(v, dict | list) for row in content[part] for v in row.values())
