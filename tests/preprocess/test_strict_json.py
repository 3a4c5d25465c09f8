import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess import strict_json
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema_file import read_schema

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(plain)
def test_what_has_no_key_twice_is_read_as_it_is(value):
    assert strict_json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 0, "a": 2}}]'])
def test_a_key_that_is_there_twice_is_refused_however_deep(text):
    with pytest.raises(ValueError, match=r"^the key 'a' is there twice; remove one$"):
        strict_json.loads(text)


def test_a_schema_with_a_key_twice_is_refused(tmp_path):
    path = tmp_path / "t.schema.json"
    path.write_text('{"target": "y", "numeric": ["age"], "numeric": []}')
    with pytest.raises(DataError, match=r"t\.schema\.json: not a schema .* the key 'numeric' is there twice"):
        read_schema(path)
