"""Names of parties."""

import re

from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.parties import RESERVED, named, numbered


def test_numbered_parties_start_at_one():
    assert numbered(3) == ["P1", "P2", "P3"]


def test_a_name_keeps_letters_digits_and_joins_what_is_between():
    assert named(["Klinik  Köln/Süd", "v1.2_b", "<=50K"]) == ["Klinik-Köln-Süd", "v1.2_b", "50K"]


def test_equal_reserved_and_empty_names_are_told_apart():
    assert named(["a b", "a-b", "server", "+"]) == ["a-b", "a-b-2", "server-2", "P4"]


@given(st.lists(st.text(max_size=4), max_size=12))
def test_names_are_distinct_and_fit_for_observers_and_files(labels):
    names = named(labels)
    assert len(set(names)) == len(labels)
    assert not RESERVED & set(names)
    assert all(re.fullmatch(r"[\w.-]+", n) for n in names)
