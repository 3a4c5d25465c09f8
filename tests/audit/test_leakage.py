from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from leakledger.audit.leakage import adversary, best, leakage_table, widened
from leakledger.audit.records import ASSETS, HELD_OUT, CaseRecord, Leakage, Setting, Trial, results
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.summary import scores
from tests.reports.example import empty

ROW = Leakage("a", "one client", "vocabulary", 4, None)


def case(trials, seed=0, name="a"):
    where = Setting(
        name, "data", "iid", 4, "uhe", "local", "none", "fedsgd", False, "sizes (table 5)", "nothing (ours)"
    )
    return CaseRecord(f"{name}-{seed}", where, seed, tuple(trials))


def trials(observers, values, asset="vocabulary", metric="f1", attack="vocabulary"):
    """One trial per victim, the prior being right by half."""
    return [Trial(attack, observers, asset, metric, f"V{i}", 0, "scored", v, 0.5) for i, v in enumerate(values)]


def table(records):
    return {(f.adversary, f.asset): f for f in leakage_table(records, scores(records))}


@pytest.mark.parametrize(
    ("observers", "kind"),
    [
        (("server",), "server"),
        (("P1",), "one client"),
        (("P1", "P2"), "2 clients"),
        (("P1", "server"), "server and one client"),
        (("P1", "P2", "P3", "server"), "server and 3 clients"),
    ],
)
def test_an_adversary_is_named_by_how_many_clients_are_in_it_and_whether_the_server_is(observers, kind):
    assert adversary(observers) == kind


def test_of_a_kind_the_one_with_the_highest_lower_bound_counts_not_the_highest_mean():
    steady, lucky = trials(("P1",), [0.8, 0.8, 0.8]), trials(("P2",), [1.0, 1.0, 0.5])
    records = [case(steady + lucky, seed) for seed in range(12)]
    (row,) = leakage_table(records, scores(records))
    assert row.score.observers == ("P2",)  # each seed has the same mean, so nothing scatters
    records = [case(steady + trials(("P2",), [1.0 - seed % 2 / 2] * 3), seed) for seed in range(12)]
    (row,) = leakage_table(records, scores(records))
    assert row.score.observers == ("P1",)
    assert row.score.advantage == pytest.approx(0.6)
    assert (row.among, row.score.clusters, row.possible) == (2, 36, 36)


def test_a_score_whose_controls_held_goes_before_one_whose_did_not():
    (one,) = scores([case(trials(("P1",), [0.6, 0.7]))])
    doubtful = replace(one, observers=("P2",), status="inconclusive", advantage=0.9, advantage_low=0.9)
    assert best([doubtful, one], ROW).score == one
    assert best([doubtful], ROW).score == doubtful


def test_what_is_shown_to_be_learnt_goes_before_the_luck_of_a_single_cluster():
    shown, lucky = trials(("P1",), [0.8, 0.8, 0.9]), trials(("P2",), [1.0])
    records = [case(shown + lucky), *(case(shown, seed) for seed in range(1, 12))]
    (row,) = leakage_table(records, scores(records))
    assert row.score.observers == ("P1",)
    assert row.low > 0
    unsure = trials(("P1",), [0.5, 0.5, 0.9])
    (row,) = leakage_table([case(unsure + lucky)], scores([case(unsure + lucky)]))
    assert (row.score.observers, row.low) == (("P2",), None)


def test_quartiles_have_a_row_as_every_other_statistic_has():
    rows = table([case(trials(("P1",), [0.6, 0.7], "statistics", "quantile", "statistics"))])
    assert rows["one client", "quantile"].score.advantage == pytest.approx(0.3)


def test_the_interval_of_the_best_of_several_is_as_much_wider_as_that_of_a_known_quantile():
    (one,) = scores([case(trials(("P1",), [0.6, 0.7, 0.9]))])
    wider = stats.t.ppf(1 - 0.05 / 2 / 10, 2) / stats.t.ppf(1 - 0.05 / 2, 2)
    low = one.advantage - (one.advantage - one.advantage_low) * wider
    assert widened(one, 10) == pytest.approx((low, 1.0))
    assert widened(one, 1) == pytest.approx((one.advantage_low, one.advantage_high))


def test_the_best_of_ten_that_know_nothing_is_seldom_found_to_know_something():
    coins, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        of_all = [t for i in range(10) for t in trials((f"P{i}",), coins.normal(0.5, 0.1, 6))]
        (row,) = leakage_table([case(of_all)], scores([case(of_all)]))
        wrong += row.low > 0
    assert wrong / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_every_kind_that_was_played_has_a_row_for_every_asset_with_a_claim_by_anyone():
    silent = [Trial("vocabulary", ("P1", "P2"), "vocabulary", "", "", 0, "abstained", reason="nothing")]
    rows = table([case([*trials(("server",), [1.0] * 4), *trials(("P1",), [0.5], "sizes", "size"), *silent])])
    assert {key: f.score is None for key, f in rows.items()} == {
        ("server", "vocabulary"): False,
        ("server", "size"): True,
        ("one client", "vocabulary"): True,
        ("one client", "size"): False,
        ("2 clients", "vocabulary"): True,
        ("2 clients", "size"): True,
    }


def test_metrics_that_decide_nothing_are_left_out():
    rows = table([case([*trials(("P1",), [0.5], "sizes", "size_error"), *trials(("P1",), [0.5], metric="recall")])])
    assert rows == {}


def test_the_clusters_that_there_are_are_the_other_clients_times_seeds_and_attacked_rounds():
    records = [
        case(
            [*trials(("P1",), [0.9]), *trials(("server",), [0.9], "records", "accuracy", "portfolio")],
            seed,
        )
        for seed in (0, 1)
    ]
    rows = table(records)
    assert rows["one client", "vocabulary"].possible == 6
    assert rows["server", "records"].possible == 8


def test_every_metric_that_decides_is_an_asset_of_the_table():
    statistics = {"count", "mean", "std", "minimum", "maximum", "quantile", "frequency", "target_rate", "size"}
    assert {*statistics, *HELD_OUT} <= set(PERFECT)
    assert set(ASSETS) == statistics | {*HELD_OUT} | {"records", "columns", "vocabulary", "membership"}


def test_results_hold_the_account_of_each_setting_and_what_was_found_as_plain_rows():
    records = [case(trials(("P1",), [0.6, 0.7]))]
    rows = leakage_table(records, scores(records))
    plain = results(replace(empty(), cases=tuple(records), leakage=(*rows, replace(ROW, asset="size"))))
    assert plain["settings"][0]["encoder_said"] == "sizes (table 5)"
    assert plain["settings"][0]["scaler_said"] == "nothing (ours)"
    first, second = plain["leakage"]
    assert first["advantage"] == rows[0].score.advantage
    assert (first["low"], first["attack"], first["status"]) == (rows[0].low, "vocabulary", "scored")
    assert (second["advantage"], second["attack"], second["status"]) == (None, None, "no claim")
