import numpy as np
import pytest

from leakledger.audit.benchmarks import flfe
from leakledger.audit.benchmarks.base import Options
from leakledger.preprocess.features.judge_corpus import generated
from leakledger.preprocess.features.judge_training import JudgeTraining
from leakledger.preprocess.features.judges import Perceptron
from leakledger.preprocess.features.transformations import BINARY, TRANSFORMATIONS

SHORT = JudgeTraining(bins=8, folds=2)


def judges(score):
    """Judges that give every transformation one score, above or below every threshold."""
    bias = np.array([score, -score], np.float32)
    return {
        t: Perceptron(*(np.zeros(s, np.float32) for s in ((1, 8 * (4 if t in BINARY else 2)), (1,), (2, 1))), bias)
        for t in TRANSFORMATIONS
    }


def test_the_columns_that_a_coalition_knows_are_counted_over_all_that_it_does_not_hold():
    one = flfe.exchanged(generated()[0], {"transformations": ("sum", "difference")}, 0)
    assert one.known(["server"]) == pytest.approx((1, 1))
    assert one.known(["server", "P3"]) == pytest.approx((1, 1))
    assert one.known(["P1", "P3"])[1] == 0
    only_zscores = flfe.exchanged(generated()[0], {"transformations": ("zscore",), "unary": "device"}, 0)
    assert only_zscores.known(["server"]) == (0, 0)


def test_a_sketch_of_two_classes_and_two_hundred_bins_takes_what_the_paper_says():
    one = flfe.exchanged(generated()[0], {"transformations": BINARY, "bins": 200}, 0)
    rows = {r.metric: r for r in flfe.bytes_of("generated", one)}
    assert rows["sketch"].measured == rows["sketch"].published == 1600
    assert rows["loop, judge"].measured > 3 * 1600  # one to the second device, two to the server


def test_methods_choose_by_what_they_are_told():
    columns, labels = generated()[0].columns[:80], generated()[0].labels[:80]
    everything, _ = flfe.chosen("FLFE", columns, labels, judges(5), SHORT, 0)
    assert {how for how, _ in everything} == set(TRANSFORMATIONS)
    assert flfe.chosen("FLFE", columns, labels, judges(-5), SHORT, 0)[0] == []
    single, _ = flfe.chosen("separated", columns, labels, judges(5), SHORT, 0)
    assert {len(of) for _, of in single} == {1}


def test_pairs_are_of_columns_of_different_devices():
    pairs = {of for _, of in flfe.candidates(6) if len(of) == 2}
    assert len(pairs) == 12
    assert all(a % 3 != b % 3 for a, b in pairs)


def test_the_halves_share_no_record_and_divide_every_class_evenly():
    table = generated()[0]
    (one, labels), (other, others) = flfe.halves(table, 0)
    assert abs(labels.sum() - others.sum()) <= 1
    assert not {r.tobytes() for r in one} & {r.tobytes() for r in other}


@pytest.mark.slow
def test_every_method_has_its_figures_beside_the_f1_without_features(monkeypatch):
    monkeypatch.setattr(flfe, "trained_judges", lambda *_: judges(-5))
    monkeypatch.setattr(flfe, "training", lambda _: SHORT)
    monkeypatch.setattr(flfe, "RECORDS", 60)
    rows = list(flfe.judged(Options(quick=True), "generated", generated()[1]))
    by = {(r.setting["method"], r.metric): r.measured for r in rows}
    assert by[("FLFE", "features added")] == 0
    for base in flfe.BASES:
        assert by[("FLFE", f"F1, {base}")] == by[("none", f"F1, {base}")]
        assert by[("FLFE", f"improved or kept, {base}")] == 100
    assert {m for m, _ in by} == {"none", *flfe.METHODS}
