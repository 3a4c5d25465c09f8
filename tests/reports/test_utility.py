from dataclasses import replace

import pytest

from leakledger.audit.records.metrics import TITLES, metric_title
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.reports.utility import COSTS, WIDEST, ends, main_metric, shown, tables
from tests.reports.example import setting, utility

ROWS = [row for i in (1, 2) for row in utility(i, setting(i))]


def named(*metrics):
    return [replace(ROWS[0], metric=m) for m in metrics]


def test_every_metric_of_an_attack_or_a_model_has_one_name_for_readers_that_is_no_code():
    stated = {m for m in PERFECT if not m.endswith("_information")} | {u.metric for u in ROWS}
    quality = {m for m in stated if m not in COSTS}
    assert quality <= TITLES.keys()
    titles = [metric_title(m) for m in {*PERFECT, *TITLES}]
    assert len(set(titles)) == len(titles)
    assert not any("_" in t for t in titles)
    assert metric_title("mean_information") == "information on means"


def test_heads_of_tables_have_the_names_for_readers():
    (table,) = tables(named("majority_f1", "r2"))
    assert table.columns == ["#F1 of the commonest class alone", "#R²"]


def test_f1_stands_for_utility_and_r2_where_there_is_no_f1():
    assert main_metric(named("accuracy", "auroc", "f1")) == "f1"
    assert main_metric(named("mae", "R²", "bytes")) == "R²"
    assert main_metric(named("bytes", "mae")) is None


def test_a_table_has_every_score_at_its_place():
    quality, cost = tables(ROWS)
    assert quality.metrics == ("f1", "auroc")
    assert cost.metrics == ("messages", "bytes", "rounds", "seconds", "input_width")
    for table in (quality, cost):
        for setting_id, cells in zip(table.settings, table.cells, strict=True):
            assert [(c.setting, c.metric) for c in cells] == [(setting_id, m) for m in table.metrics]


def test_what_was_not_measured_is_left_open():
    (table,) = tables([ROWS[0], replace(ROWS[1], setting="elsewhere")])
    assert table.cells == ((ROWS[0], None), (None, replace(ROWS[1], setting="elsewhere")))


def test_many_metrics_are_split_over_tables_that_fit_a_page():
    metrics = [f"m{i}" for i in range(2 * WIDEST + 1)]
    split = tables(named(*metrics))
    assert [m for t in split for m in t.metrics] == metrics
    assert max(len(t.metrics) for t in split) == WIDEST


def test_metrics_are_shown_in_their_units():
    pairs = [("bytes", 68_345_612.0), ("Rounds", 100.0), ("seconds", 21.84), ("f1", 0.8613), ("mae", None)]
    assert [shown(v, m) for m, v in pairs] == ["68.3 MB", "100", "21.8", "0.861", "–"]


@pytest.mark.parametrize(
    ("metric", "low", "high", "said"),
    [
        ("f1", 0.86149, 0.86151, "[0.861, 0.862]"),
        ("bytes", 68_345_612.0, 68_345_612.0, "[68.3 MB, 68.4 MB]"),
        ("bytes", 999_600.0, 1_000_400.0, "[999 kB, 1.01 MB]"),
        ("bytes", 12.3, 0.0, "[12 B, 0 B]"),
        ("rounds", 100.0, 1100.04, "[100, 1,100.1]"),
        ("seconds", 21.87, 21.82, "[21.8, 21.9]"),
        ("seconds", None, 1.0, ""),
    ],
)
def test_intervals_of_metrics_are_rounded_outwards_in_their_units(metric, low, high, said):
    assert ends(low, high, metric) == said
