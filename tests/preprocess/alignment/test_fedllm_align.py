import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.fedllm_data import divided
from leakledger.preprocess.alignment.fedllm_align import Alignment, run
from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import TrainingSpec


@pytest.fixture(scope="module")
def outcome():
    parties = divided(Options(), "fair", 3, 0.6, 0)
    fed = Simulated(list(parties.schemas), secret=pinned("align"))
    few = {c: t.rows(np.arange(20 + 4 * i)) for i, (c, t) in enumerate(parties.train.items())}
    training = TrainingSpec("fedavg", rounds=2, learning_rate=1e-3, batch_size=8, local_epochs=2, optimizer="adam")
    with fed.running():
        own = {c: fed.at(c, t) for c, t in few.items()}
        aligned = run(fed, Alignment("random", training=training), parties.schemas, own, own)
    return fed, aligned, few


def test_the_head_of_the_paper_has_12321_numbers():
    spec = Alignment().head(768)
    shapes = [(out * inputs + out) for out, inputs in ((16, 768), (1, 16))]
    assert (spec.outputs, spec.hidden, spec.dropout, sum(shapes)) == (1, (16,), 0.2, 12_321)


def test_only_models_and_counts_travel_and_the_mean_counts_every_client_alike(outcome):
    fed, _, _ = outcome
    assert {m.topic for m in fed.ledger} == {"train.model", "train.weights", "evaluate.model", "evaluate.counts"}
    sent = [m.payload for m in fed.ledger if m.kind is ClientWeights and m.round == 0]
    later = next(m.payload for m in fed.ledger if m.kind is GlobalModel and m.round == 1)
    assert len({p.rows for p in sent}) == 3
    for name, mean in later.weights.items():
        np.testing.assert_allclose(mean, np.mean([p.weights[name] for p in sent], axis=0), atol=1e-6)


def test_who_takes_no_part_in_a_round_is_told_its_model_too():
    parties = divided(Options(), "fair", 3, 0.6, 0)
    fed = Simulated(list(parties.schemas), secret=pinned("align"))
    training = TrainingSpec("fedavg", rounds=4, learning_rate=1e-3, participation=0.34)
    with fed.running():
        own = {c: fed.at(c, t.rows(np.arange(20))) for c, t in parties.train.items()}
        run(fed, Alignment("random", training=training), parties.schemas, own, own)
    for number in range(4):
        assert sum(m.kind is ClientWeights for m in fed.ledger if m.round == number) == 1
        assert {m.recipient for m in fed.ledger if m.kind is GlobalModel and m.round == number} == set(fed.clients)


def test_embeddings_are_one_row_for_each_of_a_partys_own(outcome):
    fed, aligned, few = outcome
    for c, table in few.items():
        embedded = fed.own(aligned.train[c])
        assert embedded.encoded.rows.shape == (len(table), 128)
        assert embedded.truncated == 0
        assert torch.isfinite(torch.from_numpy(embedded.encoded.rows)).all()


def test_the_metrics_are_of_two_classes(outcome):
    fed, aligned, _ = outcome
    assert {"f1", "accuracy", "auroc"} <= set(fed.own(aligned.metrics))
