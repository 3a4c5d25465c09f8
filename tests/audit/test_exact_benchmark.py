from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.exact import after, measure, with_network
from leakledger.audit.benchmarks.tableak import settings


def test_a_trained_network_is_attacked_in_the_round_after_its_training():
    config = after(settings(Options(), "breast_cancer", "published", "known", 4, 1), 3)
    assert [t.rounds for t in config.training] == [4]
    assert config.attacks.rounds == [3]


def test_rows_of_trained_networks_say_so_and_count_every_client():
    rows = {r.metric: r for r in measure(Options(jobs=1), "breast_cancer", "span", 2, 1, trained=2)}
    assert all(r.setting["rounds trained"] == 2 for r in rows.values())
    assert rows["identical_rows"].n == 4
    assert rows["accuracy"].published is None
    assert "rounds trained" not in next(measure(Options(jobs=1), "breast_cancer", "span", 2, 1)).setting


def test_rows_of_another_network_say_in_what_it_differs():
    rows = list(measure(Options(jobs=1), "breast_cancer", "span", 2, 1, norm="layer", activation="relu"))
    assert all(r.setting["norm"] == "layer" and "activation" not in r.setting for r in rows)
    assert "norm" not in next(measure(Options(jobs=1), "breast_cancer", "span", 2, 1, norm="none")).setting
    config = with_network(settings(Options(), "breast_cancer", "published", "known", 4, 1), "", norm="batch")
    assert config.model.norm == "batch"
    assert config.preprocessing[0].scaler == "federated-zscore"
