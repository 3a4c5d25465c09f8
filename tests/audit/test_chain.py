import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit.chain import GENESIS, ChainError, canonical, check_chain, digest_of, digest_of_file, extended

digests = st.binary(max_size=4).map(digest_of)
contents = st.lists(st.tuples(st.text(max_size=8), digests), min_size=1, max_size=6)


def test_a_head_can_be_computed_by_hand():
    (entry,) = extended(GENESIS, [("results.json", digest_of(b"{}"))])
    text = f'["{GENESIS}","results.json","{hashlib.sha256(b"{}").hexdigest()}"]'
    assert entry.head == hashlib.sha256(text.encode()).hexdigest()


@given(contents, st.data())
def test_entries_follow_however_they_were_appended(items, data):
    cut = data.draw(st.integers(0, len(items)))
    first = extended(GENESIS, items[:cut])
    entries = first + extended(first[-1].head if first else GENESIS, items[cut:])
    assert entries == extended(GENESIS, items)
    check_chain(entries)


@given(contents, st.data())
def test_one_change_is_found_at_the_entry_that_has_it(items, data):
    entries = extended(GENESIS, items)
    at = data.draw(st.integers(0, len(entries) - 1))
    field = data.draw(st.sampled_from(["name", "digest", "head"]))
    entries[at] = replace(entries[at], **{field: getattr(entries[at], field) + "0"})
    with pytest.raises(ChainError, match=rf"^entry {at + 1} \("):
        check_chain(entries)


@given(contents.filter(lambda items: len(items) > 1), st.data())
def test_an_entry_taken_out_or_moved_is_found_unless_it_is_the_last(items, data):
    entries = extended(GENESIS, items)
    at = data.draw(st.integers(0, len(entries) - 2))
    with pytest.raises(ChainError):
        check_chain(entries[:at] + entries[at + 1 :])
    moved = [*entries[:at], entries[at + 1], entries[at], *entries[at + 2 :]]
    with pytest.raises(ChainError):
        check_chain(moved)
    check_chain(entries[:-1])  # what a chain cannot show: its end is missing


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)))
def test_canonical_text_does_not_depend_on_order_and_reads_back(plain):
    assert canonical(plain) == canonical(dict(reversed(plain.items())))
    assert json.loads(canonical(plain)) == plain


def test_what_json_has_no_word_for_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical([float("nan")])
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    assert digest_of_file(tmp_path / "a") == digest_of(b"x" * 100_000)
