"""Every protocol that is registered, run with one process per party: the same results and the same views."""

import pytest

from leakledger.preprocess.aggregation.secure_aggregation import STEPS
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.wire import encode
from tests.preprocess.contract import assert_same_views, assert_same_whatever_the_coins
from tests.preprocess.example import table
from tests.preprocess.registered import IN_THE_CLEAR, aggregations, encoders
from tests.preprocess.whole import whole_case

CLIENTS = ("P1", "P2", "P3")
INPUTS = {c: table(20 + 7 * i, seed=i).to_plain() for i, c in enumerate(CLIENTS)}
SGD = {"algorithm": "fedsgd", "rounds": 2, "batch_size": 4}
VARIANTS = {
    "full batch": {},
    "partial participation": {"participation": 0.5, "batch_size": 5},
    "early stopping": {"patience": 1, "learning_rate": 50.0, "rounds": 20},
}


def run(**params):
    return assert_same_views(whole_case, CLIENTS, INPUTS, params)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", encoders())
def test_every_encoder_runs_with_a_process_per_party(encoder):
    found = run(encoder=encoder, scaler="local", training=SGD)
    assert len({encode(r.value["layout"]) for r in found.values()}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("scaler", IN_THE_CLEAR)
def test_every_scaler_runs_with_a_process_per_party(scaler):
    run(encoder="server-dictionary", scaler=scaler, training=SGD)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", encoders())
def test_under_other_secrets_a_process_per_party_tells_what_does_not_depend_on_coins(encoder):
    params = {"encoder": encoder, "scaler": "federated-zscore", "training": {**SGD, "rounds": 1}}
    assert assert_same_whatever_the_coins(whole_case, CLIENTS, INPUTS, params) > 0


@pytest.mark.slow
@pytest.mark.parametrize("scaler", IN_THE_CLEAR)
def test_under_other_secrets_a_scaler_tells_what_does_not_depend_on_coins(scaler):
    params = {"encoder": "server-dictionary", "scaler": scaler, "training": {**SGD, "rounds": 1}}
    assert assert_same_whatever_the_coins(whole_case, CLIENTS, INPUTS, params) > 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_training_runs_with_a_process_per_party(algorithm, variant):
    training = {"algorithm": algorithm, "rounds": 3, **VARIANTS[variant]}
    found = run(encoder="local", scaler="local", training=training)
    assert set(found["server"].value["metrics"]) == {"f1", "accuracy", "auroc", "majority_f1", "majority_accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_batch_norm_runs_with_a_process_per_party(algorithm):
    training = {"algorithm": algorithm, "rounds": 3, **VARIANTS["partial participation"], "patience": 2}
    found = run(encoder="local", scaler="local", training=training, norm="batch")
    assert "train.batch-norm" in {m.topic for m in found["server"].messages}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("aggregation", aggregations())
def test_every_aggregation_runs_with_a_process_per_party(aggregation, algorithm, variant):
    if aggregation == "plain":
        return  # the test above
    training = {"algorithm": algorithm, **VARIANTS[variant], "rounds": 2, "learning_rate": 0.1}
    found = run(encoder="local", scaler="local", training=training, aggregation=aggregation)
    assert set(found["server"].value["metrics"]) == {"f1", "accuracy", "auroc", "majority_f1", "majority_accuracy"}
    assert not {"train.gradient", "train.weights"} & {m.topic for m in found["server"].messages}


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_one_client_that_drops_at_any_step_is_recovered_with_a_process_per_party(step):
    options = {"threshold": 2, "dropouts": 1, "dropout_step": step}
    found = run(encoder="local", scaler="local", training=SGD, aggregation="secure-aggregation", options=options)[
        "server"
    ]
    left = (0, 1, 2) if step == "unmasking" else (0, 1)
    told = [m.payload.clients for m in found.messages if m.topic == "secure-aggregation.survivors"]
    assert {tuple(t) for t in told} == {left}


@pytest.mark.slow
def test_a_party_sees_no_message_between_others_but_the_server_sees_all_of_these():
    found = run(encoder="server-dictionary", scaler="federated-zscore", training=SGD)
    for client in CLIENTS:
        assert all(client in (m.sender, m.recipient) for m in found[client].messages)
    assert len(found["server"].messages) == sum(len(found[c].messages) for c in CLIENTS)
