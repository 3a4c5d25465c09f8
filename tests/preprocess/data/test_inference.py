"""What the rows of a table say where nothing is declared."""

import pandas as pd
import pytest

from leakledger.preprocess.data import inference
from leakledger.preprocess.data.columns import plain_frame
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.inference import basis_of, infer_schema
from leakledger.preprocess.data.schema_file import Declared

FRAME = pd.DataFrame(
    {
        "city": ["Ulm", "Bonn", "Ulm", "Kiel"],
        "age": [31, 42, 55, 60],
        "dose": [0.5, 1.5, 2.5, 0.25],
        "smokes": [True, False, True, True],
        "floor": [1, 2, 1, 2],
        "size": pd.Categorical(["S", "L", "S", "M"], categories=["S", "M", "L"], ordered=True),
        "ill": ["no", "yes", "yes", "no"],
    }
)


def of_text(**columns):
    """A plain frame as CSV gives it: all text."""
    return plain_frame(pd.DataFrame(columns, dtype="str"), [""], "t.csv")


def infer(declared=None, **columns):
    frame = of_text(**columns)
    return inference.infer(basis_of(declared or Declared(target="y"), frame, "t.csv", typed=False), frame)


def test_kinds_follow_the_types_of_a_frame():
    schema = infer_schema(FRAME, "ill")
    assert schema.categorical == ("city", "smokes", "size")
    assert schema.numeric == ("age", "dose", "floor")
    assert schema.integer == ("age", "floor")
    assert schema.orders == {"size": ("S", "M", "L")}
    assert (schema.task, schema.classes) == ("binary", ("no", "yes"))


def test_numbers_in_text_are_text_in_a_frame_and_numbers_in_a_file():
    frame = pd.DataFrame({"x": ["1", "2"], "y": ["a", "b"]})
    assert infer_schema(frame, "y").categorical == ("x",)
    assert infer(x=["1", "2"], y=["a", "b"]).numeric == ("x",)


def test_leading_zeros_make_a_column_of_a_file_categorical():
    assert infer(zip=["02139", "10115"], y=["a", "b"]).categorical == ("zip",)


def test_numbers_with_some_text_are_refused_with_the_first_row():
    with pytest.raises(
        DataError, match=r"^t\.csv: column 'x' holds numbers, but text in 1 row \(the first is row 3\);"
    ):
        infer(x=["1", "2", "NA", "4"], y=["a", "b", "a", "b"])
    assert infer(x=["1", "b", "c", "4"], y=["a", "b", "a", "b"]).categorical == ("x",)


TASKS = {
    "two texts": (["b", "a", "b", "a"], "binary", ("a", "b")),
    "two numbers": (["1", "0", "1", "0"], "binary", ("0", "1")),
    "any two numbers": (["2.5", "10", "2.5", "10"], "binary", ("2.5", "10")),
    "three texts": (["b", "a", "c", "a"], "multiclass", ("a", "b", "c")),
    "few whole numbers": (["9", "10", "2", "9"], "multiclass", ("2", "9", "10")),
    "fractions": (["0.5", "1", "2", "3"], "regression", ()),
    "many whole numbers": ([str(i) for i in range(11)], "regression", ()),
    "ten whole numbers": ([str(i) for i in range(10)], "multiclass", tuple(map(str, range(10)))),
    "codes": (["01", "02", "03", "01"], "multiclass", ("01", "02", "03")),
}


@pytest.mark.parametrize("case", TASKS)
def test_the_task_follows_the_target(case):
    values, task, classes = TASKS[case]
    schema = infer(x=[str(i / 2) for i in range(len(values))], y=values)
    assert (schema.task, schema.classes) == (task, classes)


def test_a_declared_task_positive_class_or_order_decides():
    columns = {"x": ["1", "2", "3", "4"], "y": ["1", "2", "3", "3"]}
    assert infer(Declared(target="y", task="regression"), **columns).classes == ()
    assert infer(Declared(target="y", orders={"y": ("3", "1", "2")}), **columns).classes == ("3", "1", "2")
    two = {"x": ["1", "2"], "y": ["good", "bad"]}
    assert infer(**two).classes == ("bad", "good")
    assert infer(Declared(target="y", positive_class="bad"), **two).classes == ("good", "bad")


def test_what_a_partial_declaration_leaves_open_is_inferred():
    columns = {"a": ["x", "y"], "b": ["x", "z"], "n": ["1", "2"], "m": ["3", "4"], "y": ["0", "1"]}
    only_text = infer(Declared(target="y", categorical=("b",)), **columns)
    assert (only_text.categorical, only_text.numeric) == (("b",), ("n", "m"))
    only_numbers = infer(Declared(target="y", numeric=("m",), drop=("a",)), **columns)
    assert (only_numbers.categorical, only_numbers.numeric) == (("b",), ("m",))
    coded = infer(Declared(target="y", categorical=("n", "b"), sensitive=("n", "a", "y")), **columns)
    assert coded.categorical == ("n", "b")
    assert coded.sensitive == ("n", "y")


UNUSABLE = {
    "no target": (Declared(), r"no target; name the column to predict, one of age, y"),
    "unknown target": (Declared(target="agee"), r"no column 'agee' \(did you mean 'age'\?\); correct the target"),
    "unknown feature": (Declared(target="y", numeric=("ages",)), r"no column 'ages' \(did you mean 'age'\?\)"),
    "unknown sensitive": (Declared(target="y", sensitive=("race",)), "no column 'race'; correct"),
    "unknown in drop": (Declared(target="y", drop=("id",)), "no column 'id'"),
    "unknown in ranges": (Declared(target="y", ranges={"x": (0, 1)}), "no column 'x'"),
    "dropped and used": (Declared(target="y", numeric=("age",), drop=("age",)), "'age' is in drop and used"),
    "unknown positive": (
        Declared(target="y", positive_class="C"),
        r"positive_class 'C' is no value of target 'y' \(did",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_declaration_that_does_not_fit_the_table_is_refused_in_one_line(case):
    declared, problem = UNUSABLE[case]
    with pytest.raises(DataError, match=rf"^t\.csv: {problem}[^\n]*$"):
        infer(declared, age=["1", "2", "3"], y=["a", "b", "c"])


def test_a_binary_target_of_three_values_is_refused():
    with pytest.raises(DataError, match="a binary target has two classes, 'y' has 3; set task"):
        infer(Declared(target="y", positive_class="a"), age=["1", "2", "3"], y=["a", "b", "c"])


@pytest.mark.parametrize("values", [["a", "a"], ["", ""], ["a", ""]])
def test_a_target_without_two_values_is_refused(values):
    with pytest.raises(DataError, match="target 'y' has one value or none"):
        infer(age=["1", "2"], y=values)


def test_a_column_that_holds_nothing_is_refused():
    with pytest.raises(DataError, match="column 'x' holds nothing; list it under drop"):
        infer(x=["", ""], age=["1", "2"], y=["a", "b"])


def test_declared_classes_are_those_that_rows_do_not_hold_too_in_the_order_given():
    columns = {"x": ["1", "2", "3"], "y": ["b", "a", "b"]}
    schema = infer(Declared(target="y", classes=("c", "a", "b")), **columns)
    assert (schema.task, schema.classes) == ("multiclass", ("c", "a", "b"))
    two = infer(Declared(target="y", classes=("a", "b"), positive_class="a"), **columns)
    assert (two.task, two.classes) == ("binary", ("b", "a"))
    with pytest.raises(DataError, match="a regression target has no classes, 'y' has 2; set task"):
        infer(Declared(target="y", task="regression", classes=("a", "b")), **columns)


def test_declared_whole_numbers_are_those_and_no_others():
    columns = {"x": ["1", "2"], "z": ["3", "4"], "y": ["a", "b"]}
    assert infer(**columns).integer == ("x", "z")
    assert infer(Declared(target="y", integer=("z",)), **columns).integer == ("z",)
    assert infer(Declared(target="y", integer=()), **columns).integer == ()
