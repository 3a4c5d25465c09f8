"""Options of encoders and scalers, from the configuration to the protocol."""

import numpy as np
import pytest

from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate, make_encoder, make_scaler, split_tables
from leakledger.preprocess.crypto.sharing import Proportional, Ring
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS
from leakledger.preprocess.secret import PUBLIC_MASTER

OTHER = {  # of every option, a value that is not the default
    "style": "label",
    "unseen": "error",
    "columns": "all",
    "ddof": 1,
    "by": "minmax",
    "sharing": "ring",
    "share_weights": "exponential",
    "route": "sealed",
    "counts": "per-feature",
    "passes": 1,
    "log_degree": 15,
    "hiding_bits": 30,
    "inverse_range": 30,
    "extremes": "counts",
    "publish": "parties",
    "ring": ["P1"],
    "ring_route": "relay",
    "pad_to": 2,
    "noise": 1,
    "sealed_bytes": 5000,
    "psi_route": "sealed",
    "directions": "upward",
    "unused": "drop",
    "normal_form": "NFC",
    "candidates": "public",
    "buckets": 7,
    "prime": 37,
    "others": "drop",
    "longest": 9,
    "fasttext_model": "model.bin",
    "dimension": 8,
    "vector_seed": 3,
    "smoothing": 1.5,
    "folds": 1,
    "likelihood": "class-given-value",
    "exchange": "shared",
    "encoder_epsilon": 1.5,
    "encoder_delta": 1e-6,
    "scaler_epsilon": 2.5,
    "scaler_delta": 1e-7,
    "keep_from": 3.0,
    "search_from": "declared",
    "search_precision": 0.5,
    "at_points": "left-out",
    "ranks_to": "everyone",
    "counts_to": "server",
    "reach": 2.0,
    "power_precision": 0.01,
    "powers": 5,
    "quantile": 0.25,
}
REFUSED = {(scaler, "columns") for scaler in ("federated-robust", "federated-yeo-johnson", *ENCRYPTED)}  # numbers only
TOGETHER = {
    ("target", "encoder_epsilon"): {"exchange": "shared"},
    ("federated-minmax", "quantile"): {"scaler_epsilon": 1.0},
    **{(e, "sealed_bytes"): {"ring_route": "sealed"} for e in ("uhe", "otmp-psi")},
    **{(e, "sealed_bytes"): {"ring_route": "sealed", "psi_route": "sealed"} for e in ("dh-psi", "apsi")},
}  # what an option has no meaning without


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


def test_the_label_of_a_setting_shows_every_option_that_a_method_has_and_that_is_not_its_default():
    def labels(**options):
        setting = one_case(**options)[1].setting
        return setting.encoder, setting.scaler

    assert labels(encoder="bytes-norm", scaler="zscore-sac") == ("bytes-norm", "zscore-sac")
    assert labels(encoder="mod-norm", scaler="zscore-sac", sharing="ring", passes=1, ddof=1) == (
        "mod-norm (ring, passes 1)",
        "zscore-sac (ring, passes 1, ddof 1)",
    )
    assert labels(encoder="local", style="label", columns="all") == ("local (label)", "federated-zscore (all)")
    assert labels(encoder="uhe", ring=["P2", "P1", "P3", "P4"], pad_to=8)[0] == "uhe (ring P2 P1 P3 P4, pad to 8)"
    assert labels(encoder="rolling-hash", candidates="public", others="drop")[0] == (
        "rolling-hash (candidates public, others drop)"
    )
    assert labels(encoder="fasttext", fasttext_model="folder/model.bin")[0] == "fasttext (fasttext model model.bin)"


OPTIONS = [
    (kind, method, name)
    for kind, table in (("encoder", ENCODERS), ("scaler", SCALERS))
    for method in table
    for name in options_of(table[method])
    if (method, name) not in REFUSED
]


@pytest.mark.parametrize(("kind", "method", "name"), OPTIONS)
def test_no_two_settings_of_one_option_look_alike(kind, method, name):
    beside = TOGETHER.get((method, name), {})
    usual, other = (one_case(**{kind: method}, **beside, **o)[1].setting for o in ({}, {name: OTHER[name]}))
    assert getattr(usual, kind) != getattr(other, kind)


@pytest.mark.parametrize("encoder", ["rolling-hash", "target", "bytes-norm", "mod-norm", "fasttext"])
def test_a_case_runs_from_configuration_to_metrics(encoder):
    few = {"buckets": 60} if encoder == "rolling-hash" else {}
    config, case = one_case(encoder=encoder, scaler="zscore-sac", **few)
    found = federate(config, case, PUBLIC_MASTER)
    assert np.isfinite(list(found.metrics.values())).all()
    assert found.public.layout.width == found.train["P1"].rows.shape[1]
