"""On real tables: utility equals that of a trusted library's preprocessing, and known leaks are found."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.metrics import f1_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate, split_tables
from leakledger.audit.records import QUALITY
from leakledger.audit.run import run_audit
from leakledger.preprocess.secret import PUBLIC_MASTER

SEEDS = (0, 1, 2, 3, 4)
STEPS, RATE, CLIENTS, BATCH = 400, 0.1, 4, 32


def audit(path, **training):
    return Config.model_validate(
        {
            "data": {"source": str(path)},
            "preprocessing": {"encoder": "pooled", "scaler": "pooled"},
            "training": {
                "algorithm": "fedsgd",
                "rounds": STEPS,
                "learning_rate": RATE,
                "batch_size": BATCH,
                **training,
            },
            "audit": {"seeds": list(SEEDS)},
        }
    )


def centrally(config, case):
    """F1 of the same network by plain SGD on the pooled rows, preprocessed by scikit-learn."""
    split = split_tables(config, case)
    schema = next(iter(split.values()))[0].schema
    columns = make_column_transformer(
        (StandardScaler(), list(schema.numeric)),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), list(schema.categorical)),
    )
    frames = [[pair[k].frame for pair in split.values()] for k in (0, 1)]

    train, test = (pd.concat(f) for f in frames)
    x = torch.tensor(columns.fit_transform(train), dtype=torch.float32)
    labels = [np.concatenate([pair[k].labels() for pair in split.values()]) for k in (0, 1)]
    y = torch.tensor(labels[0])
    torch.manual_seed(case.seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 2),
    )
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (BATCH * CLIENTS,))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimiser.step()
    with torch.no_grad():
        guess = net(torch.tensor(columns.transform(test), dtype=torch.float32)).argmax(1).numpy()
    return f1_score(labels[1], guess)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "german"])
def test_pooled_training_is_worth_what_scikit_learn_preprocessing_is_worth(datasets, name):
    config = audit(datasets / f"{name}.csv.gz")
    pairs = [(federate(config, c, PUBLIC_MASTER).metrics["f1"], centrally(config, c)) for c in cases(config)]
    gaps = np.array([mine - theirs for mine, theirs in pairs])
    noise = gaps.std(ddof=1) / np.sqrt(len(gaps))
    print(name, [(round(a, 3), round(b, 3)) for a, b in pairs])
    assert abs(gaps.mean()) < max(4.6 * noise, 0.01)  # t with 4 degrees of freedom: 1 % false alarms
    assert np.mean([mine for mine, _ in pairs]) > {"adult": 0.58, "german": 0.75}[name]


@pytest.mark.slow
def test_on_adult_the_server_reads_what_is_sent_and_inverts_small_batches(datasets, tmp_path):
    config = Config.model_validate(
        {
            "data": {"source": str(datasets / "adult.csv.gz")},
            "preprocessing": [
                {"encoder": "server-dictionary", "scaler": "federated-minmax"},
                {"encoder": "server-dictionary", "scaler": "federated-zscore", "columns": "all", "ddof": 1},
                {"encoder": "local", "scaler": "local"},
            ],
            "training": {"rounds": 1, "batch_size": 8},
            "attacks": {"bounds": "known", "use": ["plaintext", "portfolio"]},
            "audit": {"seeds": [0], "jobs": 2, "observers": ["server"]},
        }
    )
    record = run_audit(config, tmp_path / "adult", master=PUBLIC_MASTER)
    assert all(c.passed for case in record.cases for c in case.controls)
    found = {(s.encoder, s.scaler, s.metric): s for s in record.scores if s.status == "scored"}
    for metric, scaler in (
        ("f1", "federated-minmax"),
        ("minimum", "federated-minmax"),
        ("maximum", "federated-minmax"),
    ):
        assert found["server-dictionary", scaler, metric].advantage == 1
    plain = {
        s.metric for s in record.scores if s.attack == "plaintext" and s.encoder == "local" and s.status == "scored"
    }
    told = {"size", "held_out_count", "held_out_rate"}  # updates say over how many rows, evaluations of which classes
    told |= {"count", "target_rate"}  # and nearly how many others there are, and of which classes
    assert plain - QUALITY == told | {f"{metric}_information" for metric in told}
    (standardised,) = (s for key, s in found.items() if "zscore" in key[1] and key[2] == "identical_rows")
    assert standardised.value == 1
