"""Filling missing values from a table's own rows."""

import numpy as np
import pandas as pd
import pytest

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.impute import fill, filled, filling_of
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared

DECLARED = Declared(target="y", categorical=("pet",), numeric=("age", "dose"))
FRAME = pd.DataFrame(
    {
        "pet": ["cat", None, "dog", "cat", None],
        "age": [1.0, 2.0, None, 10.0, 3.0],
        "dose": [0.5, None, None, None, None],
        "y": ["a", "b", "a", "b", "a"],
    }
)


def partial(frame=FRAME):
    return read_table(frame, DECLARED, missing="keep")


def test_a_table_that_keeps_missing_values_says_so_until_it_is_filled():
    table = partial()
    assert (table.partial, filled(table).partial) == (True, False)
    assert table.rows(np.array([0, 1])).partial
    assert table.frame.isna().sum().tolist() == [2, 1, 4, 0]
    assert type(table).from_plain(table.to_plain()).fingerprint() == table.fingerprint()


def test_numbers_take_the_lower_median_and_categories_the_most_frequent_value():
    assert filling_of(partial()) == {"pet": "cat", "age": 2.0, "dose": 0.5}


def test_values_of_one_table_fill_another():
    filling = filling_of(partial())
    table = fill(partial(FRAME.assign(age=[None, 7.0, 7.0, 7.0, 7.0])), filling)
    assert table.frame["age"].tolist() == [2.0, 7.0, 7.0, 7.0, 7.0]
    assert not table.frame.isna().any(axis=None)


def test_a_feature_without_values_fills_nothing_and_is_named_where_it_would_have_to():
    table = partial(FRAME.assign(dose=np.nan).astype({"dose": float}))
    assert "dose" not in filling_of(table)
    with pytest.raises(DataError, match="column 'dose' holds nothing to impute from; list it under drop"):
        filled(table)


def test_a_complete_table_is_itself():
    table = read_table(FRAME.drop(columns=["pet", "dose"]).dropna(), target="y")
    assert filled(table) is table
