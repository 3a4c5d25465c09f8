"""Judges: what they compute, how they learn, and how they are kept."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.features import judge_cache, judge_training
from leakledger.preprocess.features.judge_cache import content_hash, load, trained_judges
from leakledger.preprocess.features.judge_corpus import CorpusTable, corpus, generated
from leakledger.preprocess.features.judge_training import JudgeTraining, balanced, fit, labelled, train_judges
from leakledger.preprocess.features.judges import Perceptron, judge_inputs, usefulness
from leakledger.preprocess.features.model_evaluation import f1, improvement
from leakledger.preprocess.features.transformations import TRANSFORMATIONS

SHORT = JudgeTraining(bins=8, samples=4, crops=1, folds=2, records=60, epochs=2, hidden=4)


@given(seed=st.integers(0, 99))
def test_a_judge_computes_what_torch_does(seed):
    coins = np.random.default_rng(seed)
    w1, b1, w2, b2 = (coins.normal(size=s).astype(np.float32) for s in ((5, 6), (5,), (2, 5), (2,)))
    rows = coins.normal(size=(3, 6)).astype(np.float32)
    logits = torch.relu(torch.from_numpy(rows) @ torch.from_numpy(w1).T + torch.from_numpy(b1))
    expected = torch.softmax(logits @ torch.from_numpy(w2).T + torch.from_numpy(b2), 1)[:, 0]
    assert np.allclose(Perceptron(w1, b1, w2, b2).useful(rows), expected.numpy(), atol=1e-5)


def test_the_greatest_score_of_all_one_vs_rest_problems_counts():
    judge = Perceptron(np.eye(4, dtype=np.float32), np.zeros(4), np.array([[1.0, 0, 0, 0], [0] * 4]), np.zeros(2))
    sketch = np.zeros((3, 2, 2), np.float32)
    sketch[1, 0, 0] = 9
    assert usefulness({"log": judge}, "log", sketch) == pytest.approx(1 / (1 + np.exp(-9)))
    with pytest.raises(ValueError, match="no judge was trained for sum"):
        usefulness({"log": judge}, "sum", sketch)
    with pytest.raises(ValueError, match="takes 4 numbers, not 8"):
        usefulness({"log": judge}, "log", sketch, sketch)


def test_two_sketches_stand_one_after_the_other():
    one, other = np.zeros((1, 2, 2), np.float32), np.ones((1, 2, 2), np.float32)
    assert judge_inputs(one, other).tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]


def test_a_product_that_decides_the_label_is_an_improvement_and_a_useless_one_is_not():
    coins = np.random.default_rng(0)
    columns = coins.normal(size=(300, 2))
    decided = (columns[:, 0] * columns[:, 1] > 0).astype(np.int64)
    assert improvement("product", columns, decided, "logistic-regression", 5, 0) > 0.2
    assert improvement("product", columns, (columns[:, 0] > 0).astype(np.int64), "logistic-regression", 5, 0) < 0.02


def test_isotonic_regression_does_not_carry_labels_into_the_test_part():
    coins = np.random.default_rng(0)
    noise, labels = coins.normal(size=(400, 1)), coins.integers(0, 2, 400)
    assert abs(f1(noise, labels, "random-forest", 5, 0, (("isotonic", (0,)),)) - 0.5) < 0.1


def test_a_perceptron_learns_to_tell_sketches_apart():
    coins = np.random.default_rng(0)
    rows = coins.normal(size=(400, 16)).astype(np.float32)
    useful = rows[:, 0] > 0
    told = fit(rows[:300], useful[:300], JudgeTraining()).useful(rows[300:])
    assert ((told > 0.5) == useful[300:]).mean() > 0.85


def test_smote_evens_out_the_classes_with_rows_between_those_that_are_there():
    coins = np.random.default_rng(0)
    rows, useful = coins.normal(size=(50, 3)).astype(np.float32), np.arange(50) < 8
    more, flags = balanced(rows, useful, coins)
    assert flags.sum() == (~flags).sum() == 42
    assert np.array_equal(more[:50], rows)
    assert (more[50:] >= rows[:8].min(0) - 1e-6).all()
    assert (more[50:] <= rows[:8].max(0) + 1e-6).all()


def test_every_sample_has_its_crops_and_they_share_its_label():
    rows, useful = labelled("square", SHORT, generated(), np.random.default_rng(0))
    assert rows.shape == (SHORT.samples * 2, 2 * SHORT.bins)
    assert np.array_equal(useful[::2], useful[1::2])


def test_a_transformation_that_no_table_allows_is_an_error():
    zeros = CorpusTable("zeros", np.zeros((40, 2)), np.resize([0, 1], 40))
    with pytest.raises(ValueError, match="log is defined for no feature of the corpus"):
        labelled("log", SHORT, [zeros], np.random.default_rng(0))


@pytest.mark.slow
def test_judges_are_kept_by_their_content_and_read_without_training(tmp_path, monkeypatch):
    tables, steps = generated()[:14], []
    first = trained_judges(SHORT, tables, tmp_path, lambda done, total: steps.append((done, total)))
    assert first.keys() == set(TRANSFORMATIONS)
    assert steps[-1] == (14, 14)
    monkeypatch.setattr(judge_cache, "train_judges", lambda *_: pytest.fail("trained again"))
    again = trained_judges(SHORT, tables, tmp_path)
    assert all(np.array_equal(first[t].w1, again[t].w1) for t in TRANSFORMATIONS)
    other = CorpusTable(tables[0].name, tables[0].columns + 1e-9, tables[0].labels)
    assert content_hash(SHORT, [other, *tables[1:]]) != content_hash(SHORT, tables)


def test_the_same_settings_give_the_same_judge(monkeypatch):
    monkeypatch.setattr(judge_training, "TRANSFORMATIONS", ("square",))
    one, other = (train_judges(SHORT, generated()[:4])[0]["square"] for _ in range(2))
    assert np.array_equal(one.w1, other.w1)


class Trap:
    """Unpickling it would raise."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_a_file_that_holds_no_judges_is_refused_and_nothing_in_it_is_run(tmp_path):
    path = tmp_path / "judges.npz"
    np.savez(path, **{"log/w1": np.array([Trap()], object)})
    with pytest.raises(ValueError, match=r"holds no judges .*; remove it"):
        load(path)
    path.write_bytes(b"no file of arrays")
    with pytest.raises(ValueError, match="holds no judges"):
        load(path)


def test_the_corpus_leaves_out_what_it_is_told_to_and_reads_a_folder(tmp_path):
    names = {t.name for t in corpus(without=("breast_cancer_wisconsin",))}
    assert "breast_cancer" not in names
    assert {"fair", "wine"} <= names
    with pytest.raises(ValueError, match="holds no table"):
        corpus(tmp_path)
    lines = [f"{i},{i * i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,ill", *lines]))
    (tmp_path / "own.schema.json").write_text('{"target": "ill", "numeric": ["a", "b"]}')
    (table,) = corpus(tmp_path)
    assert (table.name, table.columns.shape) == ("own", (40, 2))
