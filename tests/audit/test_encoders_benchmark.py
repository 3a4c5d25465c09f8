import numpy as np
import pytest

from leakledger.audit.benchmarks import encoders, encoders_cost, growth
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.case import cases
from leakledger.audit.federate import whole_table


def test_the_cost_of_an_encoder_is_counted_in_the_ledger_beside_the_published_formula():
    tables = growth.made_up(4, 6, 2)
    rows = {r.metric: r for r in encoders_cost.measure("encoders", "made up", "uhe", tables, {"parties": 4}, 264.0)}
    assert (rows["messages"].measured, rows["messages"].published) == (8, 7)
    fed, _ = encoders_cost.encode("uhe", tables)
    assert rows["bytes"].measured == sum(m.size for m in fed.ledger) / 1000
    assert rows["time"].published == 264.0


def test_the_papers_message_counts_for_four_parties_are_those_of_its_table():
    assert {e: count(4) for e, count in encoders_cost.MESSAGES.items()} == {
        "apsi": 55,
        "otmp-psi": 31,
        "uhe": 7,
        "bytes-norm": 24,
        "mod-norm": 48,
        "fasttext": 0,
        "rolling-hash": 0,
        "target": 0,
    }


def test_orderings_are_judged_on_what_was_measured_and_on_what_was_printed():
    times = {e: float(values[0]) for e, values in encoders_cost.MILLISECONDS.items()}
    rows = {r.metric: r for r in encoders_cost.orderings("made up", {4: times, 8: {**times, "apsi": 1.0}})}
    assert rows["ordering: apsi is faster than otmp-psi"].measured == 1
    assert rows["ordering: otmp-psi is faster than apsi"].measured == 0
    assert rows["ordering: otmp-psi is faster than apsi"].published == 1
    assert rows["ordering: intersections are slowest"].measured == 0


def test_the_claims_about_f1_that_the_paper_prints_figures_for_are_judged_by_them():
    held = {
        d: {c for c, holds in encoders.CLAIMS.items() if holds(dict(zip(encoders.METHODS, f1, strict=True)))}
        for d, f1 in encoders.F1.items()
    }
    always = set.intersection(*held.values())
    assert {"server-based is best of table 1", "psi equals server-based", "psi is best of table 3"} <= always
    assert "bytes-norm is worst" not in held["lawschool"]
    assert "fasttext, rolling-hash and target beat uhe and mod-norm" not in held["german"]


def test_f1_of_the_other_class_is_read_from_the_sum_of_confusion_matrices():
    one, two = np.array([[3, 1], [0, 2]]), np.array([[1, 0], [2, 4]])
    assert encoders.other_f1([one, two]) == pytest.approx(2 * 4 / (5 + 6))


def test_an_interval_of_shares_ends_at_0_and_1():
    row = figure("encoders", "made up", {}, "f1", [0.02, 0.99], None, "")
    assert row.high > 1
    assert (encoders.share(row).low, encoders.share(row).high) == (0, 1)
    one_seed = figure("encoders", "made up", {}, "f1", [0.9], None, "")
    assert encoders.share(one_seed) == one_seed


def test_a_table_without_two_classes_is_refused(tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("colour,kind\n" + "red,a\ngreen,b\nblue,c\n" * 5)
    (tmp_path / "three.schema.toml").write_text('target = "kind"\ncategorical = ["colour"]\n')
    with pytest.raises(ValueError, match=r"three.csv: this benchmark measures F1 of two classes, .* multiclass"):
        encoders.settings(Options(), str(path), {"encoder": "local"}, 1)


@pytest.mark.slow
def test_the_quality_of_a_method_is_measured_for_every_seed():
    config = encoders.settings(Options(quick=True), "fair", encoders.METHODS["target"], 2)
    found = [encoders.train_one(config, case) for case in cases(config)]
    assert len(found) == 2
    assert all(0.5 < f.metrics["auroc"] < 1 and 0 < f.metrics["f1, other class"] < 1 for f in found)
    assert len({f.metrics["auroc"] for f in found}) == 2
    schema = whole_table(config).schema
    assert {f.width for f in found} == {len(schema.numeric) + len(schema.categorical)}
