"""One column: text or numbers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.columns import as_numbers, as_text, is_code, is_whole, plain, plain_frame, words
from leakledger.preprocess.data.errors import DataError

COLUMNS = {
    "int": (pd.Series([1, 2]), [1.0, 2.0]),
    "nullable int": (pd.Series([1, None], dtype="Int64"), [1.0, None]),
    "float": (pd.Series([1.5, np.nan]), [1.5, None]),
    "truth": (pd.Series([True, False]), ["True", "False"]),
    "truth or missing": (pd.Series([True, None], dtype=object), ["True", None]),
    "text": (pd.Series(["a", "", None]), ["a", None, None]),
    "text and numbers": (pd.Series(["a", 1, None], dtype=object), ["a", "1", None]),
    "category": (pd.Series(pd.Categorical([1, None])), ["1", None]),
    "date": (pd.Series(pd.to_datetime(["2020-01-31", None])), ["2020-01-31", None]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_plain_column_is_text_or_numbers_whatever_it_came_as(kind):
    column, expected = COLUMNS[kind]
    result = plain(column, [""])
    assert str(result.dtype) == ("float64" if isinstance(expected[0], float) else "str")
    assert [None if pd.isna(v) else v for v in result] == expected


@pytest.mark.parametrize("value", [[1], b"x", 1 + 2j, {"a": 1}])
def test_cells_that_are_neither_text_nor_numbers_are_refused_by_column_and_type(value):
    frame = pd.DataFrame({"x": pd.Series([value])})
    with pytest.raises(DataError, match=rf"^table: column 'x' holds {type(value).__name__} values; turn them into"):
        plain_frame(frame, [""], "table")


@pytest.mark.parametrize(
    ("names", "problem"), [([0], "column 0 has no name"), ([""], "'' has no name"), (["a", "a"], "two")]
)
def test_columns_need_distinct_names_in_text(names, problem):
    with pytest.raises(DataError, match=problem):
        plain_frame(pd.DataFrame([[1] * len(names)], columns=names), [""], "table")


def test_only_the_listed_texts_are_missing():
    column = pd.Series(["NA", "nan", "None", "?", ""])
    assert plain(column, [""]).tolist()[:4] == ["NA", "nan", "None", "?"]
    assert plain(column, ["", "?"]).isna().tolist() == [False, False, False, True, True]


@given(st.lists(st.floats(allow_nan=False) | st.none(), min_size=1))
def test_numbers_survive_as_text(values):
    column = pd.Series(values, dtype=np.float64)
    text = as_text(column)
    assert text.isna().tolist() == column.isna().tolist()
    assert as_numbers(text).tolist() == pytest.approx(column.tolist(), rel=1e-15, nan_ok=True)


def test_whole_numbers_are_written_without_a_point():
    assert as_text(pd.Series([1.0, 20.0, np.nan])).tolist()[:2] == ["1", "20"]
    assert as_text(pd.Series([1.0, 2.5])).tolist() == ["1", "2.5"]
    assert as_text(pd.Series([1.0, np.inf])).tolist() == ["1", "inf"]
    assert as_text(pd.Series([1e17, 2.0])).tolist() == ["1e+17", "2"]


def test_words_are_texts_that_are_no_numbers():
    column = pd.Series(["1", " 2 ", "1e5", "inf", "NaN", "1,5", "x", None], dtype="str")
    assert words(column).tolist() == [False] * 5 + [True, True, False]
    assert not words(pd.Series([1.0, np.nan])).any()


def test_leading_zeros_make_a_code():
    assert is_code(pd.Series(["02139", "10115"], dtype="str"))
    assert is_code(pd.Series([" 02139", "10115"], dtype="str"))  # as after ", "
    assert not is_code(pd.Series(["0", "0.5", "-0.1", "10"], dtype="str"))


@pytest.mark.parametrize(
    ("cell", "code"), [(str(2**53), True), (f" -{2**53} ", True), ("9" * 5000, True), (str(2**53 - 1), False)]
)
def test_digits_that_a_number_would_not_keep_make_a_code(cell, code):
    assert is_code(pd.Series(["7", cell, None], dtype="str")) == code


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64"])
def test_whole_numbers_that_floats_would_not_tell_apart_stay_two_texts(kind):
    ids = [2**53, 2**53 + 1]
    assert plain(pd.Series(ids, dtype=kind), [""]).tolist() == [str(n) for n in ids]
    gap = plain(pd.Series([*ids, None], dtype="Int64"), [""])
    assert [None if pd.isna(v) else v for v in gap] == [*map(str, ids), None]


@pytest.mark.parametrize(
    ("numbers", "whole"), [([1, 2], 1), ([1, np.nan], 1), ([0.5], 0), ([np.nan], 0), ([2.0**60], 0)]
)
def test_whole_means_exact_integers_and_at_least_one(numbers, whole):
    assert is_whole(np.array(numbers, float)) == bool(whole)
