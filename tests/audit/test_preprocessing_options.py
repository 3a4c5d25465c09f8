"""Options of encoders and scalers, from the configuration to the protocol."""

import numpy as np
import pytest

from audit.case import cases
from audit.config import Config
from audit.federate import federate, make_encoder, make_scaler, split_tables
from preprocess.crypto.sharing import Proportional, Ring


def one_case(**preprocessing):
    config = Config.model_validate(
        {
            "data": {"rows": 300},
            "preprocessing": preprocessing,
            "training": {"rounds": 1},
            "model": {"hidden": [4]},
            "audit": {"seeds": [0]},
        }
    )
    return config, cases(config)[0]


def test_each_method_gets_its_own_options_and_no_others():
    _, case = one_case(encoder="rolling-hash", scaler="zscore-sac", buckets=70, sharing="ring", route="sealed", ddof=1)
    assert make_encoder(case).buckets == 70
    scaler = make_scaler(case)
    assert (scaler.sharing, scaler.route, scaler.ddof, scaler.passes) == ("ring", "sealed", 1, 2)
    assert isinstance(scaler.scheme(), Ring)
    _, case = one_case(encoder="target", smoothing=2.5, folds=1, exchange="shared", likelihood="class-given-value")
    assert (make_encoder(case).smoothing, make_encoder(case).folds) == (2.5, 1)
    _, case = one_case(encoder="bytes-norm", longest=30, share_weights="exponential")
    assert make_encoder(case).scheme() == Proportional("exponential")


def test_public_candidates_are_the_values_of_all_tables_and_private_ones_are_not_told():
    config, case = one_case(encoder="mod-norm", candidates="public")
    tables = [t for pair in split_tables(config, case).values() for t in pair]
    dictionary = make_encoder(case, tables).dictionary
    for feature, values in dictionary.items():
        assert set(values) == set().union(*(t.values(feature) for t in tables))
    _, case = one_case(encoder="mod-norm")
    assert make_encoder(case, tables).dictionary == {}


@pytest.mark.parametrize("encoder", ["rolling-hash", "target", "bytes-norm", "mod-norm", "fasttext"])
def test_a_case_runs_from_configuration_to_metrics(encoder):
    config, case = one_case(encoder=encoder, scaler="zscore-sac", buckets=60)
    found = federate(config, case)
    assert np.isfinite(list(found.metrics.values())).all()
    assert found.public.layout.width == found.train["P1"].rows.shape[1]
