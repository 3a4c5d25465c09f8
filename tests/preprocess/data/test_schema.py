"""Schemas: what they refuse."""

import numpy as np
import pytest

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema import Schema
from tests.every import every

SCHEMA = Schema(
    target="ill",
    categorical=("city", "diet"),
    numeric=("age", "dose"),
    task="binary",
    classes=("no", "yes"),
    sensitive=("ill", "age"),
    integer=("age",),
    orders={"diet": ("none", "light", "full")},
    ranges={"age": (0.0, 120.0)},
)
REGRESSION = Schema("dose", ("city",), ("age",), "regression", ())


def test_features_are_categorical_then_numeric_and_the_second_class_is_positive():
    assert SCHEMA.features == ("city", "diet", "age", "dose")
    assert SCHEMA.positive_class == "yes"
    assert REGRESSION.positive_class is None


def test_a_schema_survives_as_plain_data():
    assert Schema.from_plain(SCHEMA.to_plain()) == SCHEMA
    assert Schema.from_plain(REGRESSION.to_plain()) == REGRESSION


@pytest.mark.parametrize("schema", [SCHEMA, REGRESSION])
def test_a_schema_as_a_declaration_leaves_nothing_open(schema):
    basis = Basis(schema.declaration(), (*schema.features, schema.target))
    assert (basis.asked, basis.classes_are_open, basis.negotiated) == ((), False, ())
    assert basis.schema({}, None) == schema


WRONG = {
    "no features": ({"categorical": (), "numeric": ()}, "there are no features"),
    "listed twice": ({"numeric": ("age", "dose", "city")}, "'city' is listed twice"),
    "target as feature": ({"target": "age"}, "'age' is listed twice"),
    "sensitive unknown": ({"sensitive": ("agee",)}, r"sensitive names 'agee'.*did you mean 'age'\?"),
    "integer unknown": ({"integer": ("city",)}, "integer names 'city'"),
    "order of a number": ({"orders": {"age": ("1",)}}, "orders names 'age'"),
    "range of a text": ({"ranges": {"city": (0, 1)}}, "ranges names 'city'"),
    "range upside down": ({"ranges": {"age": (1, 0)}}, r"the range of 'age' is \[1, 0\]"),
    "endless range": ({"ranges": {"age": (0, np.inf)}}, r"the range of 'age' is \[0, inf\]"),
    "order with a repeat": ({"orders": {"diet": ("a", "a")}}, "the order of 'diet' lists a value twice"),
    "classes with a repeat": ({"classes": ("a", "a")}, "the order of 'ill' lists a value twice"),
    "three for binary": ({"classes": ("a", "b", "c")}, "a binary target has two classes, 'ill' has 3; set task"),
    "one for multiclass": ({"task": "multiclass", "classes": ("a",)}, "has two or more classes, 'ill' has 1"),
    "classes of a regression": ({"task": "regression"}, "a regression target has no classes, 'ill' has 2"),
    "unknown task": ({"task": "ranking"}, "task 'ranking' is unknown"),
}


@every("case", WRONG)
def test_a_schema_that_contradicts_itself_is_refused_in_one_line(case):
    change, problem = WRONG[case]
    with pytest.raises(DataError, match=f"^schema: [^\n]*{problem}[^\n]*$"):
        Schema(**{**vars(SCHEMA), **change})
