import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.reports.toml import toml

scalars = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=5))
def test_what_is_written_reads_back_as_it_was(config):
    assert tomllib.loads(toml(config)) == config


def test_tables_come_after_plain_keys_so_that_none_is_swallowed_by_a_table():
    config = {"data": {"source": "a"}, "seeds": [0, 1], "defense": [{"name": "none"}, {"name": "noise", "sigma": 0.1}]}
    text = toml(config)
    assert tomllib.loads(text) == config
    assert text.index("seeds") < text.index("[data]") < text.index("[[defense]]")


def test_what_is_not_set_is_left_out():
    assert toml({"a": None, "b": {"c": None}}) == "[b]\n"


@pytest.mark.parametrize("odd", ['"""', "a\nb", "\\", "\x7f\x00", "\ud800", "مستشفى", "]\n[x]"])
def test_no_text_breaks_out_of_its_string(odd):
    read = tomllib.loads(toml({"name": odd, odd: 1, "t": [{"k": odd}]}))
    assert set(read) == {"name", "t", odd.replace("\ud800", "\ufffd")}
