import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.alignment.parties import PartySchema
from leakledger.preprocess.alignment.serialise import FORMATS, as_texts, serialise, texts_of
from leakledger.preprocess.data.read import read_table

CELLS = [("Age", "45"), ("SysBP", "140.5")]


def test_the_formats_are_word_for_word_those_of_the_paper():
    assert serialise(CELLS, "structured") == "Age: 45, SysBP: 140.5"
    assert serialise(CELLS, "compact") == "Age=45; SysBP=140.5"
    assert serialise(CELLS, "natural") == "The Age is 45. The SysBP is 140.5."


def test_an_unknown_format_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="structured"):
        serialise(CELLS, "structurd")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_number_is_written_so_that_it_can_be_told_from_any_other(numbers):
    assert [float(t) for t in as_texts(np.array(numbers))] == numbers


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_has_the_partys_features_under_its_names_and_no_other(format):
    table = read_table("fair").rows(np.arange(3))
    features = table.schema.features[:2]
    for text in texts_of(table, PartySchema(features, ("one", "two")), format):
        assert "one" in text
        assert "two" in text
        assert not any(f in text for f in table.schema.features[2:])
