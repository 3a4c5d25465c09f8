import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score, mean_absolute_error, r2_score, roc_auc_score

from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, PredictionCounts
from leakledger.preprocess.models import as_tensors, forward, gradient, initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import protected, train
from leakledger.preprocess.training.evaluation import BINS, classification_metrics, evaluate
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import ModelSpec, TrainingSpec
from tests.preprocess.notes import plain

SPEC = ModelSpec(5, 2, (8,))


def rows(n, seed, spec=SPEC):
    coins = np.random.default_rng(seed)
    x = coins.normal(size=(n, spec.inputs)).astype(np.float32)
    signal = x @ np.arange(1, spec.inputs + 1)
    return Encoded(x, signal if spec.task == "regression" else (signal > 0).astype(np.int64))


def federation(sizes, seed=0, spec=SPEC):
    fed = Simulated([f"P{i + 1}" for i in range(len(sizes))], secret=pinned(seed))
    data = {c: rows(n, i, spec) for i, (c, n) in enumerate(zip(fed.clients, sizes, strict=True))}
    return fed, data, {c: fed.at(c, d) for c, d in data.items()}


def run(fed, located, training, protect=None, spec=SPEC):
    return train(fed, ALGORITHMS[training.algorithm], spec, training, located, protect)


def start_weights(fed_seed, clients):
    """The weights that the server of a seeded federation draws."""
    fed = Simulated([f"P{i + 1}" for i in range(clients)], secret=pinned(fed_seed))
    return initial_weights(SPEC, fed.own(fed.coins("server")))


def test_full_batch_fedsgd_is_gradient_descent_on_the_pooled_rows():
    fed, data, located = federation((5, 9, 20))
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=20, learning_rate=0.3, batch_size=None))
    x = torch.from_numpy(np.vstack([d.rows for d in data.values()]))
    y = torch.from_numpy(np.concatenate([d.labels for d in data.values()]))
    weights = as_tensors(start_weights(0, 3))
    for _ in range(20):
        step = gradient(SPEC, weights, x, y)
        weights = {name: w - 0.3 * step[name] for name, w in weights.items()}
    for name, w in fed.own(trained.weights).items():
        np.testing.assert_allclose(w, weights[name].numpy(), atol=1e-5)


def test_fedavg_with_one_full_batch_step_is_fedsgd():
    results = []
    for algorithm in ("fedsgd", "fedavg"):
        fed, _, located = federation((6, 10))
        results.append(
            fed.own(run(fed, located, TrainingSpec(algorithm, rounds=5, learning_rate=0.2, batch_size=None)).weights)
        )
    for name in results[0]:
        np.testing.assert_allclose(results[0][name], results[1][name], atol=1e-6)


def test_fedavg_averages_what_clients_reach_on_their_own():
    fed, data, located = federation((4, 12))
    trained = run(fed, located, TrainingSpec("fedavg", rounds=1, learning_rate=0.1, batch_size=3, local_epochs=2))
    ends, start = [], start_weights(0, 2)
    for c, d in data.items():
        weights = as_tensors(start)
        for batch in fed.own(trained.batches[c, 0]):
            step = gradient(SPEC, weights, torch.from_numpy(d.rows[batch]), torch.from_numpy(d.labels[batch]))
            weights = {name: w - 0.1 * step[name] for name, w in weights.items()}
        ends.append(weights)
    for name, w in fed.own(trained.weights).items():
        np.testing.assert_allclose(w, 0.25 * ends[0][name].numpy() + 0.75 * ends[1][name].numpy(), atol=1e-6)


def test_an_epoch_of_fedavg_visits_every_row_once():
    fed, _, located = federation((7, 10))
    trained = run(fed, located, TrainingSpec("fedavg", rounds=1, batch_size=3, local_epochs=2))
    batches = fed.own(trained.batches["P1", 0])
    assert sorted(np.concatenate(batches)) == sorted([*range(7), *range(7)])
    assert [len(b) for b in batches] == [3, 3, 1, 3, 3, 1]


def test_a_recorded_gradient_is_that_of_the_recorded_batch():
    fed, data, located = federation((30, 30))
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=2, batch_size=4))
    for message in fed.ledger:
        if message.topic == "train.gradient":
            model = next(
                m
                for m in fed.ledger
                if (m.topic, m.round, m.recipient) == ("train.model", message.round, message.sender)
            )
            batch, d = fed.own(trained.batches[message.sender, message.round])[0], data[message.sender]
            expected = gradient(
                SPEC,
                as_tensors(plain(model)["weights"]),
                torch.from_numpy(d.rows[batch]),
                torch.from_numpy(d.labels[batch]),
            )
            assert plain(message)["rows"] == len(batch) == 4
            for name, g in plain(message)["gradient"].items():
                np.testing.assert_array_equal(g, expected[name].numpy())


def test_messages_of_a_round_are_one_model_and_one_update_per_client():
    fed, _, located = federation((8, 8, 8))
    run(fed, located, TrainingSpec("fedsgd", rounds=2, batch_size=2))
    assert [(m.topic, m.sender, m.recipient) for m in fed.ledger if m.round == 1] == [
        pair for c in ("P1", "P2", "P3") for pair in (("train.model", "server", c), ("train.gradient", c, "server"))
    ]


def test_partial_participation_draws_the_stated_share_and_announces_it():
    fed, _, located = federation((8,) * 5)
    run(fed, located, TrainingSpec("fedsgd", rounds=30, batch_size=2, participation=0.4))
    by_round = {}
    for m in fed.ledger:
        if m.topic == "train.gradient":
            by_round.setdefault(m.round, set()).add(m.sender)
    assert {len(s) for s in by_round.values()} == {2}
    assert set().union(*by_round.values()) == set(fed.clients)


def test_early_stopping_ends_a_training_that_diverges_and_keeps_the_best_model():
    fed, _, located = federation((40, 40))
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=200, batch_size=None, learning_rate=500.0, patience=3))
    losses = [plain(m) for m in fed.ledger if m.topic == "train.validation-loss" and m.recipient == "P1"]
    assert trained.rounds == len(losses) < 200
    assert len(losses) - 1 - int(np.argmin(losses)) == 3
    candidates = [plain(m) for m in fed.ledger if m.topic == "train.candidate" and m.recipient == "P1"]
    best = candidates[int(np.argmin(losses))]
    for name, w in fed.own(trained.weights).items():
        np.testing.assert_array_equal(w, best[name])


def test_validation_rows_are_never_trained_on():
    fed, _, located = federation((20, 20))
    run(fed, located, TrainingSpec("fedavg", rounds=1, batch_size=None, patience=1, validation=0.25))
    sent = [plain(m)["rows"] for m in fed.ledger if m.topic in ("train.validation", "train.weights")]
    assert sorted(sent) == [5, 5, 15, 15]


def test_a_client_of_one_row_validates_nothing_and_stops_nobody():
    fed, _, located = federation((20, 1))
    run(fed, located, TrainingSpec("fedsgd", rounds=4, batch_size=4, patience=2))
    told = [m.payload for m in fed.ledger if m.topic == "train.validation"]
    first, last = (next(t for t in told if bool(t.rows) == validates) for validates in (True, False))
    assert (last.loss, last.rows) == (0.0, 0)
    mean = next(m.payload.loss for m in fed.ledger if m.topic == "train.validation-loss")
    assert mean == first.loss / first.rows


def test_where_no_client_has_a_row_to_validate_with_that_is_an_error():
    fed, _, located = federation((1, 1))
    with pytest.raises(ValueError, match="none of 2 clients has a row to validate with"):
        run(fed, located, TrainingSpec("fedsgd", rounds=2, batch_size=4, patience=2))


def test_batches_are_told_by_the_clients_own_row_numbers_whatever_was_held_back():
    fed, data, located = federation((20, 24))
    training = TrainingSpec("fedsgd", rounds=2, batch_size=4, patience=5, validation=0.5)
    trained = run(fed, located, training)
    sent = {(m.sender, m.round): m for m in fed.ledger if m.topic == "train.gradient"}
    for (client, round), batches in trained.batches.items():
        (numbers,) = fed.own(batches)
        told = next(m for m in fed.ledger if m.topic == "train.model" and (m.recipient, m.round) == (client, round))
        x, y = (torch.from_numpy(a[numbers]) for a in (data[client].rows, data[client].labels))
        expected = gradient(SPEC, as_tensors(plain(told)["weights"]), x, y)
        for name, g in sent[client, round].payload.gradient.items():
            np.testing.assert_array_equal(g, expected[name].numpy())


def test_a_defense_changes_what_leaves_the_client_and_only_that():
    def blank(update, coins):
        return {name: np.zeros_like(a) for name, a in update.items()}

    fed, _, located = federation((8, 8))
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=3, batch_size=None), protect=blank)
    assert all(not g.any() for m in fed.ledger if m.topic == "train.gradient" for g in plain(m)["gradient"].values())
    for name, w in start_weights(0, 2).items():
        np.testing.assert_array_equal(fed.own(trained.weights)[name], w)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", 0),
        ("local_epochs", -1),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("batch_size", 0),
        ("participation", 1.5),
        ("patience", 0),
        ("validation", 1.0),
    ],
)
def test_settings_out_of_range_are_refused_before_the_first_message(field, value):
    fed, _, located = federation((8, 8))
    with pytest.raises(ValueError, match=rf"{field} is .*; it must be "):
        run(fed, located, TrainingSpec(**{field: value}))
    assert len(fed.ledger) == 0


def test_evaluation_from_counts_equals_a_library_on_the_pooled_rows():
    fed, data, located = federation((50, 200, 120))
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=8, learning_rate=0.05, batch_size=None))
    metrics = fed.own(evaluate(fed, SPEC, trained.weights, located))
    x, y = np.vstack([d.rows for d in data.values()]), np.concatenate([d.labels for d in data.values()])
    p = torch.softmax(forward(SPEC, as_tensors(fed.own(trained.weights)), torch.from_numpy(x)), -1).numpy()
    assert metrics["f1"] == pytest.approx(f1_score(y, p.argmax(1)), abs=1e-12)
    assert metrics["accuracy"] == pytest.approx(np.trace(confusion_matrix(y, p.argmax(1))) / len(y), abs=1e-12)
    assert metrics["auroc"] == pytest.approx(roc_auc_score(y, p[:, 1]), abs=2 / BINS)
    always = np.full(len(y), np.bincount(y).argmax())
    assert metrics["majority_f1"] == pytest.approx(f1_score(y, always), abs=1e-12)
    assert metrics["majority_accuracy"] == pytest.approx(np.mean(y == always), abs=1e-12)


@pytest.mark.parametrize("own", [3, 7])
def test_the_commonest_class_alone_is_worth_what_a_library_says_of_it(own):
    y = np.repeat([0, 1], [10 - own, own])
    confusion = np.diag(np.bincount(y))
    found = classification_metrics(PredictionCounts(confusion, np.zeros((2, 2, BINS), np.int64)))
    always = np.full(10, int(own > 5))
    assert found["majority_f1"] == pytest.approx(f1_score(y, always))
    assert found["majority_accuracy"] == 0.7


def test_regression_metrics_equal_a_library_on_the_pooled_rows():
    spec = ModelSpec(3, 1, (6,), task="regression")
    fed, data, located = federation((50, 70), spec=spec)
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=30, learning_rate=0.02, batch_size=None), spec=spec)
    metrics = fed.own(evaluate(fed, spec, trained.weights, located))
    x, y = np.vstack([d.rows for d in data.values()]), np.concatenate([d.labels for d in data.values()])
    guess = forward(spec, as_tensors(fed.own(trained.weights)), torch.from_numpy(x))[:, 0].numpy()
    assert metrics["mae"] == pytest.approx(mean_absolute_error(y, guess), rel=1e-5)
    assert metrics["r2"] == pytest.approx(r2_score(y, guess), rel=1e-5)


def test_a_class_that_nobody_holds_out_gives_an_even_auroc_not_a_crash():
    fed, data, located = federation((10, 10))
    one_class = {c: fed.at(c, Encoded(d.rows, np.zeros(len(d), np.int64))) for c, d in data.items()}
    trained = run(fed, located, TrainingSpec("fedsgd", rounds=1, batch_size=None))
    assert fed.own(evaluate(fed, SPEC, trained.weights, one_class))["auroc"] == 0.5


WRONG = {
    "no update": (lambda update, coins: None, "a defense returned a value of type NoneType, no update"),
    "less": (
        lambda update, coins: update.popitem() and update,
        r"a defense made a NoneType of bias, which was float32",
    ),
    "more": (
        lambda update, coins: update | {"rows": np.ones(1)},
        "a defense made float64 .* of rows, which was a None",
    ),
    "another shape": (lambda update, coins: {n: a[:1] for n, a in update.items()}, r"made float32 \(1, 2\) of weight"),
    "another type": (
        lambda update, coins: {n: a.astype(float) for n, a in update.items()},
        "made float64 .* of weight",
    ),
    "lists": (lambda update, coins: {n: a.tolist() for n, a in update.items()}, "a defense made a list of weight"),
}


@pytest.mark.parametrize("kind", [ClientGradient, ClientWeights])
@pytest.mark.parametrize("what", WRONG)
def test_a_defense_that_returns_other_arrays_than_it_was_given_is_refused(what, kind):
    protect, expected = WRONG[what]
    arrays = {"weight": np.ones((2, 2), np.float32), "bias": np.ones(2, np.float32)}
    with pytest.raises(ValueError, match=expected):
        protected(protect, GlobalModel(arrays), kind(3, arrays), np.random.default_rng(0))
