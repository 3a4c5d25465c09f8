from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.cells import cells
from leakledger.audit.made_up import encoded_rows
from leakledger.audit.truth import of_column
from leakledger.preprocess.encoders.rolling_hash import rolling_hash
from leakledger.preprocess.pipeline import Encoded
from tests.audit.example import truth

METHODS = [
    {"encoder": "server-dictionary", "scaler": "federated-zscore"},
    {"encoder": "server-dictionary", "scaler": "federated-zscore", "columns": "all"},
    {"encoder": "server-dictionary", "scaler": "federated-minmax", "style": "label"},
    {"encoder": "pooled", "scaler": "pooled", "columns": "all", "ddof": 1},
    {"encoder": "local", "scaler": "local"},
]


@pytest.mark.parametrize("method", METHODS)
def test_cells_and_their_encoding_are_inverse(method):
    t = truth(preprocessing=method)
    for data in t.federated.train.values():
        found = cells(t.layout, data)
        np.testing.assert_allclose(encoded_rows(t.layout, found), data.rows, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"style": "label"}])
def test_values_that_no_dictionary_has_are_encoded_as_their_party_encodes_them(more):
    occupations = ["student", "farming or unskilled", "white-collar", "skilled", "managerial", "professional"]
    t = truth(
        data={"domains": {"occupation": occupations, "occupation_husb": occupations}},
        preprocessing=[
            {"encoder": "server-dictionary", "scaler": "local", "encoder_epsilon": 1.0, "keep_from": 50.0, **more}
        ],
    )
    for data in t.federated.train.values():
        found = cells(t.layout, data)
        assert (found.categories < 0).any()
        np.testing.assert_allclose(encoded_rows(t.layout, found), data.rows, atol=1e-5)


@pytest.mark.parametrize("method", METHODS[:4])
def test_the_cells_of_a_batch_are_the_raw_values_of_its_rows(method):
    t = truth(preprocessing=method)
    (victim, round), batches = next(iter(t.federated.batches.items()))
    table, batch = t.federated.tables[victim].rows(batches[0]), t.batch(victim, round)
    for k, block in enumerate(t.layout.categorical):
        assert [block.values[c] for c in batch.categories[:, k]] == list(table.values(block.feature))
    np.testing.assert_allclose(batch.numbers, table.numbers(), atol=1e-4)
    np.testing.assert_array_equal(t.labels(victim, round), table.labels())


@pytest.mark.parametrize("candidates", ["private", "public"])
@pytest.mark.parametrize("encoder", ["rolling-hash", "mod-norm"])
def test_the_candidates_of_a_batch_are_those_of_the_partys_own_values_where_columns_do_not_tell_them(
    encoder, candidates
):
    few = {"buckets": 40} if encoder == "rolling-hash" else {}
    t = truth(preprocessing={"encoder": encoder, "candidates": candidates, **few})
    for (victim, round), batches in t.federated.batches.items():
        table, batch = t.federated.tables[victim].rows(batches[0]), t.batch(victim, round)
        for k, block in enumerate(t.layout.categorical):
            values = table.values(block.feature)
            if candidates == "public":
                assert [block.values[c] for c in batch.categories[:, k]] == list(values)
            elif encoder == "rolling-hash":
                assert list(batch.categories[:, k]) == [rolling_hash(v, buckets=40) for v in values]
            else:
                assert list(batch.categories[:, k]) == [int.from_bytes(v.encode(), "big") % block.size for v in values]


@pytest.mark.parametrize("number", [0.1, 36.6, 1e12 + 0.3])
def test_a_column_of_one_number_has_no_deviation_whatever_its_rounding(number):
    columns = np.full((60, 3), number)
    columns[:, 1] = np.arange(60)
    assert [of_column("std", column) > 0 for column in columns.T] == [False, True, False]
    told = replace(truth())
    told.__dict__["_unscaled"] = columns
    assert (told.deviations > 0).tolist() == [False, True, False]


def test_rows_without_candidates_have_no_true_cells():
    t = truth()
    data = next(iter(t.federated.train.values()))
    with pytest.raises(ValueError, match="encoded rows without the candidates"):
        cells(t.layout, Encoded(data.rows, data.labels))


def test_statistics_are_those_of_the_training_rows_of_one_party():
    t = truth()
    party = t.parties[0]
    numbers = t.federated.tables[party].numbers()
    feature = t.federated.schema.numeric[1]
    assert t.statistic(party, feature, "mean") == numbers[:, 1].mean()
    assert t.statistic(party, feature, "maximum") == numbers[:, 1].max()
    assert t.statistic(party, "", "count") == len(numbers)
    assert t.pooled_statistic("", "count") * 3 == sum(len(x) for x in t.federated.tables.values())
    with pytest.raises(KeyError):
        t.statistic(party, feature, "median")


def test_partitions_and_splits_are_the_same_for_every_method_of_a_seed():
    a, b = (truth(preprocessing=m) for m in (METHODS[0], METHODS[4]))
    for party in a.parties:
        assert a.federated.tables[party].fingerprint() == b.federated.tables[party].fingerprint()
