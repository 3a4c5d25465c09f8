"""Adversaries that know the population and see nothing have no advantage over the baseline, on ten tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from leakledger.audit.benchmarks.base import Options, data_of
from leakledger.audit.benchmarks.know_nothing import LIBRARY, Target
from leakledger.audit.case import cases
from leakledger.audit.clusters import ratio_interval
from leakledger.audit.federate import federate
from leakledger.audit.scoring.best_prior import best_prior
from leakledger.audit.scoring.records import measure, prior_only
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config
from tests.every import every

REAL = ("adult", "german", "bank_churn", "lawschool")
EMBEDDED = ("fair", "randhie", "breast_cancer")
MADE_UP = ("skewed amounts", "few values", "clusters")
METRICS = ("accuracy", "worst_record")
SIZES = (4, 12)  # rows of the batches, one size per seed
LEVEL = 0.999


def made_up(name):
    """500 rows of a table that is easy to guess in one way or another."""
    coins = np.random.default_rng(sorted(MADE_UP).index(name))
    cluster = coins.integers(0, 5, 500)
    columns = {
        "skewed amounts": lambda: {f"amount {k}": np.exp(coins.normal(3, 2, 500)).round() for k in range(6)},
        "few values": lambda: {f"flag {k}": coins.choice(["no", "yes"], 500, p=[0.9, 0.1]) for k in range(8)},
        "clusters": lambda: {
            **{f"code {k}": np.array(list("abcde"))[cluster] for k in range(3)},
            **{f"level {k}": cluster * (k + 1) + coins.normal(0, 0.1, 500) for k in range(3)},
        },
    }[name]()
    return pd.DataFrame({**columns, "ill": np.where(coins.random(500) < 0.4, "yes", "no")})


def made_up_file(name, folder):
    path = folder / f"{name}.csv"
    made_up(name).to_csv(path, index=False)
    (folder / f"{name}.schema.json").write_text('{"target": "ill"}')
    return str(path)


def of_table(data):
    """{(adversary or baseline, metric): (batches,)} over four clients x batch size."""
    found = {}
    for seed, rows in enumerate(SIZES):
        settings = config(
            data=data_of(Options(), data, 1500),
            partition={"kind": "iid", "parties": 4},
            preprocessing=[{"encoder": "pooled", "scaler": "pooled"}],
            model={"hidden": [4]},
            training={"rounds": 1, "batch_size": rows},
            audit={"seeds": [seed]},
        )
        truth = Truth(federate(settings, cases(settings)[0], PUBLIC_MASTER))
        for i, (victim, round) in enumerate(truth.federated.batches):
            actual, of = truth.batch(victim, round), population_without(truth, victim, round)
            target = Target(truth, of, victim, round, len(actual), None)
            coins = [np.random.default_rng([seed, i, k]) for k in range(2 + len(LIBRARY))]
            reached = {
                "baseline": best_prior(actual, of, truth.deviations, None, coins[0], 5).metrics,
                "drawn cells": prior_only(actual, truth, coins[1], 5).metrics,
            }
            for own, (name, adversary) in zip(coins[2:], LIBRARY.items(), strict=True):
                reached[name] = measure(adversary(target, own), actual, truth.deviations)
            for name, values in reached.items():
                for metric in METRICS:
                    found.setdefault((name, metric), []).append(values[metric])
    return found


@pytest.fixture(scope="module")
def always(tmp_path_factory):
    """What each adversary and both baselines reach in each batch, by table: those that are always at hand."""
    folder = tmp_path_factory.mktemp("tables")
    return {name: of_table(name) for name in EMBEDDED} | {n: of_table(made_up_file(n, folder)) for n in MADE_UP}


@pytest.fixture(scope="module", params=["six tables", "ten tables"])
def reached(request, always):
    """The same, with the real tables where there are any."""
    if request.param == "six tables":
        return always
    folder = request.getfixturevalue("datasets")
    return always | {name: of_table(str(folder / f"{name}.csv.gz")) for name in REAL}


def advantage(tables, adversary, metric, baseline="baseline"):
    """Over all batches of `tables`: the advantage and the lower end of its interval."""
    values, prior = (np.concatenate([t[who, metric] for t in tables]) for who in (adversary, baseline))
    gain, limits = ratio_interval(values - prior, 1 - prior)
    wider = stats.t.ppf(0.5 + LEVEL / 2, len(prior) - 1) / stats.t.ppf(0.975, len(prior) - 1)
    return gain, gain - wider * (gain - limits[0])


@pytest.mark.slow
@every("metric", METRICS)
@every("adversary", LIBRARY)
def test_no_adversary_that_saw_nothing_has_an_advantage_over_the_baseline(reached, adversary, metric):
    gain, low = advantage(reached.values(), adversary, metric)
    assert low <= 0, (gain, low)
    assert metric != "accuracy" or gain <= 0.03


@pytest.mark.slow
def test_nor_on_any_one_table(reached):
    for table, found in reached.items():
        for adversary in LIBRARY:
            assert advantage([found], adversary, "accuracy")[1] <= 0, (table, adversary)


@pytest.mark.slow
@every("adversary", ("medoids", "exchanged", "optimised"))
def test_over_cells_drawn_one_by_one_they_have_it(reached, adversary):
    """So these batches are enough to tell a weak baseline."""
    assert advantage(reached.values(), adversary, "accuracy", baseline="drawn cells")[1] > 0
