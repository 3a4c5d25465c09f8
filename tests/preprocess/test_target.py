from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import TargetEncoder

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.target import Target
from leakledger.preprocess.messages import TargetTally, TargetTotals
from leakledger.preprocess.views import CategoricalBlock, NumericBlock, PublicFacts
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.notes import plain
from tests.preprocess.texts import ODD, runs_projected, table_of

ROWS = 24
splits = st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS).filter(lambda owners: len(set(owners)) == 3)


def encode(tables, schema=SCHEMA, seed=0, **options):
    fed, located = simulated(tables, seed)
    fit = Target(**options).fit(fed, schema, located)
    return fed, fit, {p: fed.own(fit.encodings[p]) for p in tables}


def other_rows(whole):
    """The same rows in another order: a table that the encoding was not learned from."""
    return whole.rows(np.arange(len(whole))[::-1])


def with_target(kind):
    """A table with three classes, or a quantity, for a target."""
    base = table(40)
    coins = np.random.default_rng(5)
    frame = base.frame.copy()
    if kind == "regression":
        schema = replace(SCHEMA, task="regression", classes=())
        frame["ill"] = coins.normal(5, 2, 40) + (frame["ward"] == "surgery")
    else:
        schema = replace(SCHEMA, task="multiclass", classes=("low", "mid", "high"))
        frame["ill"] = pd.Series(coins.choice(["low", "mid", "high"], 40), dtype="str")
    return Table(frame, schema, "example"), schema


def printed_equation(whole, feature, value, alpha):
    """Eq. 7 word by word."""
    has, ill = whole.values(feature) == value, whole.labels() == 1
    frequency, p = has.sum(), (has & ill).sum() / ill.sum()
    return (frequency * p + alpha * ill.mean()) / (frequency + alpha)


def test_local_codes_are_the_printed_equation_on_own_rows():
    tables = {"P1": table(40, 1), "P2": table(30, 2)}
    _, _, encodings = encode(tables, smoothing=3.0)
    for p, t in tables.items():
        turned = other_rows(t)
        columns = encodings[p].transform(turned)
        for k, feature in enumerate(SCHEMA.categorical):
            expected = [printed_equation(t, feature, v, 3.0) for v in turned.values(feature)]
            np.testing.assert_allclose(columns[:, k], expected, rtol=1e-12)


@given(splits, st.sampled_from(["value-given-class", "class-given-value"]), st.floats(0, 50))
def test_shared_codes_are_those_of_the_pooled_rows_for_every_partition(owners, likelihood, smoothing):
    whole = table(ROWS)
    tables = cut(whole, [[i for i, o in enumerate(owners) if o == party] for party in range(3)])
    options = {"likelihood": likelihood, "smoothing": smoothing}
    _, _, shared = encode(tables, exchange="shared", **options)
    _, _, alone = encode({"P1": whole, "P2": whole}, **options)
    turned = other_rows(whole)
    for encoding in shared.values():
        np.testing.assert_allclose(encoding.transform(turned), alone["P1"].transform(turned), rtol=1e-12)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_the_rate_of_a_class_given_a_value_is_the_target_encoding_of_a_known_library(kind):
    whole, schema = (table(40), SCHEMA) if kind == "binary" else with_target(kind)
    _, _, encodings = encode({"P1": whole, "P2": whole}, schema, likelihood="class-given-value", smoothing=7.0)
    oracle = TargetEncoder(smooth=7.0, target_type="continuous" if kind == "regression" else kind)
    features = whole.frame[list(schema.categorical)].astype(object)
    oracle.fit(features, whole.labels())
    turned = other_rows(whole)
    expected = oracle.transform(turned.frame[list(schema.categorical)].astype(object))
    np.testing.assert_allclose(encodings["P1"].transform(turned), expected, rtol=1e-12)


def test_the_code_of_a_training_row_does_not_depend_on_its_own_target():
    whole = table(30)
    for exchange in ("local", "shared"):
        for likelihood in ("value-given-class", "class-given-value"):
            options = {"exchange": exchange, "likelihood": likelihood}
            before = encode({"P1": whole, "P2": table(20, 3)}, **options)[2]["P1"].transform(whole)
            for row in range(0, 30, 7):
                frame = whole.frame.copy()
                frame.loc[row, "ill"] = "no" if frame.loc[row, "ill"] == "yes" else "yes"
                changed = Table(frame, SCHEMA, "example")
                after = encode({"P1": changed, "P2": table(20, 3)}, **options)[2]["P1"].transform(changed)
                np.testing.assert_array_equal(before[row], after[row])
                assert (before != after).any()


def test_without_folds_it_does():
    whole = table(30)
    frame = whole.frame.copy()
    frame.loc[7, "ill"] = "no" if frame.loc[7, "ill"] == "yes" else "yes"
    changed = Table(frame, SCHEMA, "example")
    one, other = (encode({"P1": t, "P2": t}, folds=1)[2]["P1"].transform(t) for t in (whole, changed))
    assert (one[7] != other[7]).all()


def test_a_unique_value_of_a_training_row_tells_the_model_nothing_about_its_target():
    whole = table_of([f"ward {i}" for i in range(20)])
    _, _, encodings = encode({"P1": whole, "P2": whole}, likelihood="class-given-value", smoothing=0.0)
    fold, columns = encodings["P1"].fold_of_row_, encodings["P1"].transform(whole)
    for k in range(5):
        assert len(set(columns[fold == k, 0])) == 1


def test_a_fold_is_encoded_by_the_rows_of_the_other_folds():
    whole = table(30)
    _, _, encodings = encode({"P1": whole, "P2": whole}, smoothing=2.0)
    encoding = encodings["P1"]
    assert sorted(np.bincount(encoding.fold_of_row_)) == [6] * 5
    columns = encoding.transform(whole)
    for row in range(30):
        rest = whole.rows(np.flatnonzero(encoding.fold_of_row_ != encoding.fold_of_row_[row]))
        value = whole.values("ward")[row]
        assert columns[row, 0] == pytest.approx(printed_equation(rest, "ward", value, 2.0), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 10.0])
def test_an_unseen_value_gets_the_mean_of_the_target_or_an_error_that_does_not_repeat_it(smoothing):
    whole, unseen = table(40), table(4, 3, wards=("secret ward",))
    _, _, encodings = encode({"P1": whole, "P2": whole}, smoothing=smoothing)
    np.testing.assert_allclose(encodings["P1"].transform(unseen)[:, 0], (whole.labels() == 1).mean(), rtol=1e-12)
    _, _, encodings = encode({"P1": whole, "P2": whole}, unseen="error")
    encodings["P1"].transform(whole)
    with pytest.raises(ValueError, match="ward: 4 rows hold a value that was not seen") as error:
        encodings["P1"].transform(unseen)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("value", ODD)
def test_any_text_has_a_code_of_its_own(value):
    odd = table_of([value] * 4 + ["other"] * 6)
    _, fit, encodings = encode({"P1": odd, "P2": odd}, exchange="shared", smoothing=0.0)
    columns = encodings["P1"].transform(other_rows(odd))
    assert columns[-1, 0] == pytest.approx(0.4)
    assert value in fit.blocks.value[0].values


def test_a_party_without_rows_and_one_with_a_single_row_take_part():
    tables = {"P1": table(20), "P2": table(20).rows(np.array([], np.int64)), "P3": table(20).rows(np.array([3]))}
    for exchange in ("local", "shared"):
        _, _, encodings = encode(tables, exchange=exchange)
        assert encodings["P2"].transform(tables["P2"]).shape == (0, 2)
        assert np.isfinite(encodings["P3"].transform(tables["P3"])).all()


def test_a_regression_target_needs_the_rate_and_finite_numbers():
    whole, schema = with_target("regression")
    with pytest.raises(ValueError, match="'ill' is a quantity, which has no classes; set likelihood class-given-value"):
        encode({"P1": whole, "P2": whole}, schema)
    frame = whole.frame.copy()
    frame.loc[3, "ill"] = np.inf
    broken = Table(frame, schema, "example")
    with pytest.raises(ValueError, match="'ill' holds numbers that are not finite"):
        encode({"P1": broken, "P2": broken}, schema, likelihood="class-given-value")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"style": "label"}, "style 'label' does not apply"),
        ({"smoothing": -1.0}, "smoothing is -1.0; it must be at least 0"),
        ({"smoothing": float("nan")}, "smoothing is nan; it must be finite"),
        ({"folds": 0}, "folds is 0; it must be at least 1"),
        ({"likelihood": "odds"}, "likelihood 'odds' is unknown"),
        ({"exchange": "public"}, "exchange 'public' is unknown; choose one of local, shared"),
    ],
)
def test_an_option_out_of_range_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Target(**wrong)


def test_locally_nothing_is_sent_and_the_blocks_hold_bounds_only():
    fed, fit, _ = encode({"P1": table(), "P2": table()})
    assert len(fed.ledger) == 0
    assert fit.blocks.value == (
        NumericBlock("ward", 0, 0.0, 1.0, 0.0, 1.0),
        NumericBlock("diet", 1, 0.0, 1.0, 0.0, 1.0),
    )


def test_three_classes_take_three_columns_per_feature():
    whole, schema = with_target("multiclass")
    _, fit, encodings = encode({"P1": whole, "P2": whole}, schema)
    assert encodings["P1"].transform(whole).shape == (40, 6)
    assert [(b.feature, b.start) for b in fit.blocks.value][:4] == [
        ("ward[0]", 0),
        ("ward[1]", 1),
        ("ward[2]", 2),
        ("diet[0]", 3),
    ]


def test_sharing_tells_the_server_each_clients_values_counts_and_target_sums_and_clients_the_totals():
    tables = {"P1": table(8, 1, wards=("surgery",)), "P2": table(9, 2, wards=("urology",))}
    fed, fit, _ = encode(tables, exchange="shared")
    server = fed.ledger.view(["server"], PublicFacts(fed.clients, fed.server))
    told = {m.sender: plain(m) for m in server.received(TargetTally)}
    for p, t in tables.items():
        assert told[p]["rows"] == len(t)
        assert told[p]["features"]["ward"]["values"] == sorted(set(t.values("ward")))
        assert told[p]["features"]["ward"]["sums"].sum() == (t.labels() == 1).sum()
    client = fed.ledger.view(["P1"], PublicFacts(fed.clients, fed.server))
    assert [m.topic for m in client.received(TargetTotals)] == ["target.global"]
    assert client.topics == {"target.local", "target.global"}
    block = fit.blocks.value[0]
    assert isinstance(block, CategoricalBlock)
    assert block.values == ("surgery", "urology")


def test_a_table_without_categorical_features_has_no_columns():
    schema = Schema(target="ill", categorical=(), numeric=("age",), task="binary", classes=("no", "yes"))
    whole = Table(table(10).frame[["age", "ill"]], schema, "numbers")
    _, fit, encodings = encode({"P1": whole, "P2": whole}, schema)
    assert encodings["P1"].transform(whole).shape == (10, 0)
    assert fit.blocks.value == ()


@pytest.mark.parametrize("exchange", ["local", "shared"])
def test_it_runs_with_a_process_per_party(exchange):
    runs_projected("target", exchange=exchange)
