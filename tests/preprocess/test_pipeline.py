import numpy as np
import pytest
from hypothesis import given

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import encode_table, prepare
from leakledger.preprocess.scalers import SCALERS
from tests.preprocess.example import SCHEMA, simulated, table
from tests.preprocess.registered import IN_THE_CLEAR
from tests.preprocess.test_encoders import parties, splits


def prepared(tables, encoder, scaler, **options):
    fed, located = simulated(tables)
    result = prepare(fed, SCHEMA, located, located, ENCODERS[encoder](), SCALERS[scaler](**options))
    return fed, result.layout.value, {p: fed.own(result.train[p]) for p in tables}


@given(splits)
def test_server_dictionary_with_federated_zscore_gives_the_pooled_features_for_every_partition(owners):
    tables = parties(owners)
    for columns in ("numeric", "all"):
        _, layout, server = prepared(tables, "server-dictionary", "federated-zscore", columns=columns)
        _, reference, pooled = prepared(tables, "pooled", "pooled", columns=columns)
        assert [b.feature for b in layout.blocks] == [b.feature for b in reference.blocks]
        for p in tables:
            np.testing.assert_allclose(server[p].rows, pooled[p].rows, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(server[p].labels, pooled[p].labels)


@pytest.mark.parametrize("columns", ["numeric", "all"])
@pytest.mark.parametrize("scaler", IN_THE_CLEAR)
def test_the_layout_decodes_what_it_describes(scaler, columns):
    if columns == "all" and scaler in ("federated-robust", "federated-yeo-johnson"):
        return  # refused
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    _, layout, encoded = prepared(tables, "server-dictionary", scaler, columns=columns)
    assert layout.width == encoded["P1"].rows.shape[1]
    for p, t in tables.items():
        for k, block in enumerate(layout.numeric):
            if block.scaled:
                raw = block.raw(encoded[p].rows[:, block.start])
                np.testing.assert_allclose(raw, t.numbers()[:, k], atol=1e-4)
        if scaler != "local" or columns == "numeric":
            for block in layout.categorical:
                index = [block.values.index(v) for v in t.values(block.feature)]
                own = encoded[p].rows[:, block.start : block.start + block.width]
                np.testing.assert_allclose(own, block.codebook()[index], atol=1e-5)


def test_a_layout_names_bounds_where_the_scaler_published_them_and_integers_from_the_schema():
    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    _, layout, _ = prepared(tables, "local", "federated-minmax")
    ages = np.concatenate([t.numbers()[:, 0] for t in tables.values()])
    age = layout.block("age")
    assert (age.low, age.high, age.integer) == (ages.min(), ages.max(), True)
    _, layout, _ = prepared(tables, "local", "local")
    assert (layout.block("age").low, layout.block("age").scaled) == (None, False)


NUMERIC = {"bytes-norm": 1, "target": 1, "fasttext": 300}  # columns per feature of encoders without public candidates


@pytest.mark.parametrize("encoder", NUMERIC)
def test_scaling_every_column_leaves_numeric_blocks_that_give_back_the_codes(encoder):
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    _, plain, unscaled = prepared(tables, encoder, "federated-zscore")
    _, layout, scaled = prepared(tables, encoder, "federated-zscore", columns="all")
    assert len(layout.numeric) == len(SCHEMA.numeric) + len(SCHEMA.categorical) * NUMERIC[encoder]
    for p in tables:
        for one, other in zip(layout.numeric, plain.numeric, strict=True):
            raw = scaled[p].rows[:, one.start] * one.scale + one.shift
            expected = unscaled[p].rows[:, other.start] * other.scale + other.shift
            np.testing.assert_allclose(raw, expected, rtol=1e-5, atol=1e-5 * max(abs(expected).max(), 1))


def test_numbers_of_an_encoder_cannot_be_told_where_each_party_scaled_them_by_itself():
    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    for columns, known in (("numeric", True), ("all", False)):
        _, layout, _ = prepared(tables, "target", "local", columns=columns)
        assert [layout.block(f).scaled for f in SCHEMA.categorical] == [known] * 2


@pytest.mark.parametrize("encoder", ["server-dictionary", "local", "uhe", "mod-norm", "rolling-hash"])
def test_every_row_says_which_public_candidate_each_value_is(encoder):
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    _, layout, encoded = prepared(tables, encoder, "federated-zscore")
    assert len(layout.categorical) == len(SCHEMA.categorical)
    for data in encoded.values():
        expected = np.zeros((30, layout.width), np.float32)
        for k, block in enumerate(layout.categorical):
            own = slice(block.start, block.start + block.width)
            codes = block.codebook()[data.candidates[:, k]]
            expected[:, own] = np.maximum(expected[:, own], codes) if block.codes is None else codes
        categorical = slice(len(SCHEMA.numeric), None)
        np.testing.assert_allclose(data.rows[:, categorical], expected[:, categorical], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("encoder", "dtype"), [("rolling-hash", np.uint8), ("server-dictionary", np.uint8), ("fasttext", np.float32)]
)
def test_codes_stay_as_narrow_as_their_encoding_until_the_model_reads_them(encoder, dtype):
    fed, located = simulated({f"P{i}": table(30, i) for i in (1, 2, 3)})
    fit = ENCODERS[encoder]().fit(fed, SCHEMA, located)
    columns = encode_table(fed.own(located["P1"]), fed.own(fit.encodings["P1"]), fit.blocks.value)
    assert columns.codes.dtype == dtype
    assert columns.numbers.dtype == np.float64
