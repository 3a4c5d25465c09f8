import numpy as np
import pytest
from hypothesis import given

from preprocess.encoders import ENCODERS
from preprocess.pipeline import prepare
from preprocess.scalers import SCALERS
from tests.preprocess.example import SCHEMA, simulated, table
from tests.preprocess.test_encoders import parties, splits


def prepared(tables, encoder, scaler, **options):
    fed, located = simulated(tables)
    result = prepare(fed, SCHEMA, located, located, ENCODERS[encoder](), SCALERS[scaler](**options))
    return fed, result.layout.value, {p: fed.own(result.train[p]) for p in tables}


@given(splits)
def test_server_dictionary_with_server_zscore_gives_the_pooled_features_for_every_partition(owners):
    tables = parties(owners)
    for columns in ("numeric", "all"):
        _, layout, server = prepared(tables, "server-dictionary", "server-zscore", columns=columns)
        _, reference, pooled = prepared(tables, "pooled", "pooled", columns=columns)
        assert [b.feature for b in layout.blocks] == [b.feature for b in reference.blocks]
        for p in tables:
            np.testing.assert_allclose(server[p].rows, pooled[p].rows, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(server[p].labels, pooled[p].labels)


@pytest.mark.parametrize("columns", ["numeric", "all"])
@pytest.mark.parametrize("scaler", SCALERS)
def test_the_layout_decodes_what_it_describes(scaler, columns):
    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    _, layout, encoded = prepared(tables, "server-dictionary", scaler, columns=columns)
    assert layout.width == encoded["P1"].rows.shape[1]
    for p, t in tables.items():
        for k, block in enumerate(layout.numeric):
            if block.scaled:
                raw = encoded[p].rows[:, block.start] * block.scale + block.shift
                np.testing.assert_allclose(raw, t.numbers()[:, k], atol=1e-4)
        if scaler != "local" or columns == "numeric":
            for block in layout.categorical:
                index = [block.values.index(v) for v in t.values(block.feature)]
                own = encoded[p].rows[:, block.start : block.start + block.width]
                np.testing.assert_allclose(own, block.codebook()[index], atol=1e-5)


def test_a_layout_names_bounds_where_the_scaler_published_them_and_integers_from_the_schema():
    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    _, layout, _ = prepared(tables, "local", "server-minmax")
    ages = np.concatenate([t.numbers()[:, 0] for t in tables.values()])
    age = layout.block("age")
    assert (age.low, age.high, age.integer) == (ages.min(), ages.max(), True)
    _, layout, _ = prepared(tables, "local", "local")
    assert (layout.block("age").low, layout.block("age").scaled) == (None, False)
