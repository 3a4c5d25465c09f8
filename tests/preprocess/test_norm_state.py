"""Training with batch norm: the running statistics travel beside the updates, in messages of their own."""

import numpy as np
import pytest
import torch
from torch import nn

from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.messages import EvaluatedModel
from leakledger.preprocess.models import parameters, statistic_shapes, statistics
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.evaluation import evaluate, prediction_counts
from leakledger.preprocess.views import ModelSpec, TrainingSpec
from tests.preprocess.test_training import federation, run

SPEC = ModelSpec(5, 2, (8, 4), norm="batch")
UPDATES = {"train.gradient", "train.weights"}
STATE = statistic_shapes(SPEC).keys()
SGD, AVG = TrainingSpec("fedsgd", 3, batch_size=4), TrainingSpec("fedavg", 2, 0.1, batch_size=4, local_epochs=2)


def library(weights):
    """The network of `SPEC` made of the library's layers, and the names of its parameters here."""
    net = nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)
    )
    places = {"0": "0", "0.norm": "1", "1": "3", "1.norm": "4", "2": "6"}
    named = {n: f"{places[n.rpartition('.')[0]]}.{n.rpartition('.')[2]}" for n in weights}
    net.load_state_dict({named[n]: torch.tensor(w) for n, w in weights.items()}, strict=False)
    return net, named


def test_local_training_is_that_of_the_library_statistics_included():
    fed, data, located = federation((10, 7), spec=SPEC)
    trained = run(fed, located, TrainingSpec("fedavg", 1, 0.1, batch_size=4, local_epochs=2), spec=SPEC)
    first = next(m.payload.weights for m in fed.ledger if m.topic == "train.model")
    for client, d in data.items():
        net, named = library(first)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for rows in fed.own(trained.batches[client, 0]):
            optimizer.zero_grad()
            x, y = torch.from_numpy(d.rows[rows]), torch.from_numpy(d.labels[rows])
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        sent = {m.topic: m.payload for m in fed.ledger if m.sender == client}
        found = sent["train.weights"].weights | sent["train.batch-norm"].statistics
        assert sent["train.batch-norm"].rows == len(d)
        for name, w in found.items():
            np.testing.assert_allclose(w, net.state_dict()[named[name]], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("training", [SGD, AVG], ids=["fedsgd", "fedavg"])
def test_the_next_model_has_the_mean_of_what_clients_told_by_rows(training):
    fed, _, located = federation((10, 6), spec=SPEC)
    weights = fed.own(run(fed, located, training, spec=SPEC).weights)
    told = [m.payload for m in fed.ledger if m.topic == "train.batch-norm" and m.round == training.rounds - 1]
    assert [m.statistics.keys() for m in told] == [STATE, STATE]
    shares = np.array([m.rows for m in told]) / sum(m.rows for m in told)
    for name in STATE:
        mean = sum(s * m.statistics[name] for s, m in zip(shares, told, strict=True))
        np.testing.assert_allclose(weights[name], mean, rtol=1e-5)
    assert list(weights)[: len(weights) - len(STATE)] == list(parameters(SPEC, weights))


@pytest.mark.parametrize("weighting", ["rows", "clients"])
def test_statistics_count_as_the_updates_do(weighting):
    fed, _, located = federation((10, 2), spec=SPEC)
    plain = AGGREGATIONS["plain"](weighting=weighting)
    one = TrainingSpec("fedavg", 1, 0.1, batch_size=None)
    weights = fed.own(train(fed, ALGORITHMS["fedavg"], SPEC, one, located, aggregation=plain).weights)
    told = [m.payload.statistics["0.norm.running_mean"] for m in fed.ledger if m.topic == "train.batch-norm"]
    expected = np.average(told, axis=0, weights=[10, 2] if weighting == "rows" else None)
    np.testing.assert_allclose(weights["0.norm.running_mean"], expected, rtol=1e-5)


def test_no_update_has_statistics_and_every_model_has():
    fed, _, located = federation((10, 6), spec=SPEC)
    trained = run(fed, located, SGD, spec=SPEC)
    evaluate(fed, SPEC, trained.model, located)
    for m in fed.ledger:
        named = [getattr(m.payload, name, None) for name in ("gradient", "weights", "statistics")]
        expected = 0 if m.topic in UPDATES else len(STATE)
        assert all(len(statistics(SPEC, t)) == expected for t in named if t is not None)
    assert {m.topic for m in fed.ledger} == {
        "train.model", "train.gradient", "train.batch-norm", "evaluate.model", "evaluate.counts"
    }  # fmt: skip


@pytest.mark.parametrize("norm", ["layer", "group", "instance", "none"])
def test_other_norms_send_what_a_network_without_sends(norm):
    spec = ModelSpec(5, 2, (8, 4), norm=norm)
    fed, _, located = federation((10, 6), spec=spec)
    run(fed, located, TrainingSpec("fedavg", 2, 0.1), spec=spec)
    assert {m.topic for m in fed.ledger} == {"train.model", "train.weights"}


@pytest.mark.parametrize("norm", ["batch", "layer", "group", "instance"])
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_a_network_with_norms_learns(norm, algorithm):
    spec = ModelSpec(5, 2, (32, 16), norm=norm)  # wide enough that no group is two units, of which signs alone are left
    fed, _, located = federation((60, 40), spec=spec)
    training = TrainingSpec(algorithm, 60 if algorithm == "fedsgd" else 8, 0.3, batch_size=20)
    metrics = fed.own(evaluate(fed, spec, run(fed, located, training, spec=spec).model, located))
    assert metrics["accuracy"] > 0.8


def test_a_regression_by_absolute_errors_learns():
    spec = ModelSpec(5, 1, (16,), task="regression", loss="mae")
    fed, _, located = federation((60, 40), spec=spec)
    trained = run(fed, located, TrainingSpec("fedsgd", 250, 0.1, batch_size=None), spec=spec)
    assert fed.own(evaluate(fed, spec, trained.model, located))["r2"] > 0.8


REFUSED = {
    "clipped rows": ({"row_clip_norm": 1.0}, SGD, "gradients of single rows are asked for; use layer"),
    "poisson": ({}, TrainingSpec(sampling="poisson"), "gradients of single rows are asked for; use layer"),
    "one row": ({}, TrainingSpec(batch_size=1), "batch norm makes 0 of a single row"),
    "protected": ({"protect": lambda update, coins: update}, SGD, "leave beside the update, unprotected"),
    "masked": ({"aggregation": "secure-aggregation"}, SGD, "in the clear beside secure-aggregation"),
    "encrypted": ({"aggregation": "he-aggregation"}, SGD, "in the clear beside he-aggregation"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_batch_norm_is_refused_before_the_first_message(case):
    options, training, why = REFUSED[case]
    if "aggregation" in options:
        options = {"aggregation": AGGREGATIONS[options["aggregation"]]()}
    fed, _, located = federation((10, 6, 8), spec=SPEC)
    with pytest.raises(ValueError, match=why):
        train(fed, ALGORITHMS["fedsgd"], SPEC, training, located, **options)
    assert not len(fed.ledger)
    layered = ModelSpec(5, 2, (8, 4), norm="layer")
    if case != "encrypted":
        train(fed, ALGORITHMS["fedsgd"], layered, training, located, **options)


def test_dropout_and_gradients_of_single_rows_are_refused_before_the_first_message():
    spec = ModelSpec(5, 2, (8,), dropout=0.2)
    fed, _, located = federation((10, 6), spec=spec)
    with pytest.raises(ValueError, match=r"dropout is 0.2, and the gradients of single rows are asked for"):
        train(fed, ALGORITHMS["fedsgd"], spec, SGD, located, row_clip_norm=1.0)
    assert not len(fed.ledger)


def test_evaluation_mixes_no_rows():
    fed, data, located = federation((10, 6), spec=SPEC)
    model = EvaluatedModel(fed.own(run(fed, located, SGD, spec=SPEC).weights))
    whole = data["P1"]
    alone = [Encoded(whole.rows[i : i + 1], whole.labels[i : i + 1]) for i in range(len(whole))]
    scores = sum(prediction_counts(SPEC, model, one).scores for one in alone)
    np.testing.assert_array_equal(scores, prediction_counts(SPEC, model, whole).scores)
