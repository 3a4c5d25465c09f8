"""Errors about columns say what their user calls them, and no scaler is handed numbers that are not finite."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from leakledger.preprocess.column_errors import ColumnError, check_finite, naming_columns
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.method_errors import MethodError
from leakledger.preprocess.pipeline import name_of_column, prepare
from leakledger.preprocess.scalers import ALIASES, SCALERS, Scaler, canonical
from leakledger.preprocess.views import CategoricalBlock, NumericBlock
from tests.every import every
from tests.preprocess.example import SCHEMA, simulated, table

RANGED = replace(SCHEMA, ranges={"age": (0.0, 100.0), "dose": (-100.0, 100.0)})


@dataclass(frozen=True)
class Elsewhere(Scaler):
    """A scaler of somebody else, which would not notice anything."""

    name = "elsewhere"
    reference = "a test"

    def fit(self, fed, columns):
        raise AssertionError("it was handed the columns")


Elsewhere.__module__ = "elsewhere"


def spoilt(column, value):
    """Three tables, the second of which has `value` in a row of `column`, or in all of them."""
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    frame = tables["P2"].frame.copy()
    frame[column] = np.where(np.arange(30) == 7, value, frame[column])
    return {**tables, "P2": replace(tables["P2"], frame=frame)}


def preparing(tables, scaler, encoder="local", **options):
    fed, located = simulated(tables)
    return fed, lambda: prepare(fed, RANGED, located, located, ENCODERS[encoder](**options), scaler)


@every("name", [*SCALERS, *ALIASES])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_by_party_and_feature_before_its_scaler_tells_anything(name, bad):
    real, options = canonical(name)
    fed, run = preparing(spoilt("dose", bad), SCALERS[real](**options))
    with pytest.raises(ValueError, match=r"^column 'dose' holds numbers that are not finite") as error:
        run()
    assert "at P2" in error.value.__notes__[0]
    assert "scale" not in {m.step for m in fed.ledger}


def test_a_scaler_of_somebody_else_is_not_handed_numbers_that_are_not_finite():
    _, run = preparing(spoilt("age", np.inf), Elsewhere())
    with pytest.raises(ValueError, match=r"^column 'age' holds numbers that are not finite") as error:
        run()
    assert not isinstance(error.value, MethodError)


def test_a_column_that_one_pass_leaves_no_deviation_is_named_as_its_user_knows_it():
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    tables = {p: replace(t, frame=t.frame.assign(dose=4.0)) for p, t in tables.items()}
    _, run = preparing(tables, SCALERS["zscore-sac"](passes=1))
    with pytest.raises(ValueError, match=r"^column 'dose' deviates from its mean by too little for one pass"):
        run()


def test_an_encoded_column_is_named_by_its_feature_and_its_place_there():
    tables = {f"P{i}": table(30, i, wards=("urology",)) for i in (1, 2, 3)}
    _, run = preparing(tables, SCALERS["zscore-sac"](passes=1, columns="all"), "rolling-hash", buckets=40)
    with pytest.raises(ValueError, match=r"^column \d+ of the encoded 'ward', 'diet' deviates"):
        run()
    blocks = (CategoricalBlock("ward", 0, 3), NumericBlock("diet", 3))
    assert [name_of_column(SCHEMA, blocks, i) for i in (0, 4, 5)] == [
        "column 'age'",
        "column 3 of the encoded 'ward'",
        "column 1 of the encoded 'diet'",
    ]


@pytest.mark.parametrize("encoder", ["bytes-norm", "mod-norm"])
def test_a_feature_whose_codes_one_pass_cannot_tell_apart_is_named(encoder):
    tables = {f"P{i}": table(30, i) for i in (1, 2, 3)}
    tables = {p: replace(t, frame=t.frame.assign(diet="light").astype({"diet": "str"})) for p, t in tables.items()}
    _, run = preparing(tables, SCALERS["local"](), encoder, passes=1)
    with pytest.raises(ValueError, match=r"^column 'diet' deviates from its mean by too little"):
        run()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_column_without_a_name_is_told_by_its_number_and_the_error_survives_processes(bad):
    with pytest.raises(ColumnError, match=r"^column 2 holds numbers that are not finite") as error:
        check_finite(np.array([[1.0, 2.0], [3.0, bad]]))
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)
    with pytest.raises(ValueError, match=r"^the second holds"), naming_columns(("the first", "the second").__getitem__):
        raise again
