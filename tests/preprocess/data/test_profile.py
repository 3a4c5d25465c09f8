"""What rows say about a column, and that it joins."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.profile import distinct_classes, join_classes, join_kinds, kind_of

KNOWN = {
    "nothing": ([None, None], "empty"),
    "whole": (["1", "20.0", None, "-3"], "whole"),
    "fraction": (["1", "0.5"], "number"),
    "beyond exact": (["1e17"], "number"),
    "word": (["1", "x"], "text"),
    "code": (["02139", "10115"], "text"),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_column_holds_nothing_whole_numbers_numbers_or_text(case):
    values, kind = KNOWN[case]
    assert kind_of(pd.Series(values, dtype="str")) == kind


def test_numbers_are_never_text():
    assert kind_of(pd.Series([1.0, 2.5])) == "number"
    assert kind_of(pd.Series([1.0, np.nan])) == "whole"


CELLS = st.sampled_from([None, "0", "1", "2.0", "10", "0.5", "1e17", "007", "x", "y z"])
PIECES = st.lists(st.lists(CELLS, min_size=1), min_size=1, max_size=4)


@given(PIECES)
def test_the_kind_of_all_rows_follows_from_the_kinds_of_any_pieces(pieces):
    columns = [pd.Series(piece, dtype="str") for piece in pieces]
    assert join_kinds(map(kind_of, columns)) == kind_of(pd.concat(columns, ignore_index=True))


@given(PIECES, st.sampled_from([None, 1, 3]))
def test_the_classes_of_all_rows_follow_from_those_of_any_pieces(pieces, most):
    columns = [pd.Series(piece, dtype="str") for piece in pieces]
    together = distinct_classes(pd.concat(columns, ignore_index=True), most)
    assert join_classes([distinct_classes(c, most) for c in columns], most) == together
