"""Cells checked against the schema, missing values treated as asked."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared
from tests.every import every

SECRET = "secret-7"
DECLARED = Declared(
    target="y",
    categorical=("diet",),
    numeric=("age",),
    orders={"diet": ("none", "light", "full")},
    ranges={"age": (0, 120)},
)
ROWS = [("none", "31", "no"), ("full", "42", "yes"), ("light", "60", "yes"), ("full", "7", "no")]


def read(rows, declared=DECLARED, **options):
    return read_table(pd.DataFrame(rows, columns=["diet", "age", "y"], dtype="str"), declared, **options)


def changed(row, **cells):
    """The rows with some cells of one changed."""
    names = ("diet", "age", "y")
    return [
        tuple(cells.get(n, v) if i == row else v for n, v in zip(names, r, strict=True)) for i, r in enumerate(ROWS)
    ]


BAD = {
    "text": (changed(2, age=SECRET), "row 3: column 'age' holds text, not a number"),
    "several texts": (changed(0, age=SECRET)[:1] + changed(3, age="x")[1:], r"row 1 \(and 1 more row\): column 'age'"),
    "inf": (changed(1, age="inf"), "row 2: column 'age' is not finite"),
    "minus inf": (changed(1, age="-Infinity"), "row 2: column 'age' is not finite"),
    "nan": (changed(3, age="nan"), "row 4: column 'age' is not finite; leave the field empty"),
    "overflow": (changed(3, age="1e999"), "row 4: column 'age' is not finite"),
    "too large to be squared": (changed(2, age="-1e308"), r"row 3: column 'age' is beyond 1e\+150"),
    "out of range": (changed(0, age="121"), r"row 1: column 'age' is outside its declared range \[0, 120\]"),
    "below the range": (changed(0, age="-1"), r"row 1: column 'age' is outside its declared range \[0, 120\]"),
    "no whole number": (changed(0, age="31.5"), "row 1: column 'age' is no whole number, as the schema has it"),
    "not in order": (changed(1, diet=SECRET), "row 2: column 'diet' is not in its declared order"),
    "no class": (changed(2, y=SECRET), "row 3: column 'y' is none of the declared classes"),
}


@every("case", BAD)
def test_a_bad_cell_is_named_by_row_and_column_and_never_shown(case):
    rows, problem = BAD[case]
    full = read(ROWS).schema
    with pytest.raises(DataError, match=f"^table: {problem}[^\n]*$") as error:
        read(rows, full)
    assert SECRET not in str(error.value)


def test_a_value_outside_the_declared_domain_is_refused_and_a_declared_one_need_not_be_held():
    domain = Declared(
        target="y", categorical=("diet",), numeric=("age",), domains={"diet": ("none", "light", "full", "x")}
    )
    assert read(ROWS, domain).schema.domains["diet"][-1] == "x"
    with pytest.raises(
        DataError, match=r"^table: row 2: column 'diet' is none of its declared values; [^\n]*$"
    ) as error:
        read(changed(1, diet=SECRET), domain)
    assert SECRET not in str(error.value)
    kept = read(changed(1, diet=""), domain, missing="keep")  # a missing value is not an undeclared one
    assert kept.frame["diet"].isna().sum() == 1


def test_a_domain_of_what_is_no_categorical_feature_is_refused_and_not_passed_over():
    """It was left out without a word: that no row may hold another value was not so."""
    for column, why in {
        "y": "the target, whose values are its classes; take it out",
        "age": "numeric; list it",
    }.items():
        with pytest.raises(DataError, match=f"^table: domains names {column!r}, which is {why}[^\n]*$"):
            read(ROWS, Declared(target="y", numeric=("age",), domains={column: ("7",)}))
    of_another = Declared(target="y", domains={"diet": ("none", "light", "full")})
    assert read(ROWS, of_another, target="diet").schema.domains == {}  # it was a feature's
    assert read(
        ROWS, Declared(target="y", categorical=("age",), domains={"age": ("7", "31", "42", "60")})
    ).schema.domains


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ({"ranges": {"diet": (0, 1)}}, "ranges names 'diet', which is categorical; list it under numeric"),
        ({"ranges": {"y": (0, 1)}}, "ranges names 'y', which is the target, which is not scaled; take it out"),
        ({"orders": {"age": ("7", "31")}}, "orders names 'age', which is numeric; list it under categorical"),
    ],
)
def test_a_range_or_an_order_of_a_column_that_has_none_is_refused_and_not_passed_over(declared, error):
    with pytest.raises(DataError, match=f"^table: {error}[^\n]*$"):
        read(ROWS, Declared(target="y", numeric=("age",), **declared))


def test_a_range_of_the_feature_that_another_target_is_chosen_from_is_left_behind():
    """It was refused, with the advice to take it out of a schema that was right for its own target."""
    of_another = Declared(target="y", ranges={"age": (0, 99)})
    assert read(ROWS, of_another, target="age").schema.ranges == {}


def test_an_infinite_number_in_a_numeric_column_is_found_in_a_frame_too():
    frame = pd.DataFrame({"x": [1.0, float("inf")], "y": ["a", "b"]})
    with pytest.raises(DataError, match="row 2: column 'x' is not finite"):
        read_table(frame, target="y")


def test_missing_values_are_counted_per_column():
    rows = [("", "31", "no"), ("", "", "yes"), *ROWS]
    with pytest.raises(
        DataError, match=r"^table: missing values: diet 2, age 1 \(of 6 rows\); set missing to 'drop' or 'impute'$"
    ):
        read(rows)


def test_rows_with_a_missing_value_are_dropped():
    table = read([("", "31", "no"), *ROWS, ("none", "1", "")], missing="drop")
    assert table.frame.index.tolist() == [0, 1, 2, 3]
    assert table.frame.to_numpy(dtype=object).tolist() == read(ROWS).frame.to_numpy(dtype=object).tolist()


def test_dropping_must_leave_rows_and_two_classes():
    full = read(ROWS).schema
    with pytest.raises(DataError, match="every row misses a value"):
        read([("", "1", "no"), ("none", "", "yes")], full, missing="drop")
    with pytest.raises(DataError, match="target 'y' is the same in every row"):
        read([("none", "1", "no"), ("none", "", "yes")], missing="drop")


def test_imputation_fills_with_the_lower_median_and_the_most_frequent_value():
    table = read([*ROWS, ("", "", "no")], missing="impute")
    assert table.frame.iloc[-1].tolist() == ["full", 31.0, "no"]
    assert table.schema.integer == ("age",)


def test_of_several_most_frequent_values_the_first_in_sorted_order_fills():
    assert read([*ROWS, ("none", "1", "no"), ("", "2", "no")], missing="impute").values("diet")[-1] == "full"


def test_a_missing_target_is_never_made_up():
    with pytest.raises(DataError, match="target 'y' is missing in 1 row; set missing to 'drop'"):
        read([*ROWS, ("none", "1", "")], missing="impute")


def test_a_column_without_values_cannot_be_imputed():
    with pytest.raises(DataError, match="column 'age' holds nothing to impute from"):
        read([(d, "", y) for d, _, y in ROWS], missing="impute")


def test_an_unknown_treatment_suggests_one():
    with pytest.raises(
        DataError, match=r"missing 'imput' is unknown \(did you mean 'impute'\?\); choose one of error, drop"
    ):
        read(ROWS, missing="imput")


def test_columns_beyond_the_schema_may_miss_values_and_are_carried_along():
    frame = pd.DataFrame({"x": [1, 2], "id": [7.0, None], "y": ["a", "b"]})
    table = read_table(frame, Declared(target="y", numeric=("x",), categorical=()))
    assert table.values("id").tolist()[0] == "7"
    assert table.schema.features == ("x",)


CELL = st.sampled_from(["", "none", "full"])


@given(st.lists(st.tuples(CELL, st.sampled_from(["", "1", "2.5"]), st.sampled_from(["no", "yes"])), max_size=12))
def test_no_value_is_missing_after_dropping_or_imputing(rows):
    rows = [*ROWS, *rows]
    dropped, imputed = read(rows, missing="drop"), read(rows, missing="impute")
    assert len(dropped) == sum("" not in r for r in rows)
    assert len(imputed) == len(rows)
    assert not imputed.frame.isna().any(axis=None)
    assert set(imputed.values("diet")) == {r[0] for r in rows} - {""}
    assert set(imputed.numbers()[:, 0]) == {float(r[1]) for r in rows if r[1]}
