"""Whole trainings whose updates are aggregated under masks or encryption: the model of plain training, another view."""

import numpy as np
import pytest

from leakledger.defenses import ClientClipping, GaussianNoise, chain
from leakledger.preprocess.messages import (
    CandidateModel,
    ClientGradient,
    ClientWeights,
    EncryptedUpdate,
    EvaluatedModel,
    GlobalModel,
    MaskedUpdate,
)
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.divergence import TrainingDiverged
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import TrainingSpec
from tests.preprocess.registered import aggregations, made
from tests.preprocess.test_training import SPEC, federation

HIDING = [a for a in aggregations() if "plain" not in a.values]
SIZES = (20, 30, 25, 40)


def run(name, algorithm="fedsgd", *, protect=None, **settings):
    fed, _, located = federation(SIZES)
    training = TrainingSpec(algorithm, **{"rounds": 4, "batch_size": 5, "learning_rate": 0.3, **settings})
    trained = train(fed, ALGORITHMS[algorithm], SPEC, training, located, protect, aggregation=made(name))
    return fed, trained, located


def weights(fed, trained):
    return [fed.own(w) for w in trained.model.values()]


@pytest.mark.parametrize("settings", [{}, {"participation": 0.5}, {"patience": 2}], ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", HIDING)
def test_the_model_is_that_of_plain_training(name, algorithm, settings):
    fed, trained, _ = run(name, algorithm, **settings)
    expected = weights(*run("plain", algorithm, **settings)[:2])[0]
    for found in weights(fed, trained):
        for key, w in expected.items():
            np.testing.assert_allclose(found[key], w, atol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("name", "kind"), [("secure-aggregation", MaskedUpdate), ("he-aggregation", EncryptedUpdate)])
def test_the_servers_view_is_changed_no_update_and_under_encryption_no_model_reaches_it(name, kind, algorithm):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    fed, trained, located = run(name, algorithm, patience=2)
    evaluate(fed, SPEC, trained.model, located)
    kinds = [m.kind for m in fed.ledger if "server" in m.ends and not m.sealed]
    assert kinds.count(kind) == trained.rounds * len(SIZES)
    assert not {ClientGradient, ClientWeights} & {*kinds}
    models = [m for m in fed.ledger if m.kind in (GlobalModel, CandidateModel, EvaluatedModel)]
    if name == "he-aggregation":
        assert [(m.kind, m.round) for m in models] == [(GlobalModel, 0)] * len(SIZES)
    assert "train.gradient" in {m.topic for m in run("plain")[0].ledger}


@pytest.mark.parametrize("name", HIDING)
def test_metrics_are_those_of_plain_training(name):
    fed, trained, located = run(name)
    plain, other, rows = run("plain")
    assert fed.own(evaluate(fed, SPEC, trained.model, located)) == pytest.approx(
        plain.own(evaluate(plain, SPEC, other.model, rows)), abs=1e-3
    )


@pytest.mark.parametrize("name", HIDING)
def test_defenses_come_before_the_masks_and_before_encryption(name):
    defense = chain(ClientClipping(0.01), GaussianNoise(0.001))
    fed, trained, _ = run(name, protect=defense.protect)
    plain, other, _ = run("plain", protect=defense.protect)
    for found in weights(fed, trained):
        for key, w in weights(plain, other)[0].items():
            np.testing.assert_allclose(found[key], w, atol=1e-5)
    undefended = weights(*run(name)[:2])[0]
    assert any(not np.allclose(undefended[key], w, atol=1e-2) for key, w in weights(fed, trained)[0].items())


@pytest.mark.parametrize("name", HIDING)
def test_training_that_diverges_is_named_before_anything_is_masked(name):
    with pytest.raises(
        TrainingDiverged, match=r"training diverged: the model of (server|P1) after round 0 is not finite"
    ):
        run(name, learning_rate=3e40)
    nan = {"0.bias": np.array(np.nan, np.float32)}
    with pytest.raises(TrainingDiverged, match="the gradient of P1 in round 0 is not finite"):
        run(name, protect=lambda update, coins: {k: a * nan.get(k, np.float32(1)) for k, a in update.items()})


def test_participants_too_few_for_the_protocol_are_refused_before_the_first_message():
    fed, _, located = federation(SIZES)
    training = TrainingSpec("fedsgd", rounds=1, participation=0.25)
    with pytest.raises(ValueError, match="needs at least 2 clients a round, got 1"):
        train(fed, ALGORITHMS["fedsgd"], SPEC, training, located, aggregation=made("secure-aggregation"))
    assert len(fed.ledger) == 0
