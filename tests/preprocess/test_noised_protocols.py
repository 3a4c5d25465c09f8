"""Protocols with noise: who sees what, and what becomes of the columns."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.messages import Disclosure, kind_of
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import DIETS, SCHEMA, WARDS, located, simulated, table

DECLARED = replace(
    SCHEMA, ranges={"age": (0.0, 120.0), "dose": (-20.0, 30.0)}, domains={"ward": (*WARDS, "unheard of"), "diet": DIETS}
)
TOPICS = {
    "federated-zscore": {"zscore.noised", "zscore.noised-total"},
    "federated-minmax": {"minmax.noised", "minmax.noised-global"},
    "server-dictionary": {"dictionary.noised", "dictionary.noised-total"},
    "target": {"target.noised", "target.noised-total"},
}


def methods(encoder, scaler, encoder_options=None, scaler_options=None):
    shared = {"exchange": "shared"} if encoder == "target" else {}
    budgets = ({"encoder_epsilon": 1e4}, {"scaler_epsilon": 1e4})
    return (
        ENCODERS[encoder](**shared, **(budgets[0] if encoder_options is None else encoder_options)),
        SCALERS[scaler](**(budgets[1] if scaler_options is None else scaler_options)),
    )


def run(encoder, scaler, *options, schema=DECLARED, rows=200):
    tables = {f"P{i}": replace(table(rows, seed=i), schema=schema) for i in (1, 2, 3)}
    fed, at = simulated(tables)
    prepared = prepare(fed, schema, at, at, *methods(encoder, scaler, *options))
    return fed, prepared


@pytest.mark.parametrize("encoder", ["server-dictionary", "target"])
@pytest.mark.parametrize("scaler", ["federated-zscore", "federated-minmax"])
def test_with_noise_nothing_else_is_sent(encoder, scaler):
    fed, _ = run(encoder, scaler)
    assert {m.topic for m in fed.ledger} == TOPICS[encoder] | TOPICS[scaler]
    assert {kind_of(m.topic).discloses for m in fed.ledger} == {Disclosure.NOISED}


@pytest.mark.parametrize("scaler", ["federated-zscore", "federated-minmax"])
def test_with_faint_noise_columns_are_scaled_as_without(scaler):
    plain = run("server-dictionary", scaler, {}, {})[1].layout.value.numeric
    noised = run("server-dictionary", scaler)[1].layout.value.numeric
    for one, other in zip(plain, noised, strict=True):
        assert other.shift == pytest.approx(one.shift, rel=0.02, abs=0.02)
        assert other.scale == pytest.approx(one.scale, rel=0.02)


def test_with_faint_noise_the_dictionary_is_that_of_the_values_that_are_held():
    blocks = run("server-dictionary", "federated-zscore")[1].layout.value.categorical
    assert [set(b.values) for b in blocks] == [set(WARDS), set(DIETS)]


def test_with_faint_noise_target_codes_are_those_of_the_shared_exchange():
    plain = run("target", "federated-zscore", {}, {})[1].layout.value.categorical
    noised = run("target", "federated-zscore")[1].layout.value.categorical
    for one, other in zip(plain, noised, strict=True):
        codes = dict(zip(other.values, other.codes[:, 0], strict=True))
        assert [codes[v] for v in one.values] == pytest.approx(one.codes[:, 0].tolist(), abs=0.01)


def test_a_value_that_is_kept_from_so_many_rows_on_needs_as_many():
    few = ENCODERS["server-dictionary"](encoder_epsilon=1e4, keep_from=120)
    tables = {f"P{i}": replace(table(200, seed=i), schema=DECLARED) for i in (1, 2, 3)}
    fed, at = simulated(tables)
    blocks = few.fit(fed, DECLARED, at).blocks.value
    whole = np.concatenate([t.values("ward") for t in tables.values()])
    assert set(blocks[0].values) == {w for w in WARDS if (whole == w).sum() >= 120}


@pytest.mark.parametrize("level", [0.05, 0.25])
def test_with_faint_noise_quantiles_scale_by_the_outermost_of_the_clients_own(level):
    fed, prepared = run("server-dictionary", "federated-minmax", {}, {"scaler_epsilon": 1e4, "quantile": level})
    assert {m.topic for m in fed.ledger if m.step == "scale"} == TOPICS["federated-minmax"]
    tables = [table(200, seed=i).frame for i in (1, 2, 3)]
    for block in prepared.layout.value.numeric:
        low = min(np.quantile(t[block.feature], level) for t in tables)
        high = max(np.quantile(t[block.feature], 1 - level) for t in tables)
        spread = max(t[block.feature].std() for t in tables)
        assert block.shift == pytest.approx(low, abs=spread / 10)
        assert block.shift + block.scale == pytest.approx(high, abs=spread / 10)
        assert (block.low, block.high) == DECLARED.ranges[block.feature]


def test_under_strong_noise_a_quantile_is_nearer_to_the_rows_than_an_extreme():
    """Of 200 rows and a range three times theirs: the places that the exponential mechanism draws at epsilon 1 each."""
    widths = {}
    for quantile in (None, 0.1):
        _, prepared = run("server-dictionary", "federated-minmax", {}, {"scaler_epsilon": 4.0, "quantile": quantile})
        widths[quantile] = [b.scale for b in prepared.layout.value.numeric]
    tables = [table(200, seed=i).frame for i in (1, 2, 3)]
    for i, feature in enumerate(SCHEMA.numeric):
        reach = max(t[feature].max() for t in tables) - min(t[feature].min() for t in tables)
        assert 0.3 * reach < widths[0.1][i] < reach


def test_strong_noise_still_leaves_columns_to_train_on():
    for encoder in ("server-dictionary", "target"):
        for scaler in ("federated-zscore", "federated-minmax"):
            _, prepared = run(encoder, scaler, {"encoder_epsilon": 0.05}, {"scaler_epsilon": 0.05}, rows=20)
            layout = prepared.layout.value
            assert all(np.isfinite([b.shift, b.scale]).all() and b.scale > 0 for b in layout.numeric)
            assert all(len(b.values) > 0 for b in layout.categorical)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SCALERS["federated-zscore"](scaler_epsilon=0.0), "scaler_epsilon is 0.0"),
        (lambda: SCALERS["federated-minmax"](scaler_epsilon=-1.0), "scaler_epsilon is -1.0"),
        (lambda: SCALERS["federated-minmax"](quantile=0.05), "quantile is 0.05 without scaler_epsilon"),
        (
            lambda: SCALERS["federated-minmax"](scaler_epsilon=1.0, quantile=0.5),
            "quantile is 0.5; it must be below",
        ),
        (lambda: SCALERS["federated-minmax"](scaler_epsilon=1.0, quantile=0.0), "quantile is 0.0; it must be above 0"),
        (lambda: SCALERS["federated-minmax"](scaler_epsilon=1.0, quantile=1 / 3), "thousandths"),
        (lambda: SCALERS["federated-zscore"](scaler_epsilon=1.0, scaler_delta=1.0), "scaler_delta is 1.0"),
        (lambda: SCALERS["federated-zscore"](scaler_epsilon=1.0, columns="all"), 'columns = "numeric"'),
        (lambda: ENCODERS["server-dictionary"](encoder_epsilon=1.0, unseen="error"), 'unseen = "ignore"'),
        (lambda: ENCODERS["target"](encoder_epsilon=1.0), 'exchange = "shared"'),
        (lambda: ENCODERS["target"](encoder_epsilon=0.0, exchange="shared"), "encoder_epsilon is 0.0"),
    ],
)
def test_bad_input_is_refused_when_the_method_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_is_not_declared_is_refused_before_any_message():
    fed, at = simulated({f"P{i}": table(20, seed=i) for i in (1, 2)})
    for encoder, scaler in (({"encoder_epsilon": 1.0}, {}), ({}, {"scaler_epsilon": 1.0})):
        dictionary, zscore = methods("server-dictionary", "federated-zscore", encoder, scaler)
        with pytest.raises(ValueError, match="never taken from rows"):
            (dictionary.mechanisms(SCHEMA), zscore.mechanisms(SCHEMA))
    with pytest.raises(ValueError, match="call under"):
        zscore.fit(fed, {c: fed.local(c, lambda t: t.numbers(), x) for c, x in at.items()})
    assert len(fed.ledger) == 0


def test_a_target_that_is_a_quantity_has_no_table_of_classes():
    schema = replace(DECLARED, task="regression", classes=())
    with pytest.raises(ValueError, match="a target with classes"):
        ENCODERS["target"](encoder_epsilon=1.0, exchange="shared", likelihood="class-given-value").mechanisms(schema)


def test_public_mechanisms_are_those_that_the_messages_have_numbers_for():
    fed, _ = run("target", "federated-zscore")
    encoder, scaler = methods("target", "federated-zscore")
    moments = next(m.payload for m in fed.ledger if m.topic == "zscore.noised")
    assert len(scaler.mechanisms(DECLARED)) == 1 + len(moments.sums) + len(moments.squares)
    tables = next(m.payload for m in fed.ledger if m.topic == "target.noised").counts
    assert {m.parameters["feature"]: len(m.parameters["values"]) for m in encoder.mechanisms(DECLARED)} == {
        f: len(t) for f, t in tables.items()
    }


def noised_case(fed, inputs, params):
    """Preprocessing with noise as a protocol over plain inputs."""
    from leakledger.preprocess.data.table import Table

    tables = {c: fed.local(c, lambda x: replace(Table.from_plain(x), schema=DECLARED), inputs[c]) for c in fed.clients}
    prepared = prepare(fed, DECLARED, tables, tables, *methods(params["encoder"], params["scaler"]))
    return {c: fed.local(c, lambda d: d.rows, prepared.train[c]) for c in fed.clients}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "scaler"), [("server-dictionary", "federated-zscore"), ("target", "federated-minmax")]
)
def test_with_a_process_per_party_the_same_noise_is_sent(encoder, scaler):
    clients = ("P1", "P2")
    inputs = {c: table(20, seed=i).to_plain() for i, c in enumerate(clients)}
    assert_same_views(noised_case, clients, inputs, {"encoder": encoder, "scaler": scaler})


def test_noise_is_the_partys_own_and_another_run_has_another():
    runs = []
    for seed in (0, 0, 1):
        tables = {f"P{i}": replace(table(30, seed=1), schema=DECLARED) for i in (1, 2)}
        fed, _ = simulated(tables, seed)
        own, held = located(fed, tables), located(fed, tables)
        prepare(fed, DECLARED, own, held, *methods("server-dictionary", "federated-zscore"))
        runs.append([m.body for m in fed.ledger if m.topic == "zscore.noised"])
    assert runs[0] == runs[1] != runs[2]
    assert runs[0][0] != runs[0][1]  # equal rows at both parties, other noise
