"""Imputation in a federation: by each party's own training rows, without a message."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.imputation import impute
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess.contract import assert_same_views

DECLARED = Declared(target="y", categorical=("pet",), numeric=("age",), classes=("a", "b"), integer=())
AGES = {"P1": [1.0, 3.0, 5.0, np.nan], "P2": [20.0, np.nan, 40.0, 60.0]}


def tables(ages):
    frame = pd.DataFrame({"pet": ["cat", None, "dog", "dog"], "age": ages, "y": ["a", "b", "a", "b"]})
    table = read_table(frame, DECLARED, missing="keep")
    return table.rows(np.array([0, 1, 2])), table.rows(np.array([3]))


def imputed(ages):
    split = {p: tables(a) for p, a in ages.items()}
    fed = Simulated(list(split), secret=pinned(0))
    return fed, impute(fed, *({p: fed.at(p, pair[k]) for p, pair in split.items()} for k in (0, 1)))


def test_training_rows_fill_training_and_held_out_rows_of_their_party_and_nothing_is_told():
    fed, (train, test) = imputed(AGES)
    assert {p: fed.own(t).frame["age"].tolist() for p, t in train.items()} == {
        "P1": [1.0, 3.0, 5.0],
        "P2": [20.0, 20.0, 40.0],
    }
    assert {p: fed.own(t).frame["age"].tolist() for p, t in test.items()} == {"P1": [3.0], "P2": [60.0]}
    assert fed.own(train["P1"]).values("pet").tolist() == ["cat", "cat", "dog"]
    assert len(fed.ledger) == 0


def test_a_party_without_any_value_of_a_feature_is_named():
    with pytest.raises(DataError, match="column 'age' holds nothing to impute from") as error:
        imputed({**AGES, "P2": [np.nan] * 3 + [60.0]})
    assert error.value.__notes__ == ["in fill at P2 (step impute, round 0)"]


def imputation(fed: Any, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    train, test = ({p: fed.local(p, read_part, x, k) for p, x in inputs.items()} for k in (0, 1))
    return {p: fed.local(p, Table.to_plain, t) for part in impute(fed, train, test) for p, t in part.items()}


def read_part(plain: list[Any], part: int) -> Table:
    return Table.from_plain(plain[part])


def test_projected_is_simulated():
    inputs = {p: [t.to_plain() for t in tables(a)] for p, a in AGES.items()}
    found = assert_same_views(imputation, list(AGES), inputs, {})
    assert all(r.messages == () for r in found.values())
